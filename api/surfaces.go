package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/danielgtaylor/huma/v2"

	"github.com/karatum/mystery/domain"
)

// registerSurfaces serves what the eligible lists of opened days were made from.
func (s *server) registerSurfaces(api huma.API) {
	type input struct {
		Hash string `path:"hash" pattern:"^[0-9a-f]{64}$"`
	}
	type output struct {
		ContentType string `header:"Content-Type"`
		Body        []byte
	}
	op := get("get-surface", "/surfaces/{hash}", "What an endpoint showed when a day was planned that is opened now: the bytes that the hash is of", 404)
	op.Responses = map[string]*huma.Response{"200": {
		Description: "Canonical JSON (RFC 8785).",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject}}},
	}}
	huma.Register(api, op, func(ctx context.Context, in *input) (*output, error) {
		body, err := s.surface(ctx, in.Hash)
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		return &output{"application/json", body}, nil
	})
}

func (s *server) surface(ctx context.Context, text string) ([]byte, error) {
	hash, err := domain.ParseHash(text)
	if err != nil {
		return nil, err
	}
	if err := s.Reader.SurfaceOpened(ctx, hash); err != nil {
		return nil, err
	}
	_, body, err := s.Bodies.Get(ctx, "surface/"+text)
	if errors.Is(err, domain.ErrNotFound) {
		return nil, fmt.Errorf("the surface %s was erased: %w", text, domain.ErrNotFound)
	}
	return body, err
}
