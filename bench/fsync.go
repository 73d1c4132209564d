package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// fsyncRate returns how often per second the disk of the server takes a page of
// 8 KiB for good, the way PostgreSQL writes its log.
func (b *bench) fsyncRate() (rate float64, err error) {
	f, err := os.Create(filepath.Join(filepath.Dir(b.dir), "fsync"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	page := make([]byte, 8192)
	const pages = 128
	for range pages { // overwritten below, so that no size changes
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	n := 0
	began := time.Now()
	for time.Since(began) < 300*time.Millisecond {
		if _, err := f.WriteAt(page, int64(n%pages*len(page))); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
		n++
	}
	return float64(n) / time.Since(began).Seconds(), nil
}
