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
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/crds"
	"github.com/kamino-dev/kamino/internal/cloud/azure"
)

func page(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAzurePermissions compares the table with what the preflight asks for.
func TestAzurePermissions(t *testing.T) {
	table := regexp.MustCompile("(?m)^\\| `(Microsoft\\.Compute/[^`]+)`")
	var listed []string
	for _, match := range table.FindAllStringSubmatch(page(t, "azure.md"), -1) {
		listed = append(listed, match[1])
	}
	if diff := cmp.Diff(slices.Concat(azure.RequiredActions(), azure.RebuildActions()), listed); diff != "" {
		t.Errorf("docs/azure.md lists other actions than the provider needs (-provider +page):\n%s", diff)
	}
}

// TestPrototypeFields looks for every field of the kind on its page.
func TestPrototypeFields(t *testing.T) {
	definition, err := crds.Files.ReadFile("kamino.dev_prototypes.yaml")
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
	text := page(t, "prototype.md")
	for _, part := range []string{"spec", "status"} {
		root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[part]
		for path, field := range leaves(root, "") {
			if strings.HasPrefix(path, "conditions") || strings.HasPrefix(path, "steps") {
				path, _, _ = strings.Cut(path, "[") // described as a whole
			}
			if !strings.Contains(text, "`"+path) {
				t.Errorf("docs/prototype.md does not mention %s.%s", part, path)
			}
			for _, value := range field.Enum {
				if !strings.Contains(text, "`"+value+"`") {
					t.Errorf("docs/prototype.md does not mention %s of %s.%s", value, part, path)
				}
			}
		}
	}
}

type schema struct {
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
	Enum       []string          `json:"enum"`
}

// leaves are the fields that hold values, by dotted path.
func leaves(s schema, path string) map[string]schema {
	if s.Items != nil {
		return leaves(*s.Items, path+"[]")
	}
	if len(s.Properties) == 0 {
		return map[string]schema{path: s}
	}
	all := map[string]schema{}
	for name, property := range s.Properties {
		for below, leaf := range leaves(property, strings.TrimPrefix(path+"."+name, ".")) {
			all[below] = leaf
		}
	}
	return all
}

// TestReasons looks for every reason that a capture can be refused or fail with, wherever one is made.
func TestReasons(t *testing.T) {
	places := []struct {
		glob    string
		pattern string
	}{
		{"../internal/selection/*.go", `(?m)^\t[A-Z]\w+ += "([A-Z]\w+)"$`},
		{"../internal/capture/*.go", `(?m)^(?:const |\t)[A-Z]\w+ += "([A-Z]\w+)"$`},
		{"../internal/capture/plan/decision.go", `(?s)docs/prototype\.md tells.*?\n\)`},
		{"../internal/cloud/azure/*.go", `(?:refuse\(|Reason: )"([A-Z]\w+)"`},
	}
	reasons := map[string]string{}
	for _, place := range places {
		paths, err := filepath.Glob(place.glob)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", place.glob, paths, err)
		}
		found := 0
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, match := range regexp.MustCompile(place.pattern).FindAllStringSubmatch(page(t, path), -1) {
				for _, reason := range named(match) {
					reasons[reason] = path
					found++
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: no reason was found; has the way that they are written changed?", place.glob)
		}
	}
	text := page(t, "prototype.md")
	for reason, path := range reasons {
		if !strings.Contains(text, "`"+reason+"`") {
			t.Errorf("docs/prototype.md does not tell what to do about %s (%s)", reason, path)
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

// TestLinks follows every relative link of every page, down to its heading.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, path := range pages(t) {
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

func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
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
