package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// ready is the simulated time from the request to the Ready node.
func (j joined) ready() time.Duration { return clock.Sum(j.boot) }

// serving is the simulated time from the request to the first pod that is ready.
func (j joined) serving() time.Duration { return j.ready() + clock.Sum(j.pod) }

// untilPatched is the simulated time from the request to the Ready node with the donor's patches. Only a node that was built without
// them is patched and rebooted, which takes as long as on the donor.
func (s *scenario) untilPatched(j joined) time.Duration {
	if j.machine.Kernel == s.before[s.donor].Kernel {
		return j.ready()
	}
	return j.ready() + s.patching
}

// isFaster is the claim about the simulated times.
const isFaster = "by the simulated clock, the new node is patched sooner, and its first pod is ready sooner"

// prototypeIsFaster: the join of an EKS node is the same from both images, and the first-boot unit costs two seconds. The
// rest must be shorter everywhere.
func (s *scenario) prototypeIsFaster(context.Context) error {
	if s.generic.ready() <= 0 || len(s.generic.pod) == 0 || len(s.clone.pod) == 0 {
		return errors.New("the machines have no simulated times")
	}
	for what, times := range map[string][2]time.Duration{
		"the first pod": {s.generic.serving(), s.clone.serving()},
		"the patch":     {s.untilPatched(s.generic), s.untilPatched(s.clone)},
	} {
		if times[1] >= times[0] {
			return fmt.Errorf("%s: %s after the request from the golden image, %s from the generic image", what, minutes(times[1]), minutes(times[0]))
		}
	}
	if generic, clone := s.generic.ready(), s.clone.ready(); clone >= generic && !s.joinsByRole() {
		return fmt.Errorf("the node was Ready after %s from the golden image, after %s from the generic image", minutes(clone), minutes(generic))
	}
	return nil
}

// compareNodes compares both nodes.
func (s *scenario) compareNodes(context.Context) error {
	generic, clone := s.generic, s.clone
	changed := changedPackage(generic.machine.Packages, s.before[s.donor].Packages)
	row := func(title string, of func(joined) time.Duration) [3]string {
		return [3]string{title, minutes(of(generic)), minutes(of(clone))}
	}
	part := func(title string, kinds ...string) [3]string {
		return row("  "+title, func(j joined) time.Duration { return clock.Sum(j.boot, kinds...) })
	}
	rows := [][3]string{
		{"", "generic image", "golden image"},
		{"node", shortName(generic.Node), shortName(clone.Node)},
		{"built from", imageName(generic.machine.Image), imageName(clone.machine.Image)},
		row("request to Ready", joined.ready),
		part("cloud and boot", machine.WaitCloud, machine.WaitBoot),
	}
	if clock.Sum(generic.boot, machine.WaitInstall, machine.WaitPull) > 0 {
		rows = append(rows, part("packages and extensions", machine.WaitInstall), part("image pulls", machine.WaitPull))
	}
	rows = append(rows,
		part("join", machine.WaitJoin),
		row("request to first pod", joined.serving),
		row("request to patched node", s.untilPatched),
		[3]string{changed, generic.machine.Packages[changed], clone.machine.Packages[changed]},
		[3]string{"kernel", strings.TrimSuffix(generic.machine.Kernel, ".x86_64"), strings.TrimSuffix(clone.machine.Kernel, ".x86_64")},
		[3]string{"images when Ready", fmt.Sprint(len(generic.images)), fmt.Sprint(len(clone.images))},
		[3]string{"machine-id", short(generic.identity.machineID), short(clone.identity.machineID)},
		[3]string{"ssh host key", short(generic.identity.hostKey), short(clone.identity.hostKey)})
	s.print.table(rows)
	s.print.gap()
	s.print.line("From the golden image, the first pod is ready %s sooner, and the node is patched %s sooner.",
		minutes(generic.serving()-clone.serving()), minutes(s.untilPatched(generic)-s.untilPatched(clone)))
	s.describeDonor()
	s.print.gap()
	s.print.line("All times are simulated: the waits of the cloud, of machines and of pods. A busy machine changes nothing. The times are common " +
		"values; your cloud has its own. A generic node is patched and rebooted as the donor was.")
	if s.Cloud == pool.AWS {
		s.print.line("EBS loads a new volume from its snapshot at the first read, so a cached image is not free: the sandbox reads 60 MiB/s. " +
			"Kamino's first-boot unit adds 2 s to the boot.")
	}
	return nil
}

func minutes(d time.Duration) string {
	d = d.Round(time.Second)
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}

// shortName is the name of a node without its domain. A long name keeps its end, which differs between nodes.
func shortName(node string) string {
	name, _, _ := strings.Cut(node, ".")
	if len(name) > cells {
		name = "..." + name[len(name)-cells+3:]
	}
	return name
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
		_, version, _ := strings.Cut(own, "/versions/")
		return "version " + version
	}
	if parts := strings.Split(image, ":"); len(parts) == 4 {
		return parts[0] + " " + parts[2]
	}
	return image
}

// short is the begin of a long value.
func short(value string) string { return value[:min(len(value), cells-4)] + "..." }
