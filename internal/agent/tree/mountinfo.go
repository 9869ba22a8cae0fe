package tree

import (
	"strconv"
	"strings"
)

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
