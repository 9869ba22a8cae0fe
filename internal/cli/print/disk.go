package print

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/kamino-dev/kamino/internal/generalize"
	"github.com/kamino-dev/kamino/internal/generalize/disk"
	"github.com/kamino-dev/kamino/internal/generalize/scan"
)

// Rules writes the removals of a profile with their reasons.
func Rules(w io.Writer, format Format, p *generalize.Profile) error {
	if format.Machine() {
		return Value(w, format, p)
	}
	fmt.Fprintf(w, "Profile %s, version %s, agents of catalogue %s: %s\n", p.Name, p.Version, p.Catalogue, p.Summary)
	if p.NotLive != "" {
		fmt.Fprintf(w, "Not for a running host: %s\n", p.NotLive)
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tACTION\tPATH\tREASON")
	for _, r := range p.Rules {
		action := string(r.Action)
		if r.Allowable {
			action += " (allowable)"
		}
		reason, _, _ := strings.Cut(r.Reason, ". ")
		for i, path := range r.Paths {
			if i == 0 {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.ID, action, path, reason)
				continue
			}
			fmt.Fprintf(table, "\t\t%s\t\n", path)
		}
	}
	return table.Flush()
}

// Manifest writes the findings and effects of a run.
func Manifest(w io.Writer, format Format, m *generalize.Manifest) error {
	if format.Machine() {
		return Value(w, format, m)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tACTION\tFOUND\tCHANGED\tMET\tNOTE")
	for _, o := range m.Outcomes {
		if o.Found == 0 && o.Changed == 0 && o.Met {
			continue
		}
		met, note := "yes", o.Kept
		switch {
		case o.Waived:
			met = "-"
		case !o.Met:
			met, note = "no", o.Why
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\t%s\n", o.Rule, o.Action, o.Found, o.Changed, met, generalize.Printable(note))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	digest, err := m.Digest()
	if err != nil {
		return err
	}
	if m.Scan != nil {
		fmt.Fprintf(w, "\n%d files searched for secrets and identities: %d found, %d more allowed with a reason\n", m.Scan.Files, m.Scan.Count, m.Scan.KeptCount)
	}
	if m.Scan != nil {
		possible(w, &m.Scan.KnownFiles)
	}
	for _, id := range m.Unused {
		fmt.Fprintf(w, "Your rule %s found nothing in three captures. Correct its paths, or remove the rule\n", id)
	}
	for i := range m.Credentials {
		fmt.Fprintln(w, "Kept credential:", m.Credentials[i].String())
	}
	if m.DryRun {
		_, err = fmt.Fprintf(w, "\n%d of %d rules of profile %s/%s are met without changes; nothing was changed\n", m.Met, m.Rules, m.Profile, m.ProfileVersion)
		return err
	}
	_, err = fmt.Fprintf(w, "\n%d of %d rules of profile %s/%s are met; manifest %s\n", m.Met, m.Rules, m.Profile, m.ProfileVersion, digest)
	return err
}

// Found writes the findings of a search; of a secret only the place.
func Found(w io.Writer, format Format, found *disk.SearchResult) error {
	if format.Machine() {
		return Value(w, format, found)
	}
	listed := len(found.Findings) + len(found.Kept)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if listed > 0 {
		fmt.Fprintln(table, "WHERE\tKIND\tWHAT\tRULE\tMAY STAY")
	}
	for _, list := range [][]scan.Finding{found.Findings, found.Kept} {
		for i := range list {
			finding := &list[i]
			rule, kept := finding.Rule, finding.Kept
			if rule == "" {
				rule = "-"
			}
			if kept == "" {
				kept = "no"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", generalize.Printable(finding.Where()), finding.Kind, generalize.Printable(finding.What), rule, generalize.Printable(kept))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if listed > 0 {
		fmt.Fprintln(w)
	}
	if more := found.Count - len(found.Findings); more > 0 {
		fmt.Fprintf(w, "%d more findings are not listed\n", more)
	}
	looked := "keys and tokens, but not for identities: no manifest and no list of identities"
	if found.Identities > 0 {
		looked = fmt.Sprintf("keys, tokens and %d identities of the donor", found.Identities)
	}
	verdict := "clean"
	switch {
	case !found.Clean:
		verdict = fmt.Sprintf("%d findings", found.Count)
	case found.Possible.Count > 0:
		verdict = fmt.Sprintf("no findings, %d possible identities", found.Possible.Count)
	}
	possible(w, &found.KnownFiles)
	compared(w, found.Compared)
	_, err := fmt.Fprintf(w, "%s: read %d files, %d MiB, for %s\n", verdict, found.Files, found.Bytes>>20, looked)
	return err
}

// compared lists files that differ from another machine.
func compared(w io.Writer, c *disk.Comparison) {
	if c == nil {
		return
	}
	fmt.Fprintf(w, "Compared with %s: %d files of unknown origin are equal, %d differ, %d are only here\n", generalize.Printable(c.With), c.Equal, len(c.Different), len(c.Only))
	for _, name := range c.Different {
		fmt.Fprintln(w, "  differs:", generalize.Printable(name))
	}
	for _, name := range c.Only {
		fmt.Fprintln(w, "  only here:", generalize.Printable(name))
	}
}

// possible lists files that may hold an identity.
func possible(w io.Writer, known *scan.KnownFiles) {
	if known.Possible.Count == 0 {
		return
	}
	fmt.Fprintf(w, "%d files of unknown origin may hold an identity. Write a rule for each file, or exempt it with a reason:\n", known.Possible.Count)
	for _, name := range known.Possible.First {
		fmt.Fprintln(w, " ", generalize.Printable(name))
	}
	if more := known.Possible.Count - len(known.Possible.First); more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
}
