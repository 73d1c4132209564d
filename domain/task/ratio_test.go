package task_test

import (
	"math/big"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/domain/task"
)

// reckon is what math/big makes of the same numbers.
func reckon(a, b *big.Rat) map[string]string {
	gap := new(big.Rat).Sub(a, b)
	results := map[string]string{
		"plus": new(big.Rat).Add(a, b).RatString(), "minus": gap.RatString(), "times": new(big.Rat).Mul(a, b).RatString(),
		"size": new(big.Rat).Abs(a).RatString(), "rounded 0": a.FloatString(0), "rounded 2": a.FloatString(2), "rounded 25": a.FloatString(25),
		"part": new(big.Rat).Mul(a, big.NewRat(1, 500)).RatString(), "order": strconv.Itoa(a.Cmp(b)),
		"near": strconv.FormatBool(new(big.Rat).Abs(gap).Cmp(big.NewRat(3, 1)) <= 0),
	}
	if b.Sign() != 0 {
		results["over"] = new(big.Rat).Quo(a, b).RatString()
	}
	return results
}

// Where words end and math/big takes over, nothing shows.
func TestRatiosAreExact(t *testing.T) {
	t.Parallel()
	numbers := []string{
		"0", "1", "-1", "3", "1/2", "-1/2", "5/2", "1/200", "-63/5", "1/3", "1005/1000", "999999999999999999", "-999999999999999999/7",
		"9223372036854775807", "-9223372036854775808", "1/9223372036854775807", "9223372036854775807/9223372036854775806",
		"1000000000000000000/3", "18446744073709551616", "123456789012345678901234567890/987654321", "-1/340282366920938463463374607431768211456",
		"340282366920938463463374607431768211457/340282366920938463463374607431768211456", "4", "1.5", "-0.25",
	}
	for _, a := range numbers {
		for _, b := range numbers {
			got, ok := task.Reckon(a, b)
			if !ok {
				t.Fatalf("%s and %s are not read", a, b)
			}
			x, _ := new(big.Rat).SetString(a)
			y, _ := new(big.Rat).SetString(b)
			if diff := cmp.Diff(reckon(x, y), got); diff != "" {
				t.Errorf("%s and %s (-math/big +ratio):\n%s", a, b, diff)
			}
		}
	}
}

func FuzzRatio(f *testing.F) {
	f.Add("1/3", "-999999999999999999/7")
	f.Add("12.5", "0017/5")
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 200 {
			return
		}
		got, ok := task.Reckon(a, b)
		if !ok {
			return
		}
		x, ok1 := new(big.Rat).SetString(a)
		y, ok2 := new(big.Rat).SetString(b)
		if !ok1 || !ok2 {
			t.Fatalf("%q and %q are read, but math/big does not", a, b)
		}
		if diff := cmp.Diff(reckon(x, y), got); diff != "" {
			t.Errorf("%s and %s (-math/big +ratio):\n%s", a, b, diff)
		}
	})
}
