//go:build unix

package assembly

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives f the owner of another file: root may rotate the secret of a
// service that runs under an account of its own, and that must read it afterwards.
func keepOwner(f *os.File, like fs.FileInfo) error {
	if s, ok := like.Sys().(*syscall.Stat_t); ok {
		return f.Chown(int(s.Uid), int(s.Gid))
	}
	return nil
}
