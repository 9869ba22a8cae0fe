package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// comments are the lines of an example that explain a command.
func comments(example string) (texts []string) {
	for line := range strings.Lines(example) {
		if text, is := strings.CutPrefix(strings.TrimSpace(line), "# "); is {
			texts = append(texts, text)
		}
	}
	return texts
}

// TestHelp holds the help of all verbs to the limits of pages.
func TestHelp(t *testing.T) {
	words := 0
	verbs := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		verbs++
		texts := append(comments(c.Example), c.Short, c.Long)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { texts = append(texts, strings.ReplaceAll(f.Usage, "`", "")) })
		for _, text := range texts {
			for _, block := range prose(text) {
				words += hold(t, c.CommandPath()+" --help", block)
			}
		}
		for line := range strings.Lines(c.Long) {
			if len([]rune(line)) > longestLine+1 {
				t.Errorf("%s --help: a line of %d characters, at most %d: %s", c.CommandPath(), len([]rune(line))-1, longestLine, line)
			}
		}
		for _, verb := range c.Commands() {
			walk(verb)
		}
	}
	for _, root := range programs() {
		walk(root)
	}
	if verbs < 25 || words < 3000 {
		t.Errorf("only %d verbs with %d words of help are read", verbs, words)
	}
}

// TestCommands looks for each verb and flag of a command on the pages. Sandbox demos and tests run whole commands.
func TestCommands(t *testing.T) {
	known := map[string]*cobra.Command{}
	for program, root := range programs() {
		for _, c := range root.Commands() {
			c.InheritedFlags() // merges the flags of all verbs
			known[program+" "+c.Name()] = c
		}
	}
	command, flag := regexp.MustCompile("(?m)(?:`|^ *(?:\\$ )?|bin/|\\| |&& )(kamino(?:-node)? ([a-z][a-z-]*))([^`\n#|]*)"),
		regexp.MustCompile(`(?:^|[ \[])--([a-z][a-z-]*)`)
	found := 0
	for _, path := range append(files(t, ".md"), "../charts/kamino/values.yaml", "../charts/kamino/files/alerts.yaml") {
		if path == "../CHANGELOG.md" { // names earlier verbs
			continue
		}
		for _, match := range command.FindAllStringSubmatch(page(t, path), -1) {
			found++
			verb := known[match[1]]
			if verb == nil {
				if match[2] != "completion" && match[2] != "help" {
					t.Errorf("%s: there is no %s: %s", path, match[1], strings.TrimSpace(match[0]))
				}
				continue
			}
			for _, name := range flag.FindAllStringSubmatch(match[3], -1) {
				if verb.Flag(name[1]) == nil && name[1] != "help" {
					t.Errorf("%s: %s has no flag --%s", path, match[1], name[1])
				}
			}
		}
	}
	if found < 200 {
		t.Errorf("only %d commands are read", found)
	}
}

// TestAPIDocs holds descriptions and messages of the definitions to the limits. Kubernetes' own texts are skipped.
func TestAPIDocs(t *testing.T) {
	files, err := filepath.Glob("../charts/kamino/crds/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%d definitions: %v", len(files), err)
	}
	words := 0
	seen := map[string]bool{}
	for _, file := range files {
		var definition any
		if err := yaml.Unmarshal([]byte(page(t, file)), &definition); err != nil {
			t.Fatal(err)
		}
		described(definition, filepath.Base(file), func(path, text string) {
			if !seen[text] {
				seen[text] = true
				for _, block := range prose(text) {
					words += hold(t, path, block)
				}
			}
		})
	}
	if words < 2000 {
		t.Errorf("only %d words of API docs are read", words)
	}
}

// described shows the descriptions of Kamino's own fields, and what validation says.
func described(node any, path string, see func(path, text string)) {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			text, isText := value.(string)
			switch {
			case slices.Contains([]string{"apiVersion", "kind", "conditions", "matchLabels", "matchExpressions"}, key):
			case isText && (key == "description" || key == "message"):
				see(path, text)
			default:
				described(value, path+"."+key, see)
			}
		}
	case []any:
		for _, value := range node {
			described(value, path, see)
		}
	}
}

// TestAlertTexts holds the chart's alerts and notes to the limits.
func TestAlertTexts(t *testing.T) {
	template := regexp.MustCompile(`\{\{[^}]*\}\}`)
	var rules struct {
		Alerts []struct {
			Alert       string            `json:"alert"`
			Annotations map[string]string `json:"annotations"`
		} `json:"alerts"`
	}
	if err := yaml.Unmarshal([]byte(page(t, "../charts/kamino/files/alerts.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	words := 0
	for _, alert := range rules.Alerts {
		for _, text := range alert.Annotations {
			words += hold(t, alert.Alert, template.ReplaceAllString(text, "X"))
		}
	}
	for line := range strings.Lines(page(t, "../charts/kamino/templates/NOTES.txt")) {
		if !strings.HasPrefix(line, "  ") { // what is to be typed
			words += hold(t, "NOTES.txt", template.ReplaceAllString(line, "X"))
		}
	}
	if len(rules.Alerts) < 15 || words < 400 {
		t.Errorf("only %d words of %d alerts are read", words, len(rules.Alerts))
	}
}

// otherWords are the packages that TestStrings does not hold, with the reason.
var otherWords = map[string]string{
	"sandbox/aws":          "the sentences are those of AWS",
	"sandbox/azure":        "the sentences are those of Azure",
	"sandbox/machine/disk": "the strings are files of a node",
	"sandbox/sandboxdir":   "the strings are shell commands",
}

// packages returns the directories with code that is not a test.
func packages(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	for _, root := range []string{"api", "charts", "cmd", "internal", "sandbox"} {
		err := filepath.WalkDir("../"+root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "bin"):
				return filepath.SkipDir
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
				found[strings.TrimPrefix(filepath.Dir(path), "../")] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// example is a line of a verb's example, which TestHelp reads.
var example = regexp.MustCompile(`(?m)^  (kamino |kamino-sandbox |kubectl |\. /|KUBEBUILDER_ASSETS=|# ).*$`)

// TestStrings holds sentences in the code to the limits, all of a package together: errors, refusals, conditions, events.
func TestStrings(t *testing.T) {
	for _, dir := range packages(t) {
		if otherWords[dir] != "" {
			continue
		}
		files, err := filepath.Glob("../" + dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files: %v", dir, len(files), err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, text := range sentencesIn(t, path, nil) {
				for _, block := range prose(example.ReplaceAllString(text, "")) {
					hold(t, path, block)
				}
			}
		}
	}
}

// sentencesIn are the string literals of a file with at least four words, joined where the code adds them to each other.
func sentencesIn(t *testing.T, path string, source any) (texts []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var visit func(n ast.Node) bool
	var joined func(e ast.Expr) string
	joined = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BinaryExpr:
			if e.Op == token.ADD {
				return joined(e.X) + joined(e.Y)
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
				return text
			}
			return "X"
		}
		ast.Inspect(e, visit)
		return "X"
	}
	visit = func(n ast.Node) bool {
		var text string
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field: // without its tag
			ast.Inspect(n.Type, visit)
			return false
		case *ast.BinaryExpr:
			if n.Op != token.ADD {
				return true
			}
			text = joined(n)
		case *ast.BasicLit:
			text = joined(n)
		default:
			return true
		}
		if strings.Contains(text, " ") && len(wordsOf(text)) >= 4 {
			texts = append(texts, text)
		}
		return false
	}
	ast.Inspect(file, visit)
	return texts
}

// TestStringsAreRead: what the limits see of code.
func TestStringsAreRead(t *testing.T) {
	got := sentencesIn(t, "x.go", `package x
import "fmt"
type a struct { B string `+"`json:\"one two three four\"`"+` }
var c = "too short"
var d = "node %s is " + fmt.Sprint("one of those four words") + " in " + "service"
func e() error { return fmt.Errorf("it is told by somebody", 1+2) }
`)
	want := []string{"one of those four words", "node %s is X in service", "it is told by somebody"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
