package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// flushes returns how often the disk takes a page of 8 KiB for good, the way PostgreSQL
// writes its log.
func (b *bench) flushes(context.Context) (figures []figure, err error) {
	f, err := os.Create(filepath.Join(b.scratch, "flushed"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	page := make([]byte, 8192)
	const pages = 128
	for range pages { // overwritten below, so that no size changes
		if _, err := f.Write(page); err != nil {
			return nil, err
		}
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	n := 0
	began := time.Now()
	for time.Since(began) < b.length/4 {
		if _, err := f.WriteAt(page, int64(n%pages*len(page))); err != nil {
			return nil, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return nil, err
		}
		n++
	}
	return []figure{{perSecond, float64(n) / time.Since(began).Seconds()}}, nil
}

// readFile reads a file from end to end, from the disk and not from memory.
func readFile(name string) (err error) {
	f, err := os.Open(name) //nolint:gosec // one of ours
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 1<<20))
	return err
}
