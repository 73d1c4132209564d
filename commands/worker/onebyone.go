package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/karatum/mystery/commands/agents"
	"github.com/karatum/mystery/domain"
	"github.com/karatum/mystery/domain/task"
)

// OneByOne is a Field that asks each host for one thing at a time, a surface or a
// task, over all processes that share its leases. What finds the host busy waits.
type OneByOne struct {
	Field  Field
	Leases Leases
}

const (
	hostLease = 3 * time.Minute       // of one that vanished, in real time; no task or look takes as long
	hostLook  = 50 * time.Millisecond // how often those who wait look
)

// Observe implements [Field].
func (o OneByOne) Observe(ctx context.Context, kind task.Kind, url string, s agents.Sender) (task.Surface, agents.Target, error) {
	release, err := o.acquire(ctx, url)
	if err != nil {
		return task.Surface{}, agents.Target{}, err
	}
	defer release()
	return o.Field.Observe(ctx, kind, url, s)
}

// Ask implements [Field].
func (o OneByOne) Ask(ctx context.Context, kind task.Kind, c agents.Call) (agents.Reply, error) {
	release, err := o.acquire(ctx, c.Target.URL)
	if err != nil {
		return agents.Reply{}, err
	}
	defer release()
	return o.Field.Ask(ctx, kind, c)
}

// acquire waits until nothing else is asked of the host of a URL.
func (o OneByOne) acquire(ctx context.Context, url string) (release func(), err error) {
	host, err := agents.HostOf(url)
	if err != nil {
		return nil, err
	}
	name, holder := "host/"+host, uuid.NewString()
	look := time.NewTicker(hostLook)
	defer look.Stop()
	for end := time.After(hostLease); ; {
		ok, err := o.Leases.TryAcquire(ctx, name, holder, hostLease)
		if err != nil {
			return nil, err
		}
		if ok {
			return func() { _ = o.Leases.Release(context.WithoutCancel(ctx), name, holder) }, nil // or it runs out
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-end:
			return nil, fmt.Errorf("%s is asked for other things all the time; it is tried again: %w", host, domain.ErrUnavailable)
		case <-look.C:
		}
	}
}
