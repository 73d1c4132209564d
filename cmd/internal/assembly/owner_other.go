//go:build !unix

package assembly

import (
	"io/fs"
	"os"
)

// keepOwner does nothing where files have no owner.
func keepOwner(*os.File, fs.FileInfo) error { return nil }
