// Package client reads a Mystery Shopper ledger over HTTP, and does what owners of agents
// do there. It is generated from api/openapi.json, so it has a method for every operation
// and a type for every body:
//
//	c, err := client.NewClientWithResponses("https://karatum.com")
//	r, err := c.GetShopWithResponse(ctx, id, nil)
//	switch {
//	case err != nil: // no answer
//	case r.JSON200 != nil: // the slot
//	default: // r.ApplicationproblemJSONDefault says why not
//	}
//
// Body holds the bytes of each answer: those of a bundle are to be kept as they came.
// Events of producers carry signatures; package producers beside this one makes them.
package client

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config generate.yaml -o client.gen.go ../openapi.json
