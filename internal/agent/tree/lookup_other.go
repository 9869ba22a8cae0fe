//go:build !linux

package tree

import "errors"

// lookup has no counterpart of Linux' openat2: look up each name.
func lookup(*Tree, string) error { return errors.ErrUnsupported }
