package patch

import "strings"

// NewestKernel returns the newest release of kernels with the names vmlinuz-RELEASE; empty without a kernel.
func NewestKernel(kernels []string) (newest string) {
	for _, name := range kernels {
		release, found := strings.CutPrefix(name, "vmlinuz-")
		if !found || strings.HasPrefix(release, "0-rescue") {
			continue
		}
		if newest == "" || CompareVersions(release, newest) > 0 {
			newest = release
		}
	}
	return newest
}

// CompareVersions compares two versions without epochs as dpkg does: -1, 0 or 1. Source: deb-version(7).
func CompareVersions(a, b string) int {
	for a != "" || b != "" {
		var textA, textB string
		textA, a = split(a, false)
		textB, b = split(b, false)
		if c := compareText(textA, textB); c != 0 {
			return c
		}
		textA, a = split(a, true)
		textB, b = split(b, true)
		textA, textB = strings.TrimLeft(textA, "0"), strings.TrimLeft(textB, "0")
		if len(textA) != len(textB) {
			return signOf(len(textA) - len(textB))
		}
		if c := strings.Compare(textA, textB); c != 0 {
			return c
		}
	}
	return 0
}

// split cuts the leading digits, or the leading characters that are no digits.
func split(s string, digits bool) (head, rest string) {
	end := strings.IndexFunc(s, func(r rune) bool { return (r >= '0' && r <= '9') != digits })
	if end < 0 {
		return s, ""
	}
	return s[:end], s[end:]
}

// compareText orders letters before other characters, the end before letters, and ~ before the end.
func compareText(a, b string) int {
	weight := func(s string, i int) int {
		switch {
		case i >= len(s):
			return 0
		case s[i] == '~':
			return -1
		case s[i] >= 'A' && s[i] <= 'Z' || s[i] >= 'a' && s[i] <= 'z':
			return int(s[i])
		}
		return int(s[i]) + 256
	}
	for i := range max(len(a), len(b)) {
		if c := weight(a, i) - weight(b, i); c != 0 {
			return signOf(c)
		}
	}
	return 0
}

func signOf(n int) int {
	if n < 0 {
		return -1
	}
	return 1
}
