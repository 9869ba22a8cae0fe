package offline

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
)

// inPlace is the remedy for a disk that cannot be cleaned as a copy.
const inPlace = "Capture the node in place"

// wrongVolume is the remedy for a device that is not the expected copy.
const wrongVolume = "Check that the volume was made from the snapshot of the donor's root disk"

func refusef(format string, args ...any) error {
	return generalize.NewRefused(fmt.Sprintf(format, args...))
}

// name is the name of a partition in sentences.
func (p Partition) name() string {
	if p.Number == 0 {
		return "the device"
	}
	return fmt.Sprintf("partition %d", p.Number)
}

// holdsLinux reports whether the partition can be the root of a machine.
func (p Partition) holdsLinux() bool { return p.Kind == ext4 || p.Kind == xfs }

// refuseForeign refuses a disk with content between the partition and its file system, or with a file system that Kamino does not
// clean. whole is the content of the device without its table.
func refuseForeign(parts []Partition, whole Content) error {
	for _, p := range append([]Partition{{Content: whole}}, parts...) {
		if what := foreign[p.Kind]; what != "" {
			return refusef("%s holds %s, and Kamino cleans only ext4 and XFS directly in a partition. %s", p.name(), what, inPlace)
		}
		if p.ForeignJournal {
			return refusef("the journal of %s is on another device, so the copy is not complete. %s", p.name(), inPlace)
		}
	}
	return nil
}

// chooseRoot returns the partition with the root file system: the one with the UUID, or without a UUID the only candidate.
func chooseRoot(parts []Partition, uuid string) (Partition, error) {
	var candidates []Partition
	for _, p := range parts {
		if p.holdsLinux() && (uuid == "" || strings.EqualFold(p.FileSystem, uuid)) {
			candidates = append(candidates, p)
		}
	}
	if uuid == "" && len(candidates) > 1 {
		candidates = likelyRoots(candidates)
	}
	switch {
	case len(candidates) == 1:
		return candidates[0], nil
	case len(candidates) == 0 && uuid != "":
		return Partition{}, refusef("no file system of the device has the UUID %s; found: %s. %s", uuid, listed(parts), wrongVolume)
	case len(candidates) == 0:
		return Partition{}, refusef("no partition holds an ext4 or XFS file system; found: %s. %s", listed(parts), wrongVolume)
	case uuid != "":
		return Partition{}, refusef(
			"%d file systems of the device have the UUID %s, so the root is in doubt. Give one another UUID with tune2fs -U or xfs_admin -U",
			len(candidates), uuid)
	}
	return Partition{}, refusef("several partitions can be the root: %s. Pass --root-uuid with the UUID of the root file system", listed(candidates))
}

// likelyRoots leaves out the partitions that say what they are for: another type than root, or ext4 last mounted elsewhere.
func likelyRoots(candidates []Partition) []Partition {
	typed := slices.DeleteFunc(slices.Clone(candidates), func(p Partition) bool { return !slices.Contains(rootTypes, p.Type) })
	if len(typed) == 1 {
		return typed
	}
	return slices.DeleteFunc(slices.Clone(candidates), func(p Partition) bool {
		return p.Type == typeExtendedBoot || p.MountedAt != "" && p.MountedAt != "/"
	})
}

// listed names partitions with their content.
func listed(parts []Partition) string {
	var names []string
	for _, p := range parts {
		what := string(p.Kind)
		if what == "" {
			what = "nothing known"
		}
		if p.FileSystem != "" {
			what += " " + p.FileSystem
		}
		names = append(names, p.name()+" ("+what+")")
	}
	if len(names) == 0 {
		return "an empty partition table"
	}
	return generalize.Printable(strings.Join(names, ", "))
}

// mountPlan is a file system that the copy's fstab mounts below its root.
type mountPlan struct {
	Partition
	// Dir is the mount point, as a clean absolute path of the machine.
	Dir string
}

// planMounts returns the file systems of this device that fstab names, the outer ones first. A Linux file system that fstab does not
// name is refused: no rule would reach its files. Entries of other devices are not the copy's.
func planMounts(fstab string, parts []Partition, root Partition) ([]mountPlan, error) {
	var plans []mountPlan
	for line := range strings.Lines(fstab) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.HasPrefix(fields[0], "#") || !strings.HasPrefix(fields[1], "/") {
			continue
		}
		dir := path.Clean(unescape(fields[1]))
		i := slices.IndexFunc(parts, func(p Partition) bool { return p.isNamed(unescape(fields[0])) })
		if i < 0 || parts[i].Number == root.Number || dir == "/" || !parts[i].holdsLinux() && parts[i].Kind != vfat {
			continue
		}
		if slices.ContainsFunc(plans, func(m mountPlan) bool { return m.Number == parts[i].Number || m.Dir == dir }) {
			return nil, discardf(Unsupported, "/etc/fstab of the copy mounts %s or %s twice. Correct the file on the donor", parts[i].name(),
				generalize.Printable(dir))
		}
		plans = append(plans, mountPlan{parts[i], dir})
	}
	for _, p := range parts {
		if p.holdsLinux() && p.Number != root.Number && !slices.ContainsFunc(plans, func(m mountPlan) bool { return m.Number == p.Number }) {
			return nil, discardf(
				Unsupported,
				"%s holds a file system (%s) that /etc/fstab of the copy does not mount by its UUID or label, and no rule would reach its files. "+
					"Name it in /etc/fstab, or remove the partition, on the donor",
				p.name(),
				p.Kind,
			)
		}
	}
	slices.SortStableFunc(plans, func(a, b mountPlan) int { return strings.Count(a.Dir, "/") - strings.Count(b.Dir, "/") })
	return plans, nil
}

// isNamed reports whether the first field of a line in fstab names the partition by what is on the device itself. Names such as
// /dev/sda1 depend on the machine. Source: fstab(5).
func (p Partition) isNamed(spec string) bool {
	for _, by := range []string{"uuid", "label", "partuuid", "partlabel"} {
		spec = strings.Replace(spec, "/dev/disk/by-"+by+"/", strings.ToUpper(by)+"=", 1)
	}
	key, value, _ := strings.Cut(spec, "=")
	value = strings.Trim(value, `"`)
	switch key {
	case "UUID":
		return value != "" && strings.EqualFold(value, p.FileSystem)
	case "LABEL":
		return value != "" && value == p.Label
	case "PARTUUID":
		return value != "" && strings.EqualFold(value, p.UUID)
	case "PARTLABEL":
		return value != "" && value == p.Name
	}
	return false
}

// unescape decodes the escapes of fstab for blanks.
func unescape(field string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`).Replace(field)
}
