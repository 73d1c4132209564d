package main

import (
	"sync"
	"time"
)

// A clock is virtual programme time. Work takes none of it; it jumps when told to,
// and runs at real speed once released.
type clock struct {
	mu       sync.Mutex
	now      time.Time
	released time.Time // real time; zero while it stands still
}

// Now returns virtual time.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released.IsZero() {
		return c.now
	}
	return c.now.Add(time.Since(c.released)).UTC()
}

// Jump moves the clock on to t; it never goes back.
func (c *clock) Jump(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.After(c.now) {
		c.now = t.UTC()
	}
}

// Release lets the clock run.
func (c *clock) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.released = time.Now()
}
