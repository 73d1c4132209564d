package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/karatum/mystery/domain"
)

const (
	maxAnswer    = 16 << 20 // a consent with a year of plans is a tenth of this
	maxBundle    = 1 << 30
	fetchTimeout = 30 * time.Second
	// A bundle of a year comes as it is made.
	bundleTimeout = 30 * time.Minute
)

// isURL reports whether an argument names something to fetch and not a file.
func isURL(arg string) bool {
	return strings.HasPrefix(arg, "https://") || strings.HasPrefix(arg, "http://")
}

// read reads what args name: a URL or an input like that of the others.
func read(cmd *cobra.Command, args []string, limit int64, timeout time.Duration) ([]byte, error) {
	if len(args) == 1 && isURL(args[0]) {
		return fetchUpTo(cmd.Context(), args[0], limit, timeout)
	}
	in, err := openInput(cmd, args)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return readAll(in, limit)
}

// fetch fetches an answer of the API.
func fetch(ctx context.Context, url string) ([]byte, error) {
	return fetchUpTo(ctx, url, maxAnswer, fetchTimeout)
}

func fetchUpTo(ctx context.Context, url string, limit int64, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotFound {
		return nil, &absentError{url}
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, res.Status)
	}
	return readAll(res.Body, limit)
}

// An absentError says that there is nothing at a URL.
type absentError struct{ url string }

func (e *absentError) Error() string { return e.url + " answers 404 Not Found" }

func readAll(in io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("there are more than %d bytes, which nothing published has: %w", limit, domain.ErrInvalid)
	}
	return data, nil
}
