package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/kamino-dev/kamino/internal/agent/dpkgdb"
	"github.com/kamino-dev/kamino/internal/agent/rpmdb"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// Directories of dpkg. Source: dpkg(1) and deb-postinst(5).
const (
	dpkgInfo    = "var/lib/dpkg/info"
	dpkgUpdates = "var/lib/dpkg/updates"
)

// maxWhys is the number of packages in the reasons.
const maxWhys = 8

// Packages returns why the packages of a disk are not complete; none for a complete disk, or a disk without dpkg and rpm. The remedy for
// all reasons is a fresh copy from a moment without a package manager.
func Packages(t *tree.Tree) ([]string, error) {
	whys, err := dpkgWhys(t)
	if err != nil {
		return nil, err
	}
	more, err := rpmWhys(t)
	if err != nil {
		return nil, err
	}
	whys = append(whys, more...)
	if n := len(whys) - maxWhys; n > 0 {
		whys = append(whys[:maxWhys], fmt.Sprintf("and %d more packages", n))
	}
	return whys, nil
}

const freshCopy = "take a fresh copy while no package manager runs"

// dpkgWhys checks dpkg's database: its list, the records of unfinished changes, and the lists of files.
func dpkgWhys(t *tree.Tree) ([]string, error) {
	f, err := t.OpenFile(dpkgdb.Status, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if names, _ := list(t, dpkgInfo); len(names) > 0 {
			return []string{fmt.Sprintf("dpkg's list /%s is missing, and /%s has files: %s", dpkgdb.Status, dpkgInfo, freshCopy)}, nil
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var whys []string
	installed := map[string]bool{}
	text := &textReader{Reader: f}
	err = dpkgdb.Each(text, func(fields map[string]string) {
		name, arch := fields["package"], fields["architecture"]
		if why := whyIncomplete(fields["status"]); why != "" {
			whys = append(whys, fmt.Sprintf("the package %s is %s: %s", name, why, freshCopy))
		} else if strings.HasSuffix(fields["status"], " installed") {
			installed[name] = true
			if fields["multi-arch"] == "same" {
				delete(installed, name)
				installed[name+":"+arch] = true
			}
		}
	})
	if err != nil || text.hasZeros {
		return []string{fmt.Sprintf("dpkg's list /%s is damaged: %s", dpkgdb.Status, freshCopy)}, nil
	}
	names, err := list(t, dpkgInfo)
	if err != nil {
		return nil, err
	}
	if len(installed)+len(whys) == 0 && len(names) > 1 {
		return []string{fmt.Sprintf("dpkg's list /%s is empty, and /%s has files: %s", dpkgdb.Status, dpkgInfo, freshCopy)}, nil
	}
	pending, err := list(t, dpkgUpdates)
	if err != nil {
		return nil, err
	}
	for _, name := range pending {
		if strings.Trim(name, "0123456789") == "" {
			whys = append(whys, fmt.Sprintf("dpkg was interrupted (/%s/%s): %s", dpkgUpdates, name, freshCopy))
			break
		}
	}
	more, err := withoutList(t, installed)
	return append(whys, more...), err
}

// whyIncomplete returns the state of a package that is not complete, by its field Status: want, flag and state. Source: dpkg(1),
// package states and flags.
func whyIncomplete(status string) string {
	fields := strings.Fields(status)
	if len(fields) != 3 {
		return "in an unreadable state"
	}
	switch {
	case fields[1] == "reinstreq":
		return "to be installed again (reinstreq)"
	case fields[2] == "installed", fields[2] == "config-files", fields[2] == "not-installed":
		return ""
	}
	return fields[2]
}

// withoutList names the installed packages whose list of files is missing or damaged. Each list begins with the root directory, so
// that even a package without files has a line.
func withoutList(t *tree.Tree, installed map[string]bool) (whys []string, _ error) {
	for _, name := range slices.Sorted(maps.Keys(installed)) {
		p := path.Join(dpkgInfo, name+".list")
		f, err := t.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			whys = append(whys, fmt.Sprintf("the package %s has no list of files (/%s): %s", name, p, freshCopy))
			continue
		}
		if err != nil {
			return nil, err
		}
		head := make([]byte, 1)
		_, err = io.ReadFull(f, head)
		f.Close()
		if err != nil || head[0] != '/' {
			whys = append(whys, fmt.Sprintf("the package %s has an empty list of files (/%s): %s", name, p, freshCopy))
		}
	}
	return whys, nil
}

// textReader notes zeros, which a lost write leaves and no text has.
type textReader struct {
	io.Reader
	hasZeros bool
}

func (r *textReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.hasZeros = r.hasZeros || bytes.IndexByte(b[:n], 0) >= 0
	return n, err
}

// rpmWhys checks rpm's database.
func rpmWhys(t *tree.Tree) ([]string, error) {
	open := func(name string) (*os.File, error) { return t.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) }
	if other := rpmdb.Other(open); other != "" {
		return []string{fmt.Sprintf("rpm's database %s has a format that cannot be checked: capture the node in place, if it can return", other)}, nil
	}
	if p := rpmdb.Pending(open); p != "" {
		return []string{
			fmt.Sprintf(
				"a transaction of rpm is open (%s has changes): "+
					freshCopy+"; if the file stays, run rpm --rebuilddb on the donor",
				p),
		}, nil
	}
	count := 0
	err := rpmdb.Each(open, func(rpmdb.Header) { count++ })
	if errors.Is(err, rpmdb.ErrDamaged) {
		return []string{fmt.Sprintf("rpm's database is damaged after %d packages: %s", count, freshCopy)}, nil
	}
	return nil, err
}

// list returns the names in a directory; none without the directory.
func list(t *tree.Tree, dir string) (names []string, _ error) {
	found, err := t.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range found {
		names = append(names, entry.Name())
	}
	return names, err
}
