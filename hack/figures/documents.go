package main

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// reasons counts the headings of the generated index.
func reasons(h *house) (float64, string) {
	const index = "docs/troubleshooting/reasons.md"
	return float64(strings.Count(string(h.files[index]), "\n## ")), index
}

// schema is what the figures read of an OpenAPI schema.
type schema struct {
	Properties                  map[string]schema
	Items, AdditionalProperties *schema
}

// leaves counts the fields that hold no further fields.
func (s schema) leaves() (n int) {
	switch {
	case s.Items != nil:
		return s.Items.leaves()
	case s.AdditionalProperties != nil:
		return s.AdditionalProperties.leaves()
	}
	for _, p := range s.Properties {
		n += p.leaves()
	}
	return max(n, 1)
}

// crdFields counts the leaves of a kind, or of all kinds for an empty name.
func crdFields(kind string) func(*house) (float64, string) {
	return func(h *house) (float64, string) {
		var t tally
		for _, name := range slices.Sorted(maps.Keys(h.files)) {
			var definition struct {
				Spec struct {
					Names    struct{ Kind string }
					Versions []struct {
						Schema struct{ OpenAPIV3Schema schema }
					}
				}
			}
			if !strings.HasPrefix(name, "api/crds/") || !strings.HasSuffix(name, ".yaml") || yaml.Unmarshal(h.files[name], &definition) != nil {
				continue
			}
			is := definition.Spec.Names.Kind
			for _, v := range definition.Spec.Versions {
				for _, field := range []string{"spec", "status"} {
					if s, has := v.Schema.OpenAPIV3Schema.Properties[field]; has && (kind == "" || kind == is) {
						t.add(s.leaves(), is+"."+field)
					}
				}
			}
		}
		return t.sum()
	}
}

var (
	// tableAction matches an action of AWS or Azure in a table.
	tableAction = regexp.MustCompile("`([a-z0-9]+:[A-Z][A-Za-z]+|Microsoft\\.[A-Za-z]+/[A-Za-z/]+)`")
	// actionWord matches the longest text that can be an action.
	actionWord = regexp.MustCompile(`[A-Za-z0-9]+[:.][A-Za-z0-9:/]+`)
	// generated matches the first lines of a generated file. Formats without comments are named in .gitattributes.
	generated = regexp.MustCompile(`(?m)^(// Code generated .* DO NOT EDIT\.|<!-- Made by go generate .*)$`)
)

// places counts the files that name each action in a table after the comment "actions:" of docs/reference. Tests, pages and
// lists count, because a change must find them as well. The changelog and generated files do not count.
func places(h *house) map[string]int {
	if h.places != nil {
		return h.places
	}
	count := map[string]int{}
	h.places = count
	for name, text := range h.files {
		if !strings.HasPrefix(name, "docs/reference/") {
			continue
		}
		for _, rest := range strings.Split(string(text), "<!-- actions:")[1:] {
			table, _, _ := strings.Cut(rest, "\n\n")
			for _, match := range tableAction.FindAllStringSubmatch(table, -1) {
				count[match[1]] = 0
			}
		}
	}
	for name, text := range h.files {
		if name == "CHANGELOG.md" || bytes.IndexByte(text, 0) >= 0 || generated.Match(text[:min(len(text), 1000)]) || h.isMarked(name) {
			continue
		}
		seen := map[string]bool{}
		for _, word := range actionWord.FindAllString(string(text), -1) {
			if _, is := count[word]; is && !seen[word] {
				seen[word] = true
				count[word]++
			}
		}
	}
	return count
}

// isMarked reports whether .gitattributes says that a file is generated.
func (h *house) isMarked(name string) bool {
	for line := range strings.Lines(string(h.files[".gitattributes"])) {
		pattern, marked := strings.CutSuffix(strings.TrimSpace(line), " linguist-generated")
		if is, _ := path.Match(pattern, name); marked && is {
			return true
		}
	}
	return false
}

// factPlaces rounds to hundredths.
func factPlaces(h *house) (float64, string) {
	sum, count := 0, places(h)
	for _, n := range count {
		sum += n
	}
	return math.Round(100*float64(sum)/float64(max(len(count), 1))) / 100, fmt.Sprintf("%d actions", len(count))
}

func factPlacesMost(h *house) (float64, string) {
	var t tally
	count := places(h)
	for _, action := range slices.Sorted(maps.Keys(count)) {
		t.add(count[action], action)
	}
	return float64(t.most), t.where
}
