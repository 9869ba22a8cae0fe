//go:build !linux

package tree

import (
	"context"
	"io/fs"
	"os"
)

// free does nothing: only Linux hosts are generalized live.
func free(*os.Root, string, fs.FileInfo) {}

func dropAttributes(*os.File) {}

// FreePreallocated does nothing: other systems do not list the extents of ext4 and XFS.
func (t *Tree) FreePreallocated(context.Context) (int64, error) { return 0, nil }
