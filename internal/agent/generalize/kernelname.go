package generalize

import (
	"regexp"
	"slices"
	"strings"
)

// kernelName matches the names of disks and partitions that depend on the driver, and on the order in which the kernel finds
// disks. Source: Linux, devices.txt.
var kernelName = regexp.MustCompile(`^/dev/(?:(?:sd|vd|xvd|hd)[a-z]+[0-9]*|nvme[0-9]+n[0-9]+(?:p[0-9]+)?|mmcblk[0-9]+(?:p[0-9]+)?)$`)

// isKernelName reports whether a clone on other hardware may have the device of a mount point by another name. The name of the root in fstab is
// no reason to wait: the root is already mounted.
func isKernelName(spec, point string) bool { return point != "/" && kernelName.MatchString(spec) }

// kernelNameIn returns the first disk that a line of mdadm.conf names by such a name; else empty.
func kernelNameIn(words []string) string {
	for _, word := range words {
		list, is := strings.CutPrefix(word, "devices=")
		names := strings.Split(list, ",")
		if i := slices.IndexFunc(names, kernelName.MatchString); is && i >= 0 {
			return names[i]
		}
	}
	return ""
}
