package attester

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/hex"
	"fmt"
	"math/big"
	"os"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/karatum/mystery/domain"
)

// A Key signs transactions. It does not show itself, whichever way it is printed.
type Key struct{ private *ecdsa.PrivateKey }

// NewKey returns a Key that signs with private.
func NewKey(private *ecdsa.PrivateKey) *Key { return &Key{private} }

// Address returns the account that k signs for.
func (k *Key) Address() common.Address { return crypto.PubkeyToAddress(k.private.PublicKey) }

// String implements [fmt.Stringer].
func (k *Key) String() string { return "the key of " + k.Address().Hex() }

// GoString implements [fmt.GoStringer].
func (k *Key) GoString() string { return k.String() }

func (k *Key) sign(chain uint64, tx types.TxData) (*types.Transaction, error) {
	return types.SignNewTx(k.private, types.LatestSignerForChainID(new(big.Int).SetUint64(chain)), tx)
}

// ReadKey reads a key from a file that its owner alone can read: 64 hex digits, with
// or without 0x, or a keystore of go-ethereum, whose password is the first line of the
// file passwordFile. No error tells anything of the key.
func ReadKey(file, passwordFile string) (*Key, error) {
	text, err := readSecret(file)
	if err != nil {
		return nil, fmt.Errorf("the key of the attester: %w", err)
	}
	defer clear(text)
	text = bytes.TrimSpace(text)
	if bytes.HasPrefix(text, []byte("{")) {
		return openKeystore(file, text, passwordFile)
	}
	var raw [32]byte
	defer clear(raw[:])
	digits := bytes.TrimPrefix(text, []byte("0x"))
	if n, err := hex.Decode(raw[:], digits[:min(len(digits), 64)]); err != nil || n != 32 || len(digits) != 64 {
		return nil, fmt.Errorf("the key of the attester: %s must hold 64 hex digits, or a keystore: %w", file, domain.ErrInvalid)
	}
	private, err := crypto.ToECDSA(raw[:])
	if err != nil {
		return nil, fmt.Errorf("the key of the attester: what %s holds is not a private key: %w", file, domain.ErrInvalid)
	}
	return &Key{private}, nil
}

func openKeystore(file string, text []byte, passwordFile string) (*Key, error) {
	if passwordFile == "" {
		return nil, fmt.Errorf("the key of the attester: %s is a keystore, so MYSTERY_ATTESTER_PASSWORD_FILE must name the file with its password: %w", file, domain.ErrInvalid)
	}
	password, err := readSecret(passwordFile)
	if err != nil {
		return nil, fmt.Errorf("the password of the attester's keystore: %w", err)
	}
	defer clear(password)
	line, _, _ := strings.Cut(string(password), "\n")
	key, err := keystore.DecryptKey(text, strings.TrimSuffix(line, "\r"))
	if err != nil {
		return nil, fmt.Errorf("the keystore %s does not open with the password in %s (%w): %w", file, passwordFile, err, domain.ErrForbidden)
	}
	return &Key{key.PrivateKey}, nil
}

// readSecret reads a file that nobody but its owner can read.
func readSecret(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others; chmod 600 it: %w", file, domain.ErrForbidden)
	}
	return os.ReadFile(file) //nolint:gosec // the operator names the file
}
