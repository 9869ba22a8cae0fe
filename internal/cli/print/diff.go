package print

import (
	"fmt"
	"io"
	"strconv"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/contents"
)

// Diff writes the difference between two versions: a line of counts, and a table for each kind of content that differs.
func Diff(w io.Writer, format output.Format, d contents.Diff) error {
	if format.Machine() {
		return output.Value(w, format, d)
	}
	line := fmt.Sprintf("The difference between versions %s and %s of pool %s is unknown.", d.From.Version, d.To.Version, d.Pool)
	if known := d.Line(); known != "" {
		line = fmt.Sprintf("Version %s of pool %s, %s.", d.To.Version, d.Pool, known)
	}
	if _, err := fmt.Fprintln(w, output.Wrap(line, narrow)); err != nil {
		return err
	}
	for _, g := range diffTables(d, format == output.Wide) {
		if len(g.rows) == 1 {
			continue
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := tables(w, layoutOf(format, ""), g); err != nil {
			return err
		}
	}
	for i, note := range d.Notes {
		if i == 0 {
			note = "\nUnknown: " + note
		} else {
			note = "Unknown: " + note
		}
		if _, err := fmt.Fprintln(w, output.Wrap(note, narrow)); err != nil {
			return err
		}
	}
	return nil
}

// diffTables are the tables of a difference; without wide, without architectures and digests.
func diffTables(d contents.Diff, wide bool) []grid {
	facts := newGrid([]string{"FACT", d.From.Version, d.To.Version}, nil)
	for _, fact := range [][3]string{
		{"os", d.From.OS, d.To.OS}, {"kernel", d.From.Kernel, d.To.Kernel}, {"kubelet", d.From.Kubelet, d.To.Kubelet},
		{"runtime", d.From.Runtime, d.To.Runtime},
		{"donor", d.From.Donor, d.To.Donor}, {"built from", d.From.Lineage, d.To.Lineage},
	} {
		if fact[1] != fact[2] {
			facts.rows = append(facts.rows, []string{fact[0], orNone(fact[1]), orNone(fact[2])})
		}
	}
	packages := newGrid([]string{"PACKAGE", "CHANGE", "FROM", "TO"}, nil)
	if wide {
		packages.rows[0] = append(packages.rows[0], "ARCH")
	}
	for _, p := range d.Packages {
		row := []string{orNone(p.Name), string(p.Change), orNone(p.From), orNone(p.To)}
		if wide {
			row = append(row, orNone(p.Arch))
		}
		packages.rows = append(packages.rows, row)
	}
	fixed := newGrid([]string{"FIXED", "SOURCE PACKAGE"}, nil)
	for _, f := range d.Fixed {
		fixed.rows = append(fixed.rows, []string{orNone(f.CVE), orNone(f.Source)})
	}
	images := newGrid([]string{"CONTAINER IMAGE", "CHANGE"}, nil)
	add := func(all []contents.Image, change string) {
		for _, i := range all {
			name := i.Name
			if wide || name == "" {
				name = i.String()
			}
			images.rows = append(images.rows, []string{orNone(name), change})
		}
	}
	add(d.ImagesAdded, "added")
	add(d.ImagesGone, "gone")
	unknown := newGrid([]string{"FILES OF UNKNOWN ORIGIN", "FROM", "TO"}, nil)
	for _, u := range d.Unknown {
		unknown.rows = append(unknown.rows, []string{orNone(u.Dir), strconv.Itoa(u.From), strconv.Itoa(u.To)})
	}
	return []grid{facts, packages, fixed, images, unknown}
}
