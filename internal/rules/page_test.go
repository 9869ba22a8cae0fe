package rules

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the tables of docs/reference/generalize-rules.md")

const (
	pagePath = "../../docs/reference/generalize-rules.md"
	begin    = "<!-- The tables below are made from internal/rules/profile by go generate. -->\n"
)

// TestPage compares the tables of the page. The text above the tables is written by hand.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	text, tables, found := strings.Cut(string(page), begin)
	if !found {
		t.Fatalf("%s has lost the line %q", pagePath, begin)
	}
	want := renderTables(t)
	if *update {
		if err := os.WriteFile(pagePath, []byte(text+begin+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, tables); diff != "" {
		t.Errorf("%s is out of date, run go generate ./internal/rules (-want +got):\n%s", pagePath, diff)
	}
}

func renderTables(t *testing.T) string {
	var b strings.Builder
	all := map[v1alpha1.Profile]*Profile{}
	in := map[string][]string{} // the profiles of a rule
	for _, name := range v1alpha1.Profiles() {
		p, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = p
		for _, r := range all[name].Rules {
			in[r.ID] = append(in[r.ID], "`"+string(name)+"`")
		}
	}
	b.WriteString("\n## Rules of every profile\n\n")
	renderRules(&b, all[v1alpha1.ProfileStatic], func(r *Rule) bool { return len(in[r.ID]) == len(all) })
	var shared []string
	for _, name := range v1alpha1.Profiles() {
		p := all[name]
		for _, r := range p.Rules {
			by := strings.Join(in[r.ID], " and ")
			if n := len(in[r.ID]); n == 1 || n == len(all) || slices.Contains(shared, by) {
				continue
			}
			shared = append(shared, by)
			fmt.Fprintf(&b, "\n## Rules of profiles %s\n\n", by)
			renderRules(&b, p, func(r *Rule) bool { return strings.Join(in[r.ID], " and ") == by })
		}
	}
	for _, name := range v1alpha1.Profiles() {
		p := all[name]
		fmt.Fprintf(&b, "\n## Rules of profile `%s`\n\nVersion `%s`: %s.", p.Name, p.Version, p.Summary)
		if p.NotLive != "" {
			fmt.Fprintf(&b, "\n\nNot for a running host: %s.", p.NotLive)
		}
		b.WriteString("\n\n")
		own := func(r *Rule) bool { return len(in[r.ID]) == 1 }
		if !slices.ContainsFunc(p.Rules, func(r Rule) bool { return own(&r) }) {
			b.WriteString("The profile has no rules of its own.\n")
			continue
		}
		renderRules(&b, p, own)
	}
	renderMakers(&b, all)
	b.WriteString("\n## What is stopped on a live host, in this order\n\n| units | why |\n|---|---|\n")
	for _, s := range all[v1alpha1.ProfileStatic].Stop {
		fmt.Fprintf(&b, "| %s | %s |\n", codes(s.Units), cell(s.Reason))
	}
	return b.String()
}

func renderMakers(b *strings.Builder, all map[v1alpha1.Profile]*Profile) {
	b.WriteString("\n## Makers\n\nA rule with a maker is refused before any change if the maker is missing, not enabled, or disabled by a setting.\n\n")
	b.WriteString("| maker | on the disk | enabled | disabled by | remedy |\n|---|---|---|---|---|\n")
	seen := map[string]bool{}
	for _, name := range v1alpha1.Profiles() {
		for _, m := range all[name].Makers {
			if seen[m.Name] {
				continue
			}
			seen[m.Name] = true
			name := "`" + m.Name + "`"
			if len(m.Or) > 0 {
				name += ", or " + strings.ReplaceAll(codes(m.Or), "<br>", ", ")
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", name, joined(codes(m.Paths), settings(m.Evidence)), codes(m.Units), settings(m.DisabledBy), cell(m.Remedy))
		}
	}
}

func settings(all []Setting) string {
	var texts []string
	for _, s := range all {
		if s.Pattern == "\\A" {
			texts = append(texts, strings.ReplaceAll(codes(s.Paths), "<br>", ", "))
			continue
		}
		what := "`" + cell(s.Pattern) + "`"
		if s.Key != "" {
			what = "`" + s.Key + "`"
			if len(s.Values) > 0 {
				what += ": " + strings.Join(s.Values, ", ")
			} else {
				what += " without " + codes(s.Without)
			}
		}
		texts = append(texts, what+" in "+strings.ReplaceAll(codes(s.Paths), "<br>", ", "))
	}
	return strings.Join(texts, "<br>")
}

func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "<br>")
}

func renderRules(b *strings.Builder, p *Profile, which func(*Rule) bool) {
	b.WriteString("| rule | action | paths | why | known from |\n|---|---|---|---|---|\n")
	for i := range p.Rules {
		r := &p.Rules[i]
		if !which(r) {
			continue
		}
		action, paths := string(r.Action), codes(r.Paths)
		if r.Allowable {
			action += ", allowable"
		}
		if len(r.Except) > 0 {
			paths += "<br>but not " + codes(r.Except)
		}
		if r.Only != "" {
			paths += "<br>" + r.Only + " only"
		}
		if makers := r.MakerNames(); len(makers) > 0 {
			paths += "<br>created again by " + codes(makers)
		}
		if len(r.NeededBy) > 0 {
			paths += "<br>refused if a setting needs a match"
		}
		if r.Unless != nil {
			paths += "<br>unless " + cell(r.Unless.Reason)
		}
		if len(r.OnlyOS) > 0 {
			paths += "<br>on " + strings.Join(r.OnlyOS, ", ")
		}
		if len(r.ExceptOS) > 0 {
			paths += "<br>not on " + strings.Join(r.ExceptOS, ", ")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", r.ID, action, paths, cell(r.Reason), cell(r.Source))
	}
}

func codes(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = "`" + cell(text) + "`"
	}
	return strings.Join(quoted, "<br>")
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
