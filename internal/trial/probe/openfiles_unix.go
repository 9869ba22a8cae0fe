//go:build unix

package probe

import "syscall"

// openFiles is the hard limit of open files.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Max) //nolint:unconvert,gosec // the type differs between systems
}
