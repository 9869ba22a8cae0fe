package quiesce

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kamino-dev/kamino/internal/agent/patch/apt"
	"github.com/kamino-dev/kamino/internal/agent/store"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// locked are the files that package managers lock with fcntl, as patterns. Sources: dpkg(1), apt-get(8), rpm lib/rpmlock.c,
// libdnf5 base/transaction.cpp, tdnf client/defines.h, zypp ZYppFactory.cc.
var locked = []lock{
	{path: "var/lib/dpkg/lock-frontend", what: "it changes packages", packages: true},
	{path: "var/lib/dpkg/lock", what: "it changes packages", packages: true},
	{path: "var/lib/apt/lists/lock", what: "it reads repositories"},
	{path: "var/cache/apt/archives/lock", what: "it downloads packages"},
	{path: "var/lib/rpm/.rpm.lock", what: "it changes packages"},
	{path: "usr/lib/sysimage/rpm/.rpm.lock", what: "it changes packages"},
	{path: "run/dnf/rpmtransaction.lock", what: "it changes packages"},
	{path: "run/.tdnf-instance-lockfile", what: "it changes packages"},
	{path: "var/run/.tdnf-instance-lockfile", what: "it changes packages"},
}

// pidFiles are the files with which package managers say that they work, and the names of their programs. A killed program
// leaves the file. Sources: dnf lock.py and yum __init__.py, zypp ZYppFactory.cc.
var pidFiles = []struct{ path, programs string }{
	{"var/cache/dnf/*_lock.pid", "dnf yum python packagekit microdnf"},
	{"var/lib/dnf/rpmdb_lock.pid", "dnf yum python packagekit microdnf"},
	{"run/yum.pid", "yum python"},
	{"var/run/yum.pid", "yum python"},
	{"run/zypp.pid", "zypp packagekit"},
	{"var/run/zypp.pid", "zypp packagekit"},
}

// runtimes are the default directories of image stores, as patterns. Directories that a configuration names are found by
// package store.
var runtimes = map[rules.Store][]string{
	rules.Containerd: {
		"var/lib/containerd", "var/lib/rancher/*/agent/containerd", "var/lib/docker/containerd/daemon", "var/snap/microk8s/common/var/lib/containerd",
	},
	rules.Docker:  {"var/lib/docker"},
	rules.Storage: {"var/lib/containers/storage"},
}

// traces are what a pull leaves in the directory of a store until it ends, as patterns. Sources: containerd
// plugins/content/local, Docker distribution/pull_v2.go and layer/filestore.go.
var traces = map[rules.Store][]string{
	rules.Containerd: {"io.containerd.content.v1.content/ingest/*/*"},
	rules.Docker:     {"tmp/GetImageBlob*", "image/*/layerdb/tmp/*"},
}

// blobs are the directories for downloads of CRI-O and Podman. Source: containers/image, storage destination.
var blobs = []string{"var/tmp/" + blobDir + "*", "var/tmp/" + blobDir + "*/*"}

const blobDir = "container_images_"

// look reads what the host is busy with.
func look(t *tree.Tree, now time.Time) (s signs, err error) {
	s.now = now
	stores, err := storeDirs(t)
	if err != nil {
		return s, err
	}
	if s.locks, err = locks(t, stores); err != nil {
		return s, err
	}
	if s.incomplete, s.interrupted, err = dpkgState(t); err != nil {
		return s, err
	}
	s.pulls, err = pulls(t, stores)
	return s, err
}

// locks returns the locks that programs of the host hold.
func locks(t *tree.Tree, stores map[rules.Store][]string) (held []lock, err error) {
	all := slices.Clone(locked)
	// The lists of CRI-O and Podman change under this lock.
	for _, dir := range stores[rules.Storage] {
		all = append(all, lock{path: dir + "/*-layers/layers.lock", what: "it changes the layers of images"})
	}
	for _, l := range all {
		found, err := paths(t, l.path)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			pid, isLocked, err := lockedBy(t, p)
			if err != nil {
				return nil, fmt.Errorf("look at the lock /%s: %w", p, err)
			}
			if isLocked {
				held = append(held, lock{p, l.what, program(t, pid), l.packages})
			}
		}
	}
	for _, f := range pidFiles {
		found, err := paths(t, f.path)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if name := named(t, p, strings.Fields(f.programs)); name != "" {
				held = append(held, lock{path: p, what: "it changes packages", holder: name})
			}
		}
	}
	return held, nil
}

// paths returns the existing paths of a pattern, without links. A pattern without wildcards also finds files in memory.
func paths(t *tree.Tree, pattern string) (found []string, err error) {
	if !strings.Contains(pattern, "*") {
		p, _, err := t.Resolve(pattern)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return []string{p}, err
	}
	matches, err := t.Glob(pattern)
	for _, m := range matches {
		found = append(found, m.Path)
	}
	return found, err
}

// named describes the process in a file with a process ID, if it is one of the programs; empty otherwise.
func named(t *tree.Tree, p string, programs []string) string {
	text, err := t.Read(p)
	if err != nil {
		return "" // removed meanwhile: the program has ended
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return ""
	}
	name := program(t, pid)
	if slices.ContainsFunc(programs, func(program string) bool { return strings.Contains(strings.ToLower(name), program) }) {
		return name
	}
	return ""
}

// lockedBy asks the kernel for a process that has locked a file for writing. Readers are of no interest. The process is 0 if
// it is not visible.
func lockedBy(t *tree.Tree, p string) (pid int, isLocked bool, err error) {
	f, err := t.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	ask := syscall.Flock_t{Type: syscall.F_RDLCK}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &ask); err != nil {
		return 0, false, err
	}
	return int(max(ask.Pid, 0)), ask.Type != syscall.F_UNLCK, nil
}

// program describes a process of the host; empty if there is no such process.
func program(t *tree.Tree, pid int) string {
	if pid <= 0 {
		return ""
	}
	name, err := t.Read(fmt.Sprintf("proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s (process %d)", bytes.TrimSpace(name), pid)
}

// dpkgState returns the packages that dpkg has not completely installed, and whether a killed dpkg left its journal.
func dpkgState(t *tree.Tree) (incomplete []string, interrupted bool, err error) {
	f, err := t.OpenFile(apt.Status, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() == 0 {
		return nil, false, err // the empty file of a system without dpkg's packages
	}
	packages, err := apt.Packages(f)
	if err != nil {
		return nil, false, fmt.Errorf("read /%s: %w", apt.Status, err)
	}
	entries, err := t.List(apt.Updates)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return apt.Incomplete(packages), apt.Interrupted(names), nil
}

// pulls returns the traces of open downloads.
func pulls(t *tree.Tree, stores map[rules.Store][]string) (all []pull, err error) {
	type place struct{ pattern, runtime string }
	var places []place
	for kind, below := range traces {
		for _, dir := range stores[kind] {
			for _, pattern := range below {
				places = append(places, place{dir + "/" + pattern, string(kind)})
			}
		}
	}
	for _, pattern := range blobs {
		places = append(places, place{pattern, podman})
	}
	for _, p := range places {
		found, err := t.Glob(p.pattern)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			all = append(all, pull{runtime: p.runtime, path: traceOf(m.Path), changed: m.Info.ModTime()})
		}
	}
	for _, dir := range stores[rules.Storage] {
		open, err := unpacking(t, dir)
		if err != nil {
			return nil, err
		}
		all = append(all, open...)
	}
	slices.SortStableFunc(all, func(a, b pull) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// podman names the programs that share a kind of store.
const podman = "CRI-O or Podman"

// traceOf is the directory of a download with several files, and any other path itself.
func traceOf(p string) string {
	dir := path.Dir(p)
	if path.Base(path.Dir(dir)) == "ingest" || strings.HasPrefix(path.Base(dir), blobDir) {
		return dir
	}
	return p
}

// maxLayers is the largest list of layers that is read, in bytes.
const maxLayers = 64 << 20

// unpacking returns the lists of layers that mark a layer as incomplete. Source: containers/storage, layers.go,
// incompleteFlag.
func unpacking(t *tree.Tree, dir string) (open []pull, err error) {
	lists, err := t.Glob(dir + "/*-layers/layers.json")
	if err != nil {
		return nil, err
	}
	for _, m := range lists {
		f, err := t.OpenFile(m.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(io.LimitReader(f, maxLayers))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("read /%s: %w", m.Path, err)
		}
		if bytes.Contains(bytes.ReplaceAll(text, []byte(" "), nil), []byte(`"incomplete":true`)) {
			open = append(open, pull{runtime: podman, path: m.Path})
		}
	}
	return open, nil
}

// indexDepth is how many directories the index of a store is below its directory.
var indexDepth = map[rules.Store]int{rules.Containerd: 2, rules.Docker: 3, rules.Storage: 2}

// storeDirs returns the existing directories of image stores.
func storeDirs(t *tree.Tree) (map[rules.Store][]string, error) {
	dirs := map[rules.Store][]string{}
	for kind, patterns := range runtimes {
		for _, pattern := range patterns {
			found, err := t.Glob(pattern)
			if err != nil {
				return nil, err
			}
			for _, m := range found {
				dirs[kind] = append(dirs[kind], m.Path)
			}
		}
	}
	places, err := store.Places(t)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		depth, isStore := indexDepth[p.Kind]
		if !isStore {
			continue
		}
		dir := p.Index
		for range depth {
			dir = path.Dir(dir)
		}
		if !slices.Contains(dirs[p.Kind], dir) {
			dirs[p.Kind] = append(dirs[p.Kind], dir)
		}
	}
	return dirs, nil
}
