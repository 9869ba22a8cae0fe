package agent

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/generalize/disk"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/rules"
)

// printRules writes the removals of a profile with their reasons.
func printRules(w io.Writer, format output.Format, p *rules.Profile) error {
	if format.Machine() {
		return output.Value(w, format, p)
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

// printManifest writes the findings and effects of a run.
func printManifest(w io.Writer, format output.Format, m *generalize.Manifest) error {
	if format.Machine() {
		return output.Value(w, format, m)
	}
	if m.DryRun {
		return expected(w, m)
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
		fmt.Fprintf(w, "\n%s searched for secrets and identities: %d found, %d more allowed with a reason\n", generalize.Counted(m.Scan.Files,
			"file"), m.Scan.Count, m.Scan.KeptCount)
		possible(w, &m.Scan.KnownFiles)
	}
	unusedAndKept(w, m)
	_, err = fmt.Fprintf(w, "\n%d of %d rules of profile %s/%s are met; manifest %s\n", m.Met, m.Rules, m.Profile, m.ProfileVersion, digest)
	return err
}

// expected writes what a run would do.
func expected(w io.Writer, m *generalize.Manifest) error {
	changes := 0
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tACTION\tFOUND\tNOTE")
	for _, o := range m.Outcomes {
		acts := !o.Waived && o.Kept == "" && o.Action != rules.Refuse && (o.Found > 0 || o.Action == rules.Install || o.Action == rules.Record)
		if acts {
			changes++
		}
		if !acts && o.Found == 0 && o.Why == "" {
			continue
		}
		note := o.Kept
		if o.Why != "" {
			note = o.Why
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", o.Rule, o.Action, o.Found, generalize.Printable(note))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	unusedAndKept(w, m)
	_, err := fmt.Fprintf(w, "\nA run would act by %d of the %s of profile %s/%s; nothing was changed\n", changes, generalize.Counted(m.Rules,
		"rule"), m.Profile, m.ProfileVersion)
	return err
}

// unusedAndKept writes the user's rules that find nothing, and the credentials that stay.
func unusedAndKept(w io.Writer, m *generalize.Manifest) {
	for _, id := range m.Unused {
		fmt.Fprintf(w, "Your rule %s found nothing in three captures. Correct its paths, or remove the rule\n", id)
	}
	for i := range m.Credentials {
		fmt.Fprintln(w, "Kept credential:", m.Credentials[i].String())
	}
}

// printFound writes the findings of a search; of a secret only the place.
func printFound(w io.Writer, format output.Format, found *disk.SearchResult) error {
	if format.Machine() {
		return output.Value(w, format, found)
	}
	if run := found.Run; run != nil {
		fmt.Fprintln(w, "Generalize run:", runText(run))
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
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", generalize.Printable(finding.Where()), finding.Kind, generalize.Printable(finding.What), rule,
				generalize.Printable(kept))
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
	possible(w, &found.KnownFiles)
	compared(w, found.Compared)
	_, err := fmt.Fprintf(w, "%s: read %s, %d MiB, for %s\n", verdictOf(found), generalize.Counted(found.Files, "file"), found.Bytes>>20, searchedFor(found))
	return err
}

func verdictOf(found *disk.SearchResult) string {
	switch {
	case found.Count > 0:
		return generalize.Counted(found.Count, "finding")
	case !found.Clean:
		return "no findings, but the run has no proof"
	case found.Possible.Count > 0:
		return "no findings, " + generalize.Counted(found.Possible.Count, "possible identity")
	default:
		return "clean"
	}
}

// searchedFor describes what the search knew. A clean result says no more than that.
func searchedFor(found *disk.SearchResult) string {
	searched := "keys and tokens, but not for identities: no manifest and no list of identities"
	if found.Identities > 0 {
		searched = fmt.Sprintf("keys, tokens and %s of the donor", generalize.Counted(found.Identities, "identity"))
	}
	if found.Run != nil && !found.Values {
		searched += ". Only the run searched for the donor's name and addresses: to search for them again, pass them with --identities"
	}
	return searched
}

func runText(run *disk.RunResult) string {
	if run.Failed != "" {
		return "failed: " + generalize.Printable(run.Failed)
	}
	return fmt.Sprintf("%d of %d rules were met, and nothing was found", run.Met, run.Rules)
}

// compared lists files that differ from another machine.
func compared(w io.Writer, c *disk.Comparison) {
	if c == nil {
		return
	}
	fmt.Fprintf(w, "Compared with %s, of the files of unknown origin: %d equal, %d different, %d only here\n", generalize.Printable(c.With), c.Equal,
		len(c.Different), len(c.Only))
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
	fmt.Fprintf(w, "%s of unknown origin may hold an identity. Write a rule for each file, or exempt it with a reason:\n",
		generalize.Counted(known.Possible.Count, "file"))
	for _, name := range known.Possible.First {
		fmt.Fprintln(w, " ", generalize.Printable(name))
	}
	if more := known.Possible.Count - len(known.Possible.First); more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
}
