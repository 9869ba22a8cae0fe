package generalize

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// What must be free on each file system that is written to. It is many times what is written (the first-boot files,
// edited settings, the manifest), because something else may write until everything is stopped.
const (
	minFreeBytes = 16 << 20
	minFreeFiles = 128
)

// cramped has a sentence for each file system on which there is no room for what a run writes. Nothing may be removed
// there: what makes it again, and the manifest, could not be written.
func (p *Profile) cramped(t *tree.Tree, room func(dir string) (tree.Room, error)) (whys []string) {
	var seen []string
	for _, written := range p.written() {
		dir, err := above(t, tree.Rel(written))
		if err != nil || slices.Contains(seen, dir) {
			continue // What cannot be looked at is said by the rule that is about it.
		}
		seen = append(seen, dir)
		free, err := room(dir)
		switch {
		case err != nil:
			whys = append(whys, fmt.Sprintf("how much is free at /%s cannot be told: %v", tidy(dir), err))
		case free.Bytes < minFreeBytes:
			whys = append(whys, fmt.Sprintf("the file system of /%s has %d KiB free, and %d are needed for what the next boot needs: make room there, then try again",
				tidy(dir), free.Bytes>>10, minFreeBytes>>10))
		case free.Files < minFreeFiles:
			whys = append(whys, fmt.Sprintf("the file system of /%s has room for %d more files, and %d are needed for what the next boot needs: remove some, then try again",
				tidy(dir), free.Files, minFreeFiles))
		}
		if len(whys) > 0 {
			return whys // The others are mostly of the same file system.
		}
	}
	return nil
}

// written are the files that a run writes whatever it finds.
func (p *Profile) written() []string {
	written := []string{ManifestPath}
	for i := range p.Rules {
		if r := &p.Rules[i]; is(r.Action, Install, Record, Truncate) {
			written = append(written, r.Paths...)
		}
	}
	return written
}

// above is the nearest directory above a path that is there.
func above(t *tree.Tree, p string) (string, error) {
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		real, info, err := t.Resolve(dir)
		switch {
		case err == nil && info.IsDir():
			return real, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist), dir == ".":
			return "", err
		}
	}
}

// tidy is a directory of the tree without the dot that stands for its root.
func tidy(dir string) string {
	if dir == "." {
		return ""
	}
	return dir
}
