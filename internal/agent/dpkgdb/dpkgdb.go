// Package dpkgdb reads control files: dpkg's list of packages, and the output of apt-cache. The readers of package lists
// share the parser, so the lists of a disk agree.
package dpkgdb

import (
	"bufio"
	"io"
	"strings"
)

// Status is dpkg's list of packages, below the root of a disk. Source: dpkg(1).
const Status = "var/lib/dpkg/status"

// maxLine is the longest line in bytes.
const maxLine = 1 << 20

// Each calls visit with the fields of each stanza, by name in lower case. Only the first line of a field is read, because
// readers need no longer fields. visit must not keep the map. Source: deb822(5).
func Each(r io.Reader, visit func(fields map[string]string)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	fields := map[string]string{}
	end := func() {
		if len(fields) > 0 {
			visit(fields)
			clear(fields)
		}
	}
	for lines.Scan() {
		line := lines.Text()
		name, value, isField := strings.Cut(line, ":")
		switch {
		case strings.TrimSpace(line) == "":
			end()
		case isField && line[0] != ' ' && line[0] != '\t':
			fields[strings.ToLower(name)] = strings.TrimSpace(value)
		}
	}
	end()
	return lines.Err()
}
