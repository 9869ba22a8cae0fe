//go:build machines

package real

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// Layers in the container runtime's index: a layer of an image, which stays, and a layer of a container.
const imageLayer, containerLayer = "planted image", "planted container"

// plantRow is one thing that must not survive into a clone, with similar things that must stay. The rows are
// independent of the profiles, so that a missing path of a rule is found.
type plantRow struct {
	// what names the thing.
	what string
	// only limits the row to a profile; empty means all profiles.
	only disk.Profile
	// gone are files that must be removed. stays are near misses, which an overly wide rule would remove. A *
	// matches names that the machine has created.
	gone, stays []string
	// with has contents that the other files need.
	with map[string]string
	// goneLines must be removed from files that stay, and staysLines must stay in these files.
	goneLines, staysLines []plantLine
}

// plantLine is an added line of a file.
type plantLine struct{ path, line string }

// plants has the planted files and lines of a disk.
type plants struct {
	// marker is in each written file that must be removed, so that a raw disk can be searched.
	marker string
	// gone and stays have the content by path. Links and other special files have no content, and only their
	// existence is checked.
	gone, stays           map[string][]byte
	goneLines, staysLines []plantLine
	rows                  int
}

// plant writes all rows of a profile to a disk of a running or stopped machine. Existing files stay unchanged.
func plant(t *testing.T, dir string, profile disk.Profile) *plants {
	t.Helper()
	// A link on the machine must not lead to the host's files.
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := errors.Join(disk.AddLayer(dir, imageLayer, true), disk.AddLayer(dir, containerLayer, false)); err != nil {
		t.Fatal(err)
	}
	p := &plants{marker: "kamino-planted-" + rand.Text(), gone: map[string][]byte{}, stays: map[string][]byte{}}
	if err := disk.RecordContainer(dir, "planted", containerLayer, p.marker); err != nil {
		t.Fatal(err)
	}
	for _, row := range plantRows {
		if row.only != "" && row.only != profile {
			continue
		}
		p.rows++
		for path, content := range row.with {
			put(t, root, path, content)
		}
		for _, path := range expand(t, root, row.gone) {
			p.gone[path] = put(t, root, path, fmt.Sprintf("# %s %04d\n", p.marker, len(p.gone)))
		}
		for _, path := range expand(t, root, row.stays) {
			p.stays[path] = put(t, root, path, "# near to something that goes\n")
		}
		for _, line := range slices.Concat(row.goneLines, row.staysLines) {
			addLine(t, root, line)
		}
		p.goneLines = append(p.goneLines, row.goneLines...)
		p.staysLines = append(p.staysLines, row.staysLines...)
	}
	return p
}

// expand replaces patterns by the existing paths.
func expand(t *testing.T, root *os.Root, patterns []string) (paths []string) {
	t.Helper()
	for _, pattern := range patterns {
		if !strings.Contains(pattern, "*") {
			paths = append(paths, pattern)
			continue
		}
		found, err := fs.Glob(root.FS(), pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("there is no %s on the machine: %v", pattern, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// put creates a file at a path unless the path exists, and returns the content.
func put(t *testing.T, root *os.Root, path, content string) []byte {
	t.Helper()
	info, err := root.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err == nil && info.Size() > 0 {
		content, err := root.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	if err := errors.Join(root.MkdirAll(filepath.Dir(path), 0o755), root.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
	return []byte(content)
}

func addLine(t *testing.T, root *os.Root, line plantLine) {
	t.Helper()
	if err := root.MkdirAll(filepath.Dir(line.path), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := root.OpenFile(line.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString(line.line + "\n")
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// check returns planted files that were not removed, and files that were lost.
func (p *plants) check(t *testing.T, dir string) (survivors, lost []string) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for path, content := range p.gone {
		if holds(root, path, content) {
			survivors = append(survivors, path)
		}
	}
	for path, content := range p.stays {
		if !holds(root, path, content) {
			lost = append(lost, path)
		}
	}
	for _, line := range p.goneLines {
		if hasLine(root, line) {
			survivors = append(survivors, line.path+": "+line.line)
		}
	}
	for _, line := range p.staysLines {
		if !hasLine(root, line) {
			lost = append(lost, line.path+": "+line.line)
		}
	}
	slices.Sort(survivors)
	slices.Sort(lost)
	return survivors, lost
}

// holds reports whether a file still begins with its earlier content, because logs grow.
func holds(root *os.Root, path string, content []byte) bool {
	if content == nil {
		_, err := root.Lstat(path)
		return !errors.Is(err, fs.ErrNotExist)
	}
	now, err := root.ReadFile(path)
	return err == nil && bytes.HasPrefix(now, content)
}

func hasLine(root *os.Root, line plantLine) bool {
	content, err := root.ReadFile(line.path)
	return err == nil && slices.Contains(strings.Split(string(content), "\n"), line.line)
}

// test compares a generalized disk with the planted files.
func (p *plants) test(t *testing.T, dir string) {
	t.Helper()
	survivors, lost := p.check(t, dir)
	if len(survivors) > 0 {
		t.Errorf("planted, and not caught:\n%s", strings.Join(survivors, "\n"))
	}
	if len(lost) > 0 {
		t.Errorf("near misses that did not survive:\n%s", strings.Join(lost, "\n"))
	}
	t.Logf("%d rows: planted %d, caught %d; near misses %d, survived %d", p.rows,
		len(p.gone)+len(p.goneLines), len(p.gone)+len(p.goneLines)-len(survivors),
		len(p.stays)+len(p.staysLines), len(p.stays)+len(p.staysLines)-len(lost))
}
