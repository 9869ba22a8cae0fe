// Package docs holds the pages to what the code says: a name that a page leaves out, or that the code no
// longer knows, fails here.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent"
	"github.com/kamino-dev/kamino/internal/cli"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/policy/schedule"
	"github.com/kamino-dev/kamino/internal/selection/expression"
)

// TestMain runs the tests in the folder of the pages.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../docs"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func page(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestMovingNamesEveryOption looks for every verb, option and value of vmss-prototype 0.1.0 on the page.
func TestMovingNamesEveryOption(t *testing.T) {
	text := page(t, "tasks/moving.md")
	for _, name := range []string{
		"status", "update --target-node", "auto-update",
		"--in-cluster", "--log-level", "--log-prefix", "--log-timestamps", "--new-updated-nodes", "--max-history", "--grace-period", "--force",
		"--target-vmss", "--last-patch-annotation", "--pending-reboot-annotation", "--node-ignore-annotation", "--minimum-ready-time",
		"--minimum-candidates", "--maximum-image-age", "--ignore-nodes", "--dry-run",
		"scheduleOnControlPlane", "imageHistory", "jobTtl", "drain.gracePeriod", "drain.force", "newUpdatedNodes", "targetNode", "targetVMSS",
		"auto.cronjob.schedule", "auto.minimumReadyTime", "auto.minimumCandidates", "auto.maximumImageAge", "auto.dryRun",
		"auto.lastPatchAnnotation", "auto.pendingRebootAnnotation",
	} {
		if !regexp.MustCompile("[`,.] ?" + regexp.QuoteMeta(name) + "[` ]").MatchString(text) {
			t.Errorf("docs/tasks/moving.md does not say what %s is here", name)
		}
	}
}

// TestPolicyExamples reads every policy on the page as a policy is read.
func TestPolicyExamples(t *testing.T) {
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page(t, "reference/policy.md"), -1)
	if len(examples) < 5 {
		t.Fatalf("%d examples were found", len(examples))
	}
	for _, example := range examples {
		var policy v1alpha1.PrototypePolicy
		if err := yaml.UnmarshalStrict([]byte(example[1]), &policy); err != nil {
			t.Errorf("%s\n%s", err, example[1])
			continue
		}
		if _, err := schedule.Compile(policy.Spec.Schedule); err != nil {
			t.Errorf("%s\n%s", err, example[1])
		}
		if _, err := expression.Compile(policy.Spec.Selection.Refuse, policy.Spec.Selection.Score); err != nil {
			t.Errorf("%s\n%s", err, example[1])
		}
	}
}

// TestEnumsAreQuoted: pages, examples, the chart and messages quote the values that YAML reads as a boolean, as people copy them.
func TestEnumsAreQuoted(t *testing.T) {
	var bare []string
	for _, name := range []string{"prototypes", "prototypepolicies"} {
		for _, value := range regexp.MustCompile(`(?m)^ +- "(\w+)"$`).FindAllStringSubmatch(page(t, "../api/crds/kamino.dev_"+name+".yaml"), -1) {
			var read any
			if err := yaml.Unmarshal([]byte(value[1]), &read); err != nil {
				t.Fatal(err)
			}
			if _, isBool := read.(bool); isBool && !slices.Contains(bare, value[1]) {
				bare = append(bare, value[1])
			}
		}
	}
	if !slices.Contains(bare, "Off") {
		t.Fatalf("the definitions have only %q", bare)
	}
	wrong := regexp.MustCompile(`[\w.]+: (?:` + strings.Join(bare, "|") + `)\b`)
	places := append(files(t, ".md"), "reasons.yaml", "../charts/kamino/values.yaml", "../charts/kamino/templates/NOTES.txt")
	for _, pattern := range []string{"../examples/*.yaml", "../charts/kamino/files/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		places = append(places, found...)
	}
	for _, path := range places {
		for _, text := range wrong.FindAllString(page(t, path), -1) {
			t.Errorf("%s: %s: quote the value", path, text)
		}
	}
	for _, dir := range packages(t) {
		sources, err := filepath.Glob("../" + dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range sources {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, text := range sentencesIn(t, path, nil) {
				if found := wrong.FindString(text); found != "" {
					t.Errorf("%s: %s: quote the value", path, found)
				}
			}
		}
	}
}

// constants finds reasons that are written one to a line, in the forms that the packages have.
const constants = `(?m)^(?:const |\t)[A-Z]\w+ +(?:\w+ )?= "([A-Z]\w+)"$`

// TestReasons looks for every reason that something can be refused or fail with, wherever one is made.
func TestReasons(t *testing.T) {
	for _, place := range []struct {
		page, glob, pattern string
	}{
		{"reference/prototype.md", "../internal/selection/selection.go", constants},
		{"reference/prototype.md", "../internal/capture/*.go", constants},
		{"reference/prototype.md", "../internal/capture/admission/*.go", constants},
		{"tasks/history.md", "../internal/rebuild/plan/*.go", `(?m)^\t[A-Z]\w+ += "([A-Z]\w+)"$`},
		{"reference/prototype.md", "../internal/capture/plan/decision.go", `(?s)docs/reasons\.yaml lists.*?\n\)`},
		{"reference/refusals.md", "../internal/cloud/azure/*.go", `(?:[rR]efuse\(|Reason: |add\()(?:"|cloud\.)([A-Z]\w+)[",]`},
		{"reference/refusals.md", "../internal/cloud/aws/*.go", `(?m)(?:Refuse\(|^\treason\w+ += )(?:"|cloud\.)([A-Z]\w+)[",]`},
		{"reference/refusals.md", "../internal/cloud/capi/reason.go", `(?m)(?:^\treason\w+ += "|Name: +cloud\.)([A-Z]\w+)`},
		{"tasks/history.md", "../internal/history/change.go", constants},
		{"tasks/history.md", "../internal/history/autorollback.go", constants},
		{"concepts/join-health.md", "../internal/joinhealth/verdict.go", `(?m)^\t[A-Z]\w+ State = "([A-Z]\w+)"$`},
		{"reference/prototype.md", "../internal/history/donor.go", constants},
		{"reference/policy.md", "../internal/history/gone.go", constants},
		{"reference/prototype.md", "../internal/history/imagecount/*.go", constants},
		{"reference/policy.md", "../internal/selection/*.go", constants},
		{"reference/policy.md", "../internal/policy/schedule/*.go", constants},
		{"reference/policy.md", "../internal/policy/*.go", constants},
		{"reference/policy.md", "../api/v1alpha1/policy_status.go", constants},
	} {
		paths, err := filepath.Glob(place.glob)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", place.glob, paths, err)
		}
		text, listed, found := page(t, place.page), headings(page(t, reasonsPage)), 0
		for _, s := range sections(t) {
			for _, r := range s.Reasons {
				if s.Page == place.page {
					text += "`" + strings.Join(r.Names, "`, `") + "`"
				}
			}
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, match := range regexp.MustCompile(place.pattern).FindAllStringSubmatch(page(t, path), -1) {
				for _, reason := range named(match) {
					if found++; reason == "UTC" || reason == cloud.TerraformManaged { // a time zone, and a caution
						continue
					}
					if !strings.Contains(text, "`"+reason+"`") {
						t.Errorf("docs/%s has no remedy for %s (%s)", place.page, reason, path)
					}
					if !slices.Contains(listed, strings.ToLower(reason)) && !strings.Contains(page(t, place.page), "`"+reason+"`") {
						t.Errorf("docs/%s has no entry for %s (%s)", reasonsPage, reason, path)
					}
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: no reason was found; has the way that they are written changed?", place.glob)
		}
	}
}

// named are the reasons of a match: the group, or every constant of a whole block.
func named(match []string) []string {
	if len(match) > 1 {
		return match[1:]
	}
	var all []string
	for _, constant := range regexp.MustCompile(`= "([A-Z]\w+)"`).FindAllStringSubmatch(match[0], -1) {
		all = append(all, constant[1])
	}
	return all
}

// TestEachAlertHasASection: its runbook_url would lead nowhere else.
func TestEachAlertHasASection(t *testing.T) {
	named := func(path, pattern string) []string {
		var names []string
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(page(t, path), -1) {
			names = append(names, match[1])
		}
		slices.Sort(names)
		return names
	}
	alerts := named("../charts/kamino/files/alerts.yaml", `(?m)^- alert: (\w+)$`)
	if diff := cmp.Diff(alerts, named("troubleshooting/alerts.md", `(?m)^## (\w+)$`)); diff != "" || len(alerts) == 0 {
		t.Errorf("docs/troubleshooting/alerts.md has other sections than the chart has alerts (-chart +page):\n%s", diff)
	}
}

// TestLinks follows every relative link of every page, down to its heading.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, path := range files(t, ".md") {
		for _, match := range link.FindAllStringSubmatch(page(t, path), -1) {
			target, heading, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file := path
			if target != "" {
				file = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which is not there", path, match[1])
				continue
			}
			if heading != "" && !slices.Contains(headings(page(t, file)), heading) {
				t.Errorf("%s links to %s, and there is no such heading", path, match[1])
			}
		}
	}
}

// programs are the trees of verbs.
func programs() map[string]*cobra.Command {
	return map[string]*cobra.Command{"kamino": cli.NewFactory().Command(), "kamino-node": agent.Environment{}.Command()}
}

// TestCommandsOfPages: each verb and each flag of a command on a page exists. The changelog has the commands of earlier releases.
func TestCommandsOfPages(t *testing.T) {
	inline, block := regexp.MustCompile("`(kamino(?:-node)? [^`]+)`"), regexp.MustCompile("(?s)```(?:sh|bash)\n(.*?)```")
	call := regexp.MustCompile(`(?m)(?:^|[|(&;]) *(?:bin/)?(kamino(?:-node)? .*)`)
	other := regexp.MustCompile(`[|)&;>#\\].*`) // another command, or a comment
	flag, found := regexp.MustCompile(`^--[a-z-]+`), 0
	roots := programs()
	roots["kamino"].InitDefaultCompletionCmd()
	for _, path := range files(t, ".md") {
		text := strings.ReplaceAll(page(t, path), "\\\n", " ")
		calls := inline.FindAllStringSubmatch(text, -1)
		for _, b := range block.FindAllStringSubmatch(text, -1) {
			calls = append(calls, call.FindAllStringSubmatch(b[1], -1)...)
		}
		for _, match := range calls {
			words := strings.Fields(other.ReplaceAllString(match[1], ""))
			if path == "../CHANGELOG.md" || len(words) < 2 || !regexp.MustCompile(`^[a-z-]+$`).MatchString(words[1]) {
				continue
			}
			root := roots[words[0]]
			c, _, err := root.Find(words[1:])
			if err != nil || c == root && !strings.HasPrefix(words[1], "-") {
				t.Errorf("%s: no verb %s: %s", path, words[1], match[1])
				continue
			}
			for _, word := range words {
				name := strings.TrimPrefix(flag.FindString(word), "--")
				if found++; name != "" && name != "help" && c.Flag(name) == nil {
					t.Errorf("%s: %s has no flag %s: %s", path, c.CommandPath(), word, match[1])
				}
			}
		}
	}
	if found < 500 {
		t.Errorf("only %d words of commands were read", found)
	}
}

// TestPagesAreFound: each page is at most three clicks from README, and these tasks are at most two clicks away.
func TestPagesAreFound(t *testing.T) {
	clicks := map[string]int{"../README.md": 0}
	for next := []string{"../README.md"}; len(next) > 0; next = next[1:] {
		for _, match := range regexp.MustCompile(`\]\(([^)\s#]+\.md)`).FindAllStringSubmatch(page(t, next[0]), -1) {
			to := filepath.Join(filepath.Dir(next[0]), match[1])
			if _, seen := clicks[to]; !seen && !strings.Contains(match[1], "://") {
				clicks[to] = clicks[next[0]] + 1
				next = append(next, to)
			}
		}
	}
	for _, path := range files(t, ".md") {
		if n, found := clicks[path]; (!found || n > 3) && strings.HasPrefix(path, "../docs/") {
			t.Errorf("%s is %d clicks from README (found: %t)", path, n, found)
		}
	}
	for task, path := range map[string]string{
		"roll back": "../docs/tasks/history.md", "why is it refused": "../docs/troubleshooting/reasons.md",
		"where is my node": "../docs/troubleshooting/README.md", "uninstall": "../docs/tasks/uninstall.md", "which versions": "../docs/reference/support.md",
	} {
		if n, found := clicks[path]; !found || n > 2 {
			t.Errorf("%s: %s is %d clicks from README (found: %t)", task, path, n, found)
		}
	}
}

// TestGetStartedPages: each page for a cluster has time, cost, prerequisites, an expected output, and the way back.
func TestGetStartedPages(t *testing.T) {
	pages, err := filepath.Glob("get-started/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("%v, %v", pages, err)
	}
	for _, path := range pages {
		parts := []string{"| time |", "| cost |", "| you need |", "```console\n", "clean up\n", "kamino restore", "uninstall.md"}
		if path == "get-started/sandbox.md" {
			parts = []string{"You need Go", "The first build takes", "```console\n", "kamino-sandbox down"}
		}
		for _, part := range parts {
			if !strings.Contains(page(t, path), part) {
				t.Errorf("docs/%s lacks %q", path, part)
			}
		}
	}
}

// TestMessagesLinkToAddresses: a user of the binary has no repository, so a message has the address of a page.
func TestMessagesLinkToAddresses(t *testing.T) {
	path := regexp.MustCompile(`(?m)^[^/\n]*["\x60][^"\x60\n]*docs/[a-z-]+/?[a-z-]*\.md`)
	for _, file := range files(t, ".go") {
		if !strings.HasPrefix(file, "../internal/") || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "../internal/wording/page/") {
			continue
		}
		if line := path.FindString(page(t, file)); line != "" {
			t.Errorf("%s: use an address of internal/wording/page: %s", file, strings.TrimSpace(line))
		}
	}
}

// TestAddressesOfTheProduct: addresses in messages and notices lead to a page and a heading. Definitions and chart, which
// users read without the repository, have no path of a page in it.
func TestAddressesOfTheProduct(t *testing.T) {
	constants, found := map[string]string{}, 0
	for _, match := range regexp.MustCompile(`(\w+) += Root \+ "([^"]+)"`).FindAllStringSubmatch(page(t, "../internal/wording/page/page.go"), -1) {
		constants[match[1]] = match[2]
	}
	address := regexp.MustCompile(`"((?:concepts|get-started|reference|tasks|troubleshooting)/[a-z-]+\.md)(?:#([a-z0-9-]+))?"|page\.(\w+) ?\+ ?"#([a-z0-9-]+)"`)
	for _, file := range files(t, ".go") {
		if !strings.HasPrefix(file, "../internal/") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, match := range address.FindAllStringSubmatch(page(t, file), -1) {
			found++
			path, heading := match[1]+constants[match[3]], match[2]+match[4]
			if text, err := os.ReadFile(path); err != nil {
				t.Errorf("%s names a page: %v", file, err)
			} else if heading != "" && !slices.Contains(headings(string(text)), heading) {
				t.Errorf("%s names %s#%s, and there is no such heading", file, path, heading)
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d addresses were read", found)
	}
	path := regexp.MustCompile(`.*(?:^|[^/\w])docs/[a-z-]+/[a-z-]+\.md.*`)
	for _, glob := range []string{"../api/crds/*.yaml", "../charts/kamino/*.yaml", "../charts/kamino/*/*.*", "../charts/kamino/values.schema.json"} {
		shipped, err := filepath.Glob(glob)
		if err != nil || len(shipped) == 0 {
			t.Fatalf("%s: %v, %v", glob, shipped, err)
		}
		for _, file := range shipped {
			if line := path.FindString(page(t, file)); line != "" {
				t.Errorf("%s: use an address: %s", file, strings.TrimSpace(line))
			}
		}
	}
	if !strings.Contains(page(t, "../charts/kamino/values.yaml"), "runbookURL: https://github.com/kamino-dev/kamino/blob/main/docs/troubleshooting/alerts.md") {
		t.Error("the runbooks of the alerts have no address by default")
	}
}

// TestNamedTests: each test that a page names exists. "TestX…" stands for all names that begin so.
func TestNamedTests(t *testing.T) {
	var existing []string
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, path := range files(t, "_test.go") {
		for _, match := range declaration.FindAllStringSubmatch(page(t, path), -1) {
			existing = append(existing, match[1])
		}
	}
	named := regexp.MustCompile("`(Test\\w+)(…?)")
	for _, path := range files(t, ".md") {
		for _, match := range named.FindAllStringSubmatch(page(t, path), -1) {
			exists := func(name string) bool {
				return name == match[1] || match[2] != "" && strings.HasPrefix(name, match[1])
			}
			if !slices.ContainsFunc(existing, exists) {
				t.Errorf("%s names %s, which does not exist", path, match[1])
			}
		}
	}
}

// files are the paths of the repository with an ending.
func files(t *testing.T, ending string) []string {
	t.Helper()
	return filesBelow(t, "..", ending)
}

// filesBelow are the paths below a directory with an ending.
func filesBelow(t *testing.T, root, ending string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "dist", "testdata"}, entry.Name()):
			return filepath.SkipDir
		case strings.HasSuffix(path, ending):
			all = append(all, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// headings are a page's anchors, as GitHub makes them.
func headings(text string) []string {
	var anchors []string
	drop := regexp.MustCompile(`[^a-z0-9 _-]`)
	for line := range strings.Lines(text) {
		if title, found := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); found && strings.HasPrefix(line, "#") {
			anchor := drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			anchors = append(anchors, strings.ReplaceAll(anchor, " ", "-"))
		}
	}
	return anchors
}
