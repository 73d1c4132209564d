//go:build peers

package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/karatum/mystery/chain/devchain/anviltest"
	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/verify"
)

// Owners of every sort give their consent on a node of others, and karatum-verify
// checks what is published with nothing but that node.
func TestPeerAnvil(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "karatum-verify")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../karatum-verify")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build karatum-verify: %v\n%s", err, out)
	}
	key := keeper(t)
	c := anviltest.Start(t, commands.HomeChain)
	if err := c.Fund(t.Context(), crypto.PubkeyToAddress(key.PublicKey)); err != nil {
		t.Fatal(err)
	}
	testOwners(t, c, key, "72", func(t *testing.T, published []byte) {
		t.Helper()
		again(t, c, published)
		report := recheck(t, program, published, 0, "--rpc", c.URL)
		for _, check := range report.Checks {
			if check.Status != verify.Pass {
				t.Errorf("with a node %s is %s: %s", check.ID, check.Status, check.Detail)
			}
		}
		parsed, err := verify.Consent(published)
		if err != nil {
			t.Fatal(err)
		}
		skipped := 0
		for _, check := range recheck(t, program, published, 0).Checks {
			if check.Status == verify.Skipped {
				skipped++
			}
		}
		if skipped != len(parsed.Wallets) {
			t.Errorf("without a node %d checks are skipped, want one for each of the %d contract wallets", skipped, len(parsed.Wallets))
		}
		forged := bytes.Replace(published, []byte(`"maxPerDay":12`), []byte(`"maxPerDay":24`), 1)
		if bytes.Equal(forged, published) {
			t.Fatal("the consent names no limit to forge")
		}
		recheck(t, program, forged, 3, "--rpc", c.URL)
	})
}

// recheck runs karatum-verify consent.
func recheck(t *testing.T, program string, published []byte, want int, args ...string) (report struct{ Checks []verify.Check }) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"consent", "-", "--json"}, args...)...)
	cmd.Stdin = bytes.NewReader(published)
	out, err := cmd.Output()
	code := 0
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if code != want {
		t.Errorf("karatum-verify consent %q exits with %d, want %d:\n%s", args, code, want, out)
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// Wallets of others sign the message as it is served.
func TestPeerSigners(t *testing.T) {
	t.Parallel()
	peers := os.Getenv("PEERS")
	if peers == "" {
		t.Fatal("PEERS does not name the folder of the peers; run make test-peers")
	}
	key := keeper(t)
	private := "0x" + hex.EncodeToString(crypto.FromECDSA(key))
	owner := eip191.Address(crypto.PubkeyToAddress(key.PublicKey))
	cast, err := filepath.Glob(filepath.Join(peers, "node_modules", "@foundry-rs", "cast-*", "bin", "cast"))
	if err != nil || len(cast) != 1 {
		t.Fatalf("cast is not installed: %v %v", cast, err)
	}
	sign := filepath.Join(peers, "sign.mjs")
	for i, command := range [][]string{
		{"node", sign, "viem", private},
		{"node", sign, "ethers", private},
		{cast[0], "wallet", "sign", "--private-key", private}, // takes the message as an argument
	} {
		name := []string{"viem", "ethers", "cast"}[i]
		t.Run(name, func(t *testing.T) {
			s := empty(t, flags{seed: fmt.Sprint("73", i), listen: "127.0.0.1:0"})
			s.register(t, edge, owner)
			s.verified(t, edge)
			published := s.consentBy(t, edge, false, func(message string) []byte {
				args := command[1:]
				stdin := message
				if name == "cast" {
					args, stdin = append(args[:len(args):len(args)], message), ""
				}
				cmd := exec.CommandContext(t.Context(), command[0], args...)
				cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), t.Output()
				out, err := cmd.Output()
				if err != nil {
					t.Fatal(err)
				}
				sig, err := hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(out)), "0x"))
				if err != nil {
					t.Fatal(err)
				}
				return sig
			})
			again(t, nil, published)
		})
	}
}
