// Package socket says where unix sockets may lie: their paths must be short, whatever TMPDIR is.
package socket

import "os"

const (
	// longest a directory's path may be: the path of a unix socket takes 107 bytes (sun_path in unix(7), with its
	// end), of which 16 are for the name of the socket.
	longest = 107 - 16
	// random is the most that os.MkdirTemp adds to a name.
	random = 10
	// short is a directory for temporary files whose path always leaves room.
	short = "/tmp"
)

// Dir makes a new directory that only this user can reach, in which sockets with names of up to 15 bytes can be:
// among the temporary files, or in /tmp where their directory's own path is too long for that. Whoever asked for it
// removes it.
func Dir(prefix string) (string, error) {
	parent := os.TempDir()
	if len(parent)+len("/")+len(prefix)+random > longest {
		parent = short
	}
	return os.MkdirTemp(parent, prefix)
}
