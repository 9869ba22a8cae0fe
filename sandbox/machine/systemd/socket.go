package systemd

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// Listen opens a unix socket at any path. The path of a socket may have only 107 bytes, so Listen binds relative to
// its directory's descriptor.
func Listen(path string) (net.Listener, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	address := path
	if relative := fmt.Sprintf("/proc/self/fd/%d", dir.Fd()); exists(relative) {
		address = filepath.Join(relative, filepath.Base(path))
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	// The address names a descriptor that is closed now, and may belong to another file later.
	listener.SetUnlinkOnClose(false)
	return listener, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
