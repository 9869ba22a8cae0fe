//go:build !linux

package scan

import "os"

// extents treats the file as one part: holes are found on Linux only.
func extents(_ *os.File, size int64, visit func(offset, length int64) error) error {
	if size == 0 {
		return nil
	}
	return visit(0, size)
}

// onDisk is implemented on Linux only.
func onDisk(*os.File, uint64) (bool, error) { return false, nil }

// mountOf is implemented on Linux only.
func mountOf(*os.File) uint64 { return 0 }

// attributes is implemented on Linux only.
func (w *treeWalk) attributes(*os.File, placeOf) {}
