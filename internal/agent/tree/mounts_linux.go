package tree

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

// MountsBelow returns the mounts at or below a directory in this process's mount namespace, in mount order. Each Dir is
// a path of the tree; "/" is the directory itself.
func MountsBelow(root string) ([]MountPoint, error) {
	absolute, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if absolute, err = filepath.EvalSymlinks(absolute); err != nil {
		return nil, err
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var mounts []MountPoint
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		m, ok := ParseMount(lines.Text())
		if ok && (m.Dir == absolute || strings.HasPrefix(m.Dir, strings.TrimSuffix(absolute, "/")+"/")) {
			m.Dir = "/" + strings.Trim(strings.TrimPrefix(m.Dir, absolute), "/")
			mounts = append(mounts, m)
		}
	}
	return mounts, lines.Err()
}
