//go:build peers

package token_test

import (
	"testing"

	"github.com/karatum/mystery/chain/devchain/anviltest"
	"github.com/karatum/mystery/chain/devchain/chaintest"
)

func TestPeerAnvil(t *testing.T) {
	t.Parallel()
	c := anviltest.Start(t, chaintest.ID)
	for _, account := range rich {
		if err := c.Fund(t.Context(), account); err != nil {
			t.Fatal(err)
		}
	}
	testToken(t, c)
}
