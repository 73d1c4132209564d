package commands_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karatum/mystery/commands"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/agent"
	"github.com/karatum/mystery/domain/consent"
	"github.com/karatum/mystery/domain/eip191"
	"github.com/karatum/mystery/domain/task"
)

// oracle answers for every endpoint as it is told.
type oracle map[string]error

func (oracle) Check(string) error { return nil }

func (o oracle) Prove(_ context.Context, endpoint string, _ eip191.Address) error { return o[endpoint] }

// A verified identity stands for its endpoint whatever its host says, but for stop.
func TestProofs(t *testing.T) {
	t.Parallel()
	const unread = "/.well-known/karatum-mystery.json at its host could not be read"
	stopped := consent.Proof{Reason: domain.Sentence(commands.ErrStopped), Cause: consent.HostStopped}
	for name, tt := range map[string]struct {
		says               error
		verified, declared consent.Proof
	}{
		"lists the owner": {nil, consent.Proof{Method: consent.ByIdentity}, consent.Proof{Method: consent.ByDocument}},
		"does not": {
			domain.WithCode(domain.ProofMissing, fmt.Errorf("its host has no document: %w", domain.ErrForbidden)),
			consent.Proof{Method: consent.ByIdentity},
			consent.Proof{Reason: "its host has no document", Cause: consent.ProofMissing},
		},
		"may not be reached": {
			fmt.Errorf("it is not a public address: %w", domain.ErrInvalid),
			consent.Proof{Method: consent.ByIdentity},
			consent.Proof{Reason: "it is not a public address", Cause: consent.HostUnproven},
		},
		"does not answer": {
			fmt.Errorf("no route to its address: %w", domain.ErrUnavailable),
			consent.Proof{Method: consent.ByIdentity},
			consent.Proof{Reason: unread, Unknown: true},
		},
		"cannot be asked": {errors.New("a fault of ours"), consent.Proof{Method: consent.ByIdentity}, consent.Proof{Reason: unread, Unknown: true}},
		"wants no tasks":  {fmt.Errorf("asked: %w", commands.ErrStopped), stopped, stopped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &commands.Service{Hosts: oracle{a2a: tt.says, mcp: tt.says}}
			known := agent.State{Registered: true, Identities: map[string]bool{a2a: true}}
			p := consent.Payload{Request: consent.Request{Endpoints: []consent.Endpoint{{Kind: task.A2A, URL: a2a}, {Kind: task.MCP, URL: mcp}}}}
			if diff := cmp.Diff([]consent.Proof{tt.verified, tt.declared}, s.Proofs(t.Context(), known, p)); diff != "" {
				t.Errorf("Proofs (-want +got):\n%s", diff)
			}
		})
	}
}
