package tree

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
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

// ParseMount parses a line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
func ParseMount(line string) (MountPoint, bool) {
	before, after, found := strings.Cut(line, " - ")
	left, right := strings.Fields(before), strings.Fields(after)
	if !found || len(left) < 5 || len(right) < 2 {
		return MountPoint{}, false
	}
	return MountPoint{Device: left[2], Dir: Unescape(left[4]), Kind: right[0], Source: Unescape(right[1])}, true
}

// Unescape decodes octal escapes of mountinfo such as \040.
func Unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if code, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
