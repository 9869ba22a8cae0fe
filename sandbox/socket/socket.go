// Package socket creates directories for unix sockets, whose paths must be short for any TMPDIR.
package socket

import "os"

const (
	// longest a directory's path may be: the path of a unix socket takes 107 bytes (sun_path in unix(7), with its
	// end), of which 16 are for the name of the socket.
	longest = 107 - 16
	// random is the most characters that os.MkdirTemp adds to a name.
	random = 10
	// short is a directory for temporary files with a short path.
	short = "/tmp"
)

// Dir creates a new directory of this user for sockets with names of up to 15 bytes. The directory is in TMPDIR, or
// in /tmp if the path of TMPDIR is too long. The caller removes the directory.
func Dir(prefix string) (string, error) {
	parent := os.TempDir()
	if len(parent)+len("/")+len(prefix)+random > longest {
		parent = short
	}
	return os.MkdirTemp(parent, prefix)
}
