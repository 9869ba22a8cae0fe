package demo

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// compareNodes compares both nodes.
func (s *scenario) compareNodes(context.Context) error {
	donor := s.before[s.donor]
	changed := changedPackage(s.generic.machine.Packages, donor.Packages)
	bootstrap := [3]string{"bootstrap", "customData and extension, on every node", "none: done once, on the donor"}
	if s.joinsByRole() {
		bootstrap = [3]string{"join", "nodeadm, with the instance's role", "nodeadm, with the instance's role"}
	}
	s.print.table([][3]string{
		{"", "from the generic image", "from the prototype"},
		{"node", s.generic.Node, s.clone.Node},
		{"built from", imageName(s.generic.machine.Image), imageName(s.clone.machine.Image)},
		{"request to Ready", seconds(s.generic.Ready), seconds(s.clone.Ready)},
		{"request to first pod ready", seconds(s.generic.Serving), seconds(s.clone.Serving)},
		bootstrap,
		{changed, s.generic.machine.Packages[changed], s.clone.machine.Packages[changed] + " (the donor's patch)"},
		{"kernel", s.generic.machine.Kernel, s.clone.machine.Kernel},
		{"images on disk when Ready", fmt.Sprint(len(s.generic.images)), fmt.Sprint(len(s.clone.images))},
		{"machine-id", s.generic.identity.machineID, s.clone.identity.machineID},
		{"ssh host key", shortKey(s.generic.identity.hostKey), shortKey(s.clone.identity.hostKey)},
	})
	s.print.gap()
	s.describeDonor()
	s.print.footnote()
	return nil
}

// seconds shows a time in the sandbox, and the simulated time in brackets.
func seconds(s float64) string {
	cloud := time.Duration(s * TimeScale * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("%.1f s  [%s]", s, minutes(cloud))
}

func minutes(d time.Duration) string {
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}

// changedPackage names a package that the patch changed; openssl if possible, because readers know openssl.
func changedPackage(before, after map[string]string) string {
	found := ""
	for name, version := range after {
		if before[name] == version {
			continue
		}
		if name == "openssl" {
			return name
		}
		if found == "" || name < found {
			found = name
		}
	}
	return found
}

// imageName is the readable part of an image reference.
func imageName(image string) string {
	if _, own, found := strings.Cut(image, "/images/"); found {
		definition, version, _ := strings.Cut(own, "/versions/")
		return definition + " " + version
	}
	if parts := strings.Split(image, ":"); len(parts) == 4 {
		return parts[0] + " " + parts[2]
	}
	return image
}

func shortKey(fingerprint string) string {
	if len(fingerprint) > 26 {
		return fingerprint[:26] + "..."
	}
	return fingerprint
}
