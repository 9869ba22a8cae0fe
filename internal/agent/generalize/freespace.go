package generalize

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// Minimum free space on each written file system. It is many times the written amount (first-boot files, edited
// settings, manifest), because other programs may write until stopped.
const (
	minFreeBytes = 16 << 20
	minFreeFiles = 128
)

// outOfSpace returns a sentence for each file system without enough room. Nothing may be removed there, because neither
// replacements nor the manifest could be written.
func outOfSpace(p *rules.Profile, t *tree.Tree, room func(dir string) (tree.FreeSpace, error)) (whys []string) {
	var seen []string
	for _, written := range written(p) {
		dir, err := above(t, tree.Rel(written))
		if err != nil || slices.Contains(seen, dir) {
			continue // the rule of the path reports the error
		}
		seen = append(seen, dir)
		free, err := room(dir)
		switch {
		case err != nil:
			whys = append(whys, fmt.Sprintf("the free space at /%s is unknown: %v", tidy(dir), err))
		case free.Bytes < minFreeBytes:
			whys = append(whys, fmt.Sprintf("the file system of /%s has %d KiB free, and the next boot needs %d: free space there, then try again",
				tidy(dir), free.Bytes>>10, minFreeBytes>>10))
		case free.Files < minFreeFiles:
			whys = append(whys, fmt.Sprintf("the file system of /%s has room for %d more files, and the next boot needs %d: remove files there, then try again",
				tidy(dir), free.Files, minFreeFiles))
		}
		if len(whys) > 0 {
			return whys // the others are mostly of the same file system
		}
	}
	return nil
}

// written are the files that every run writes.
func written(p *rules.Profile) []string {
	written := []string{ManifestPath}
	for i := range p.Rules {
		if r := &p.Rules[i]; r.Action.Is(rules.Install, rules.Record, rules.Truncate) {
			written = append(written, r.Paths...)
		}
	}
	return written
}

// above returns the nearest existing directory above a path.
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

// tidy returns a directory of the tree, with an empty text for the root.
func tidy(dir string) string {
	if dir == "." {
		return ""
	}
	return dir
}
