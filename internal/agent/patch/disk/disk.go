// Package disk computes the patch level of a disk from the databases of its package manager, without running a program.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kamino-dev/kamino/internal/agent/patch/apt"
	"github.com/kamino-dev/kamino/internal/agent/rpmdb"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/patch"
)

// Level is the patch level of the system in a tree, equal to the level in a report of the running system. The level is
// empty without a list of packages of dpkg or rpm.
func Level(t *tree.Tree) (string, error) {
	packages, err := dpkg(t)
	if err == nil && packages == nil {
		packages, err = rpm(t)
	}
	if err != nil || len(packages) == 0 {
		return "", err
	}
	return patch.Level(packages), nil
}

func dpkg(t *tree.Tree) ([]patch.Installed, error) {
	f, err := t.OpenFile(apt.Status, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() == 0 {
		return nil, err // the empty file of a system without dpkg's packages
	}
	all, err := apt.Packages(f)
	if err != nil {
		return nil, fmt.Errorf("read /%s: %w", apt.Status, err)
	}
	installed := make([]patch.Installed, 0, len(all))
	for _, p := range all {
		installed = append(installed, p.Installed)
	}
	return installed, nil
}

// rpm reads the packages as the query of package dnf prints them.
func rpm(t *tree.Tree) (all []patch.Installed, err error) {
	open := func(name string) (*os.File, error) { return t.OpenFile(name, os.O_RDONLY, 0) }
	err = rpmdb.Each(open, func(h rpmdb.Header) {
		if name, version, arch, is := h.Package(); is {
			all = append(all, patch.Installed{Name: name, Version: version, Arch: arch})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read rpm's database: %w", err)
	}
	return all, nil
}

// osReleases are the paths of os-release(5). The first file applies.
var osReleases = []string{"etc/os-release", "usr/lib/os-release"}

// ostreeBooted exists on systems whose root is an ostree deployment.
const ostreeBooted = "run/ostree-booted"

// Unpatchable returns why Kamino cannot patch the running system in a tree, or cannot compare its disk with the report of the
// patch; empty if Kamino can.
func Unpatchable(t *tree.Tree) (why string, _ error) {
	var text []byte
	for _, p := range osReleases {
		var err error
		if text, err = t.Read(p); err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	_, err := t.Lstat(ostreeBooted)
	if _, failure := patch.ManagerOf(patch.SystemOf(string(text)), err == nil); failure != nil {
		return failure.Message, nil
	}
	switch level, err := Level(t); {
	case err != nil:
		return "the patch level of the disk is unknown: " + err.Error(), nil
	case level == "":
		return "the patch level of the disk is unknown: the disk has no list of packages of dpkg or rpm that Kamino reads", nil
	}
	return "", nil
}
