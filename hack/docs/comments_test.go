package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// paragraph is a paragraph of a comment outside code.
type paragraph struct {
	at   token.Pos
	text string
}

// paragraphs returns the prose of a file's comments, without directives, markers, literals in backquotes and indented code.
func paragraphs(file *ast.File) (all []paragraph) {
	literal, marker := regexp.MustCompile("`[^`]*`"), regexp.MustCompile(`(?m)^\+.*\n`) // controller-gen reads markers
	add := func(at token.Pos, text string) {
		if text = literal.ReplaceAllString(text, "CODE"); text != "" {
			all = append(all, paragraph{at, text})
		}
	}
	for _, group := range file.Comments {
		for text := range strings.SplitSeq(marker.ReplaceAllString(group.Text(), ""), "\n\n") {
			if !strings.HasPrefix(text, "\t") {
				add(group.Pos(), strings.Join(strings.Fields(text), " "))
			}
		}
		for _, c := range group.List {
			if _, reason, found := strings.Cut(strings.TrimPrefix(c.Text, "//"), " // "); found && strings.HasPrefix(c.Text, "//nolint") {
				add(c.Pos(), reason)
			}
		}
	}
	return all
}

// exportedNames are the identifiers of a file that begin with a capital. A comment may name them.
func exportedNames(file *ast.File) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if name, is := n.(*ast.Ident); is && name.IsExported() {
			names[name.Name] = true
		}
		return true
	})
	return names
}

// withoutNames replaces each name that is also a banned word. A comment may name what the file declares.
func withoutNames(text string, names map[string]bool) string {
	return banned.ReplaceAllStringFunc(text, func(word string) string {
		if names[word] {
			return "NAME"
		}
		return word
	})
}

// TestCommentsArePlain holds comments to plain words, and to sentences that a reader can follow.
func TestCommentsArePlain(t *testing.T) {
	for _, dir := range packages(t) {
		paths, err := filepath.Glob("../" + dir + "/*.go")
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s has no files (%v)", dir, err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			names := exportedNames(file)
			for _, p := range paragraphs(file) {
				hold(t, set.Position(p.at).String(), withoutNames(p.text, names))
			}
		}
	}
}

// TestCommentsAreRead: what the limits see of a file.
func TestCommentsAreRead(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go",
		"// Package x is\n// short. Told is `told`.\n//\n//\tcode that is told\n//\n// More.\npackage x\n\n"+
			"//go:generate that\n// +marker:of=\"that\"\nvar Told = 1 //nolint:gosec // a reason\n\nvar b = 2 // behind code\n", parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range paragraphs(file) {
		got = append(got, p.text)
	}
	if want := []string{"Package x is short. Told is CODE.", "More.", "a reason", "behind code"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	names := exportedNames(file)
	for text, want := range map[string]string{
		got[0]: "", "It was told.": "was told", "Told by the cloud": "", "Nobody knows": "Nobody", "a nobodyish word": "",
	} {
		if have := banned.FindString(withoutNames(text, names)); have != want {
			t.Errorf("%q: %q is banned, want %q", text, have, want)
		}
	}
}

// TestTestsArePlain holds comments and sentences of tests to plain words. docs/ quotes banned words.
func TestTestsArePlain(t *testing.T) {
	found := 0
	for _, root := range []string{"api", "charts", "cmd", "internal", "sandbox"} {
		err := filepath.WalkDir("../"+root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			found++
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			names, texts := exportedNames(file), sentencesIn(t, path, nil)
			for _, p := range paragraphs(file) {
				texts = append(texts, withoutNames(p.text, names))
			}
			for _, text := range texts {
				if word := banned.FindString(text); word != "" {
					t.Errorf("%s: %s: %s", path, advice(word), text)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 300 {
		t.Errorf("only %d files of tests are read", found)
	}
}

// commented are the files other than Go whose comments users and reviewers read. {{/* */}} are comments of templates.
var commented = []string{"internal/manifest/files/*.yaml", "charts/kamino/*.yaml", "charts/kamino/files/alerts.yaml", "charts/kamino/templates/*",
	"Makefile", "Containerfile", ".golangci.yml", ".ko.yaml", ".goreleaser.yaml", "hack/*.sh", "internal/rules/profile/*.yaml",
	"sandbox/capi/definitions/*.yaml"}

// hashComments returns the blocks of comment lines of a file: lines that begin with #, {{/* */}}, and the help of targets.
func hashComments(text string) (blocks []string) {
	template, literal := regexp.MustCompile(`(?s)\{\{-?\s*/\*(.*?)\*/\s*-?\}\}`), regexp.MustCompile("`[^`]*`")
	help := regexp.MustCompile(`^[a-z-]+:.* ## (.*)`)
	block := ""
	end := func() {
		if block = strings.TrimSpace(block); block != "" {
			blocks = append(blocks, literal.ReplaceAllString(block, "CODE"))
		}
		block = ""
	}
	text = template.ReplaceAllStringFunc(text, func(comment string) string {
		lines := strings.Split(template.FindStringSubmatch(comment)[1], "\n")
		return "\n# " + strings.Join(lines, "\n# ") + "\n"
	})
	for line := range strings.Lines(text) {
		comment, found := strings.CutPrefix(strings.TrimSpace(line), "#")
		if match := help.FindStringSubmatch(line); match != nil {
			end()
			comment, found = match[1], true
		}
		if !found || strings.HasPrefix(comment, "!") || strings.TrimSpace(comment) == "" {
			end()
			continue
		}
		block += strings.TrimSpace(comment) + " "
	}
	end()
	return blocks
}

// TestHashCommentsArePlain holds comments of manifests, the chart, the Makefile and scripts to plain words.
func TestHashCommentsArePlain(t *testing.T) {
	words := 0
	for _, glob := range commented {
		paths, err := filepath.Glob("../" + glob)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s matches no file (%v)", glob, err)
		}
		before := words
		for _, path := range paths {
			for _, block := range hashComments(page(t, path)) {
				words += hold(t, path, block)
			}
		}
		if words == before {
			t.Errorf("%s has no comments", glob)
		}
	}
}

// TestHashCommentsAreRead: what the limits see of a file.
func TestHashCommentsAreRead(t *testing.T) {
	got := hashComments("#!/bin/sh\n# One\n  # block of `it`.\nkey: value # no\n#\n# Next.\n{{- /* A\n   template. */ -}}\nbuild: x ## Help.\n")
	if want := []string{"One block of CODE.", "Next.", "A template.", "Help."}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// riddles are parts of names that are banned in prose as well, and metaphors that earlier names had.
var riddles = regexp.MustCompile(`(Whoever|Nobody|Somebody|Anybody|Anew|Told|Tells|Telling|Meant|Atlas|Census|Shelf)([A-Z]|s?$)|^(told|tells|nobody|somebody|whoever|anew|atlas|census|shelf)([A-Z]|$)`)

// TestNamesArePlain holds the declared names of packages to plain words, tests included.
func TestNamesArePlain(t *testing.T) {
	found := 0
	see := func(path string, names ...*ast.Ident) {
		for _, name := range names {
			found++
			if riddles.MatchString(name.Name) {
				t.Errorf("%s: %s: use a word of docs/reference/glossary.md", path, name.Name)
			}
		}
	}
	for _, root := range []string{"api", "charts", "cmd", "internal", "sandbox"} {
		err := filepath.WalkDir("../"+root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					see(path, n.Name)
				case *ast.TypeSpec:
					see(path, n.Name)
				case *ast.Field:
					see(path, n.Names...)
				case *ast.ValueSpec:
					see(path, n.Names...)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 20000 {
		t.Errorf("only %d names are read", found)
	}
}

// riddleFields are fields of JSON whose meaning only readers of the code knew, as earlier versions had.
var riddleFields = regexp.MustCompile(`^(wentBack.*|went.*|departure|afterwards|behind|probation|seen|seenAt|blind|unread|begunAt|ending.*|trouble|noRoom|blames|nameless|` +
	`likeness|stamp|taken.*|successor|lookingSince|crowded|noWayBack|gone|frozen|awaits|tries|left|leaves|why|says|took|acted|that)$`)

// TestFieldsArePlain holds the fields of objects, records and output to names that a stranger can guess.
func TestFieldsArePlain(t *testing.T) {
	found := 0
	for _, dir := range packages(t) {
		if strings.HasPrefix(dir, "sandbox") {
			continue
		}
		paths, err := filepath.Glob("../" + dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if field, is := n.(*ast.Field); is && field.Tag != nil && !strings.HasSuffix(path, "_test.go") {
					tag, _ := strconv.Unquote(field.Tag.Value)
					name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
					if found++; riddleFields.MatchString(name) {
						t.Errorf("%s: field %s: use a word of docs/reference/glossary.md", path, name)
					}
				}
				return true
			})
		}
	}
	if found < 900 {
		t.Errorf("only %d fields are read", found)
	}
}
