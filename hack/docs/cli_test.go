package docs

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli"
	"github.com/kamino-dev/kamino/internal/cli/settings"
)

// tableOf returns the rows of the only table of a section of reference/cli.md, without backquotes.
func tableOf(t *testing.T, section string) [][]string {
	t.Helper()
	_, text, _ := strings.Cut(page(t, "reference/cli.md"), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	var rows [][]string
	for line := range strings.Lines(text) {
		if line, isRow := strings.CutPrefix(strings.TrimSpace(line), "| "); isRow {
			rows = append(rows, strings.Split(strings.TrimSuffix(strings.ReplaceAll(line, "`", ""), " |"), " | "))
		}
	}
	if len(rows) < 3 {
		t.Fatalf("section %q of docs/reference/cli.md has no table", section)
	}
	return rows[1:]
}

// first returns the first cells in sorted order.
func first(rows [][]string) []string {
	var all []string
	for _, row := range rows {
		all = append(all, row[0])
	}
	return slices.Sorted(slices.Values(all))
}

// captured returns the first group of each match in the files, in sorted order.
func captured(t *testing.T, pattern string, paths ...string) []string {
	t.Helper()
	var all []string
	for _, path := range paths {
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(page(t, path), -1) {
			all = append(all, match[1])
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// verb is a command with the environment variables.
func verb(t *testing.T, name string, environment map[string]string) *cobra.Command {
	t.Helper()
	f := cli.NewFactory()
	f.Getenv = func(name string) string { return environment[name] }
	f.Out, f.Err = io.Discard, io.Discard
	c, _, err := f.Command().Find([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// flagsOf are the own flags of a command, but for some.
func flagsOf(c *cobra.Command, but ...string) []*pflag.Flag {
	var all []*pflag.Flag
	c.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains(but, flag.Name) {
			all = append(all, flag)
		}
	})
	return all
}

// TestSettingsOfCommandPage: each flag of a capture that is a setting has a row with the path and the default of the setting.
func TestSettingsOfCommandPage(t *testing.T) {
	paths := map[string]string{"custom-data": "recipe.customDataFrom", "pioneer": "pioneer"}
	for _, match := range regexp.MustCompile(`\{"([a-z-]+)", "([\w.]+)", `).FindAllStringSubmatch(page(t, "../internal/cli/capture.go"), -1) {
		paths[match[1]] = match[2]
	}
	var want []string
	for _, flag := range flagsOf(verb(t, "capture", nil), "dry-run", "filename", "help", "install", "output", "pool", "timeout", "version", "wait", "yes") {
		want = append(want, "--"+flag.Name+" "+paths[flag.Name])
	}
	defaults, err := settings.Parse("none", nil)
	if err != nil {
		t.Fatal(err)
	}
	defaults.Settings.Trial.Mode = v1alpha1.DefaultTrialMode // the API server's default
	text, err := json.Marshal(map[string]any{"settings": defaults.Settings, "pioneer": defaults.Pioneer})
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range tableOf(t, "Settings of one capture") {
		listed = append(listed, row[0]+" "+row[1])
		path := strings.Split(row[1], ".")
		if path[0] != "pioneer" {
			path = append([]string{"settings"}, path...)
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		for _, field := range path {
			fields, _ := value.(map[string]any)
			value = fields[field]
		}
		if value == nil { // a zero of the API, which JSON omits
			if slices.Contains([]string{"off", "0", "none"}, row[2]) || strings.HasPrefix(row[2], "[found]") || strings.HasPrefix(row[2], "KAMINO_IMAGE") {
				continue
			}
		}
		if fmt.Sprint(value) != row[2] {
			t.Errorf("docs/reference/cli.md: the default of %s is %v, not %s", row[1], value, row[2])
		}
	}
	slices.Sort(listed)
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("docs/reference/cli.md has other settings than kamino capture has flags (-command +page):\n%s", diff)
	}
}

// TestExitCodesOfCommandPage compares the codes of the page and of the help with the code.
func TestExitCodesOfCommandPage(t *testing.T) {
	want := captured(t, `(?m)^\t[A-Z]\w+ += (\d+)`, "../internal/cli/exit/exit.go")
	if diff := cmp.Diff(want, first(tableOf(t, "Exit codes"))); diff != "" {
		t.Errorf("docs/reference/cli.md has other exit codes than the command (-command +page):\n%s", diff)
	}
	_, help, _ := strings.Cut(verb(t, "", nil).Root().Long, "Exit codes:\n")
	var helped []string
	for _, match := range regexp.MustCompile(`(?m)^ +(\d+) `).FindAllStringSubmatch(help, -1) {
		helped = append(helped, match[1])
	}
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(helped))); diff != "" {
		t.Errorf("kamino --help has other exit codes than the command (-command +help):\n%s", diff)
	}
}

// TestSourcesOfEvents compares the table with the sources of a timeline.
func TestSourcesOfEvents(t *testing.T) {
	want := captured(t, `(?m)^\t\w+ +Source = "(\w+)"$`, "../internal/history/timeline/timeline.go")
	if diff := cmp.Diff(want, first(tableOf(t, "Events of a pool"))); diff != "" {
		t.Errorf("docs/reference/cli.md has other sources than kamino history --events (-command +page):\n%s", diff)
	}
}

// TestEnvironmentOfCommandPage: each variable that Kamino reads has a row, and the row's flag takes the value of the variable.
func TestEnvironmentOfCommandPage(t *testing.T) {
	var sources []string
	for _, path := range files(t, ".go") {
		if (strings.HasPrefix(path, "../internal/") || strings.HasPrefix(path, "../cmd/")) && !strings.HasSuffix(path, "_test.go") {
			sources = append(sources, path)
		}
	}
	read := map[string]bool{}
	for _, name := range captured(t, `(?:[gG]etenv\(|\benv[A-Z]\w* += |[vV]ariable(?:: | = ))"([A-Z][A-Z_]+)"`, sources...) {
		read[name] = true
	}
	for name := range maps.Clone(read) {
		switch {
		case strings.HasPrefix(name, "AZURE_"):
			read["AZURE_…"] = true
			delete(read, name)
		case strings.HasPrefix(name, "KUBERNETES_SERVICE_"), // of each pod
			slices.Contains([]string{"GOGC", "GOMAXPROCS", "KUBEBUILDER_ASSETS", "KAMINO_SCHEDULES"}, name): // of Go, and of tests
			delete(read, name)
		}
	}
	for _, name := range []string{clientcmd.RecommendedConfigPathEnvVar, "AWS_…", "SSL_CERT_FILE", "LC_CTYPE", "LANG"} { // libraries, or a loop, read these
		read[name] = true
	}
	rows := tableOf(t, "Environment")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(read)), slices.Sorted(slices.Values(strings.Split(strings.Join(first(rows), ", "), ", ")))); diff != "" {
		t.Errorf("docs/reference/cli.md has other variables than Kamino reads (-read +page):\n%s", diff)
	}
	found := 0
	for _, row := range rows {
		match := regexp.MustCompile(`^--([a-z-]+): `).FindStringSubmatch(row[1])
		if match == nil {
			if strings.HasPrefix(row[0], "KAMINO_") {
				t.Errorf("docs/reference/cli.md: %s has no flag", row[0])
			}
			continue
		}
		found++
		flag := verb(t, "controller", map[string]string{row[0]: "given"}).Flag(match[1])
		if flag == nil || !strings.Contains(flag.Value.String(), "given") {
			t.Errorf("docs/reference/cli.md: --%s does not take the value of %s", match[1], row[0])
		}
		if flag != nil && flag.Name != "image" && !strings.Contains(flag.Usage, row[0]) {
			t.Errorf("the help of --%s does not name %s", match[1], row[0])
		}
	}
	if found < 7 {
		t.Errorf("only %d variables with a flag were read", found)
	}
}
