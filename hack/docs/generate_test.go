package docs

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/crds"
	"github.com/kamino-dev/kamino/internal/agent"
	"github.com/kamino-dev/kamino/internal/cli"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/capi"
	"github.com/kamino-dev/kamino/internal/cloud/karpenter"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
)

var update = flag.Bool("update", false, "write the generated pages")

const (
	reasonsPage  = "troubleshooting/reasons.md"
	commandsPage = "reference/commands.md"
	apiPage      = "reference/api.md"
	refusalsPage = "reference/refusals.md"
)

// TestGeneratedPages compares the generated pages with the code and the tables.
func TestGeneratedPages(t *testing.T) {
	generated := map[string]string{reasonsPage: reasons(t), refusalsPage: refusals(t), commandsPage: commands(), apiPage: api(t), awsPage: unverifiedOnAWS(t)}
	maps.Copy(generated, grants(t))
	for path, want := range generated {
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := gocmp.Diff(want, page(t, path)); diff != "" {
			t.Errorf("docs/%s is out of date, run go generate ./docs (-want +got):\n%s", path, diff)
		}
	}
}

// entry is a row about a reason: the place with the table, the meaning and the remedy.
type entry struct{ where, means, remedy string }

// section are the reasons of docs/reasons.yaml at one place. Links are relative to the page.
type section struct {
	Where   string `json:"where"`
	Page    string `json:"page"`
	Heading string `json:"heading"`
	Reasons []struct {
		Names  []string `json:"names"`
		Means  string   `json:"means"`
		Remedy string   `json:"remedy"`
	} `json:"reasons"`
}

func sections(t *testing.T) (all []section) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(page(t, "reasons.yaml")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// reasons lists each reason with its entries, from A to Z.
func reasons(t *testing.T) string {
	all := map[string][]entry{}
	for _, s := range sections(t) {
		if !slices.Contains(headings(page(t, s.Page)), s.Heading) {
			t.Errorf("docs/%s has no heading %s, which docs/reasons.yaml names", s.Page, s.Heading)
		}
		e := entry{where: fmt.Sprintf("[%s](%s#%s)", s.Where, relative(reasonsPage, s.Page), s.Heading)}
		for _, r := range s.Reasons {
			if e.means, e.remedy = cell(s.Page, r.Means), cell(s.Page, r.Remedy); e.means == "" || e.remedy == "" {
				t.Errorf("docs/reasons.yaml, %s: %v has no meaning or no remedy", s.Where, r.Names)
			}
			for _, name := range r.Names {
				all[name] = append(all[name], e)
			}
		}
	}
	for _, c := range clouds(t) {
		where := fmt.Sprintf("[%s](%s#%s)", c.title, relative(reasonsPage, refusalsPage), headings("# " + c.title)[0])
		for _, r := range c.reasons {
			if r.Means == "" || r.Remedy == "" {
				t.Errorf("%s: %s has no meaning or no remedy", c.title, r.Name)
			}
			all[r.Name] = append(all[r.Name], entry{where, relink(reasonsPage, c.page, r.Means), relink(reasonsPage, c.page, r.Remedy)})
		}
	}
	var b strings.Builder
	b.WriteString("<!-- Made by go generate ./docs from docs/reasons.yaml and the clouds' reasons. -->\n\n# Reasons from A to Z\n\n")
	b.WriteString("Refusals, failures, decisions and conditions have a reason, such as `DrainTimeout`.\n" +
		"The message says what is wrong this time, and contains the address of an entry.\n")
	b.WriteString("\n| place | reasons |\n|---|---|\n")
	byPlace := map[string][]string{}
	for name, entries := range all {
		for _, e := range slices.Compact(entries) {
			byPlace[e.where] = append(byPlace[e.where], fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name)))
		}
	}
	for _, where := range slices.Sorted(maps.Keys(byPlace)) {
		if names := byPlace[where]; len(names) > 1 {
			slices.Sort(names)
			names = slices.Compact(names)
			fmt.Fprintf(&b, "| %s | %s |\n", where, strings.Join(names, " "))
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) }) {
		fmt.Fprintf(&b, "\n## %s\n\n| where | meaning | remedy |\n|---|---|---|\n", name)
		for _, e := range slices.Compact(all[name]) {
			row := fmt.Sprintf("| %s | %s | %s |", e.where, e.means, e.remedy)
			if cells := strings.Count(strings.ReplaceAll(row, `\|`, ""), "|"); cells != 4 {
				t.Errorf("the row of %s has %d cells, want 3: %s", name, cells-1, row)
			}
			b.WriteString(row + "\n")
		}
	}
	return strings.ReplaceAll(b.String(), "\x00", `\|`)
}

// provider is a cloud with its page and its refusals.
type provider struct {
	title, page string
	reasons     []cloud.Reason
}

// clouds are all providers, by the title of their page.
func clouds(t *testing.T) []provider {
	all := []provider{{page: "reference/cluster-api.md", reasons: capi.Reasons()}}
	for _, d := range registry.All() {
		all = append(all, provider{page: "reference/" + d.Name + ".md", reasons: karpenter.WithReasons(d).Reasons})
	}
	for i, c := range all {
		all[i].title, _, _ = strings.Cut(strings.TrimPrefix(page(t, c.page), "# "), "\n")
	}
	slices.SortFunc(all, func(a, b provider) int { return cmp.Compare(a.title, b.title) })
	return all
}

// refusals lists the refusals of each cloud, as the provider describes them.
func refusals(t *testing.T) string {
	var b strings.Builder
	b.WriteString("<!-- Made by go generate ./docs from the clouds' reasons. -->\n\n# Refusals by cloud\n\n")
	b.WriteString("Kamino checks these obstacles before any change. [Obstacles of all clouds](prototype.md#when-a-capture-does-not-begin).\n")
	for _, c := range clouds(t) {
		fmt.Fprintf(&b, "\n## %s\n\n[%s](%s) explains the pools.\n\n| reason | obstacle | remedy |\n|---|---|---|\n",
			c.title, c.title, relative(refusalsPage, c.page))
		for _, r := range c.reasons {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, relink(refusalsPage, c.page, r.Means), relink(refusalsPage, c.page, r.Remedy))
		}
	}
	return b.String()
}

// cell is a text of docs/reasons.yaml in a table of the reasons page.
func cell(path, text string) string {
	return strings.ReplaceAll(relink(reasonsPage, path, text), "|", `\|`)
}

// relative is the path of a page from another page.
func relative(from, path string) string {
	rel, err := filepath.Rel(filepath.Dir(from), path)
	if err != nil {
		panic(err)
	}
	return rel
}

// relink lets the links of a cell of a page lead from another page.
func relink(from, path, cell string) string {
	return regexp.MustCompile(`\]\(([^)\s:]*)\)`).ReplaceAllStringFunc(cell, func(link string) string {
		target, heading, hasHeading := strings.Cut(link[2:len(link)-1], "#")
		file := path
		if target != "" {
			file = filepath.Join(filepath.Dir(path), target)
		}
		if hasHeading {
			heading = "#" + heading
		}
		return "](" + relative(from, file) + heading + ")"
	})
}

// commands is the help of all verbs.
func commands() string {
	root := cli.NewFactory().Command()
	var b strings.Builder
	b.WriteString("<!-- Made by go generate ./docs from the command. -->\n\n# Commands\n\n")
	b.WriteString("Each command with its help. [The command](cli.md) has exit codes, settings and environment variables.\n")
	b.WriteString("\n| | |\n|---|---|\n")
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "| %s |", strings.TrimSuffix(group.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == group.ID && c.IsAvailableCommand() && c.Name() != "options" {
				fmt.Fprintf(&b, " [%s](#kamino-%s)", c.Name(), c.Name())
			}
		}
		b.WriteString(" |\n")
	}
	b.WriteString("| On nodes and disks | [kamino-node](#kamino-node) |\n")
	fmt.Fprintf(&b, "\n## Flags of all commands\n\n```\n%s```\n", root.PersistentFlags().FlagUsagesWrapped(help))
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, below := range c.Commands() {
			if !below.IsAvailableCommand() || below.Name() == "help" || below.Name() == "completion" || below.Name() == "options" {
				continue
			}
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n```\n%s\n", below.CommandPath(), strings.TrimSpace(below.Long), below.UseLine())
			if below.HasExample() {
				fmt.Fprintf(&b, "\n%s\n", below.Example)
			}
			if flags := below.LocalNonPersistentFlags(); flags.HasAvailableFlags() {
				fmt.Fprintf(&b, "\nFlags:\n%s", flags.FlagUsagesWrapped(help))
			}
			b.WriteString("```\n")
			walk(below)
		}
	}
	walk(root)
	node := agent.Environment{}.Command()
	fmt.Fprintf(&b, "\n## kamino-node\n\n%s\n\n```\n%s\n```\n", strings.TrimSpace(node.Long), node.Example)
	walk(node)
	return b.String()
}

// help is the width of the help.
const help = 100

// api lists all fields of all kinds with their descriptions.
func api(t *testing.T) string {
	var b strings.Builder
	b.WriteString("<!-- Made by go generate ./docs from the definitions. -->\n\n# API\n\n")
	b.WriteString("All fields of `kamino.dev/v1alpha1`, as in `kubectl explain`. Durations have the form of Go: `90s`, `15m`, `1h30m`.\n")
	for _, kind := range []struct{ name, file, page string }{
		{"Prototype", "kamino.dev_prototypes.yaml", "prototype.md"},
		{"PrototypePolicy", "kamino.dev_prototypepolicies.yaml", "policy.md"},
		{"NodeOrder", "kamino.dev_nodeorders.yaml", "../contribute/order.md"},
	} {
		definition, err := crds.Files.ReadFile(kind.file)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema schema `json:"openAPIV3Schema"`
					} `json:"schema"`
				} `json:"versions"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(definition, &crd); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n## %s\n\n[%s](%s) explains the kind.\n", kind.name, kind.name, kind.page)
		for _, part := range []string{"spec", "status"} {
			fmt.Fprintf(&b, "\n### %s.%s\n\n| field | default | meaning |\n|---|---|---|\n", kind.name, part)
			rows := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[part].rows("", kind.name != "Prototype")
			if len(rows) == 0 {
				t.Errorf("%s.%s has no fields", kind.name, part)
			}
			b.WriteString(strings.Join(rows, ""))
		}
	}
	return b.String()
}

type schema struct {
	Description string            `json:"description"`
	Default     any               `json:"default"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Items       *schema           `json:"items"`
	Enum        []string          `json:"enum"`
}

// elsewhere are objects whose fields another table or Kubernetes describes.
var elsewhere = map[string]string{
	"settings": "Fields of `Prototype.spec.settings`.", "generalize": "Fields of `Prototype.spec.settings.generalize`.",
	"conditions": "Conditions of Kubernetes.", "nodeSelector": "A label selector of Kubernetes.",
}

// rows are the fields with values, each with its path. Kinds other than Prototype refer to the settings of Prototype.
func (s schema) rows(path string, refer bool) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field, at := s.Properties[name], strings.TrimPrefix(path+"."+name, ".")
		inner := field
		if field.Items != nil {
			inner, at = *field.Items, at+"[]"
		}
		where := elsewhere[name]
		if len(inner.Properties) > 0 && (where == "" || !refer && name != "conditions" && name != "nodeSelector") {
			all = append(all, inner.rows(at, refer)...)
			continue
		}
		value := ""
		switch {
		case field.Default != nil:
			value = fmt.Sprintf("`%v`", field.Default)
		case slices.Contains(s.Required, name):
			value = "required"
		}
		means := strings.ReplaceAll(strings.Join(strings.Fields(field.Description), " "), "|", `\|`)
		if len(inner.Enum) > 0 {
			means += " Values: `" + strings.Join(inner.Enum, "`, `") + "`."
		}
		if len(inner.Properties) > 0 {
			means += " " + where
		}
		all = append(all, fmt.Sprintf("| `%s` | %s | %s |\n", at, value, strings.TrimSpace(means)))
	}
	return all
}
