package patch

import (
	"fmt"
	"slices"
	"strings"
)

// System is what os-release(5) says about a node.
type System struct {
	ID, VersionID string
	// Like has the words of ID_LIKE.
	Like []string
}

// String is ID and VERSION_ID.
func (s System) String() string { return strings.TrimSpace(s.ID + " " + s.VersionID) }

// SystemOf parses os-release.
func SystemOf(osRelease string) System {
	values := map[string]string{}
	for line := range strings.Lines(osRelease) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found {
			values[name] = strings.Trim(value, `"'`)
		}
	}
	return System{ID: values["ID"], VersionID: values["VERSION_ID"], Like: strings.Fields(values["ID_LIKE"])}
}

// unsupported distributions, with the reason. Image-based systems replace the whole system; no package is new on the disk.
var unsupported = map[string]string{
	"azurelinux":    "tdnf is not tested",
	"mariner":       "tdnf is not tested",
	"sles":          "zypper is not tested",
	"sle-micro":     "zypper is not tested",
	"opensuse-leap": "zypper is not tested",
	"bottlerocket":  "the system is an image without packages",
	"flatcar":       "the system is an image without packages",
	"cos":           "the system is an image without packages",
	"talos":         "the system is an image without packages",
	"ubuntu-core":   "the system is an image without packages",
}

// ManagerOf returns the package manager of a node. isImageBased: the root is an ostree deployment (/run/ostree-booted), or
// another system whose packages cannot change.
func ManagerOf(s System, isImageBased bool) (Manager, *Failure) {
	refuse := func(why string) (Manager, *Failure) {
		return "", &Failure{Reason: Unsupported, Message: fmt.Sprintf("Kamino cannot patch %q: %s", s, why)}
	}
	why := unsupported[s.ID]
	switch {
	case why != "":
		return refuse(why)
	case isImageBased:
		return refuse("the system is an image without packages")
	case s.is("debian", "ubuntu"):
		return APT, nil
	case s.is("amzn") && s.VersionID == "2":
		return refuse("yum is not tested")
	case s.is("suse", "opensuse"):
		return refuse("zypper is not tested")
	case s.is("amzn", "fedora", "rhel", "centos"):
		return DNF, nil
	}
	return refuse("the distribution is not known; apt of Debian and Ubuntu and dnf of Fedora's descendants are supported")
}

func (s System) is(ids ...string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return s.ID == id || slices.Contains(s.Like, id) })
}
