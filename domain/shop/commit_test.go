package shop_test

import (
	"testing"

	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/shop"
)

// From the foreign vectors that package verify walks in full.
func TestReplyHash(t *testing.T) {
	t.Parallel()
	salt, err := domain.ParseHash("e776e1adcdb0b9264a22daf80e6abd79100eef525dbbb722aebbc1041c8fca15")
	if err != nil {
		t.Fatal(err)
	}
	const id = "shp_evmwdbivcm7gsejx5jq2_20270304_00"
	got := shop.ReplyHash(id, 1804118400007, 200, 40, salt, nil)
	if want := "c2fdac1d2dc8acbd3c1f46796c3c37b22876e8eafdccb79ab51da00b8236fc00"; got.String() != want {
		t.Errorf("ReplyHash = %s, want %s", got, want)
	}
	seen := map[domain.Hash]string{got: "nothing"}
	other := salt
	other[0]++
	for name, h := range map[string]domain.Hash{
		"shop":    shop.ReplyHash(id[1:], 1804118400007, 200, 40, salt, nil),
		"time":    shop.ReplyHash(id, 1804118400008, 200, 40, salt, nil),
		"status":  shop.ReplyHash(id, 1804118400007, 0, 40, salt, nil),
		"latency": shop.ReplyHash(id, 1804118400007, 200, 41, salt, nil),
		"salt":    shop.ReplyHash(id, 1804118400007, 200, 40, other, nil),
		"body":    shop.ReplyHash(id, 1804118400007, 200, 40, salt, []byte{0}),
	} {
		if same, dup := seen[h]; dup {
			t.Errorf("ReplyHash does not tell a change of %s from one of %s", name, same)
		}
		seen[h] = name
	}
}

func TestDeferredHash(t *testing.T) {
	t.Parallel()
	if got, want := shop.DeferredHash("block_hash", 12).String(), "eef69ca183fff0f08d07a8d7f9859058c2679ed5cbcf656e8fc83936dfac4695"; got != want {
		t.Errorf("DeferredHash = %s, want %s", got, want)
	}
	if shop.DeferredHash("balance", 12) == shop.DeferredHash("block_hash", 12) || shop.DeferredHash("balance", 12) == shop.DeferredHash("balance", 13) {
		t.Error("DeferredHash does not bind its rule and depth")
	}
}
