package attester_test

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"github.com/karatum/mystery/chain/attester"
	"github.com/karatum/mystery/chain/devchain/chaintest"
)

func TestReadKey(t *testing.T) {
	t.Parallel()
	key := chaintest.Key(7)
	digits := hex.EncodeToString(crypto.FromECDSA(key))
	stored, err := keystore.EncryptKey(&keystore.Key{Id: uuid.New(), Address: chaintest.Address(key), PrivateKey: key}, "a password", keystore.LightScryptN, keystore.LightScryptP)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, content, password string
		mode                    os.FileMode
		want                    string // in the error; "" if there is none
	}{
		{"digits", digits + "\n", "", 0o600, ""},
		{"digits behind 0x", "0x" + digits, "", 0o600, ""},
		{"keystore", string(stored), "a password\n", 0o600, ""},
		{"keystore with another password", string(stored), "another", 0o600, "does not open"},
		{"keystore without a password", string(stored), "", 0o600, "MYSTERY_ATTESTER_PASSWORD_FILE"},
		{"broken keystore", `{"version":3}`, "a password", 0o600, "does not open"},
		{"readable by others", digits, "", 0o640, "chmod 600"},
		{"too few digits", digits[1:], "", 0o600, "64 hex digits"},
		{"too many digits", digits + "0", "", 0o600, "64 hex digits"},
		{"no digits", strings.Repeat("x", 64), "", 0o600, "64 hex digits"},
		{"zero", strings.Repeat("0", 64), "", 0o600, "not a private key"},
		{"nothing", "", "", 0o600, "64 hex digits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file, password := filepath.Join(dir, "key"), ""
			write := func(path, text string, mode os.FileMode) {
				if err := os.WriteFile(path, []byte(text), mode); err != nil {
					t.Fatal(err)
				}
			}
			write(file, tt.content, tt.mode)
			if tt.password != "" {
				password = filepath.Join(dir, "password")
				write(password, tt.password, 0o600)
			}
			got, err := attester.ReadKey(file, password)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("ReadKey: %v", err)
			case tt.want == "" && got.Address() != chaintest.Address(key):
				t.Errorf("ReadKey gives the key of %s, want that of %s", got.Address(), chaintest.Address(key))
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("ReadKey = %v, want an error with %q", err, tt.want)
			case err != nil && strings.Contains(err.Error(), digits[1:]):
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
}

func TestKeyIsNotShown(t *testing.T) {
	t.Parallel()
	key := attester.NewKey(chaintest.Key(7))
	digits := strings.Repeat("07", 32)
	decimal := new(big.Int).SetBytes(crypto.FromECDSA(chaintest.Key(7))).String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, key); strings.Contains(got, digits) || strings.Contains(got, decimal) {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}
