package main

import (
	"fmt"
	"net/http"

	"github.com/karatum/mystery/cmd/internal/assembly"
	"github.com/karatum/mystery/commands/agents/house"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/eip191"
)

// withHouse serves the demo agents beside the API, owned by the wallet that
// MYSTERY_HOUSE_OWNER names.
func withHouse(api http.Handler, getenv func(string) string) (http.Handler, error) {
	text := getenv("MYSTERY_HOUSE_OWNER")
	if text == "" {
		return nil, fmt.Errorf("--house needs MYSTERY_HOUSE_OWNER, the address of the wallet that owns the demo agents: %w", domain.ErrInvalid)
	}
	owner, err := eip191.ParseAddress(text)
	if err != nil {
		return nil, fmt.Errorf("MYSTERY_HOUSE_OWNER: %w", err)
	}
	agents := house.Handler(house.Options{Base: assembly.ConfigFrom(getenv).PublicURL, Owner: owner})
	mux := http.NewServeMux()
	mux.Handle("/demo-agents/", agents)
	mux.Handle("/.well-known/karatum-mystery.json", agents)
	mux.Handle("/", api)
	return mux, nil
}
