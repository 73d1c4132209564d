package tables

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/singleflight"

	"github.com/karatum/mystery/domain"
)

const (
	fetchEvery  = time.Minute
	fetchWithin = 15 * time.Second       // all of one fetch; also how long others wait for it
	fetchLook   = 200 * time.Millisecond // how often they look
	fetchForget = 30 * 24 * time.Hour
)

// Fetches remembers what was fetched from the world, and lets all processes together
// fetch under one key once a minute at most.
//
// It grows by a row for each key, so its callers ask for no key on the word of
// a stranger. What was not asked for in thirty days is forgotten.
type Fetches struct {
	Pool *pgxpool.Pool
	Now  func() time.Time // nil: the clock of the database

	flight singleflight.Group
	lost   sync.Map // keys of fetches that ended here, and may stand as pending all the same
}

// Fetch returns what was fetched under key if that was less than a minute ago.
// Otherwise it calls fetch with what was fetched before that, nil if nothing was,
// and remembers and returns the outcome. While another caller fetches, in whatever
// process, it waits for that one. The error is of the kind [domain.ErrUnavailable] if
// that one does not come back: nobody fetches again before the minute is over.
//
// The fetch is not ended with ctx, as others may be waiting for it; its own context
// gives it 15 seconds.
func (f *Fetches) Fetch(ctx context.Context, key string, fetch func(ctx context.Context, last []byte) []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchWithin)
	defer cancel()
	answer, err, _ := f.flight.Do(key, func() (any, error) { return f.fetch(ctx, key, fetch) })
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", key, err)
	}
	b, _ := answer.([]byte) // as fetch returns it
	return b, nil
}

func (f *Fetches) fetch(ctx context.Context, key string, fetch func(ctx context.Context, last []byte) []byte) ([]byte, error) {
	var last []byte
	var asked time.Time
	err := f.Pool.QueryRow(ctx, `
		insert into fetches as f (key, asked) values ($1, coalesce($2, clock_timestamp()))
		on conflict (key) do update set asked = excluded.asked, pending = true where f.asked <= excluded.asked - $3::interval
		returning answer, asked`, key, now(f.Now), fetchEvery).Scan(&last, &asked)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return f.wait(ctx, key)
	case err != nil:
		f.lost.Store(key, true)
		return nil, unavailable(err)
	}
	f.lost.Delete(key)
	answer := fetch(ctx, last)
	if answer == nil {
		answer = []byte{} // nothing is an answer too
	}
	// The caller whose claim was renewed by another in the meantime has the older answer.
	if _, err = f.Pool.Exec(ctx, `update fetches set answer = $2, pending = false where key = $1 and asked = $3`, key, answer, asked); err != nil {
		f.lost.Store(key, true)
		return nil, unavailable(err)
	}
	if last == nil {
		if err := f.forget(ctx, asked.Add(-fetchForget)); err != nil {
			return nil, unavailable(err)
		}
	}
	return answer, nil
}

// wait returns what another caller fetches, or has fetched.
func (f *Fetches) wait(ctx context.Context, key string) ([]byte, error) {
	look := time.NewTicker(fetchLook)
	defer look.Stop()
	for {
		var pending bool
		var answer []byte
		err := f.Pool.QueryRow(ctx, `select pending, answer from fetches where key = $1`, key).Scan(&pending, &answer)
		switch {
		case err != nil:
			return nil, unavailable(err)
		case !pending:
			f.lost.Delete(key)
			return answer, nil
		}
		if _, lost := f.lost.Load(key); lost {
			return nil, errNotDone // and never will be
		}
		select {
		case <-ctx.Done():
			return nil, errNotDone
		case <-look.C:
		}
	}
}

var errNotDone = fmt.Errorf("it was begun less than a minute ago and is not done; try again in a minute: %w", domain.ErrUnavailable)

// forget deletes what was not asked for since a moment, without waiting for anybody.
func (f *Fetches) forget(ctx context.Context, since time.Time) error {
	_, err := f.Pool.Exec(ctx, `
		delete from fetches where key in (select key from fetches where asked < $1 for update skip locked)`, since)
	return err
}
