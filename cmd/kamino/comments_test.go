package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// plainComments are the packages with comments held to the limits below. Each rewritten package joins the list.
var plainComments = strings.Fields(`
	internal/cloud internal/cloud/cloudtest internal/cloud/memory internal/cluster internal/estimate internal/expression
	internal/generalize internal/generalize/disk internal/generalize/host internal/generalize/scan internal/generalize/store
	internal/generalize/tree internal/reservations internal/history internal/imageversion internal/bootstrapkind internal/membership
	internal/nodejoin internal/node internal/nodecache internal/nodestate internal/pool internal/joinhealth internal/process
	internal/replace internal/replace/plan internal/restore internal/restore/plan internal/retention internal/rollback
	internal/rollback/plan internal/savedrecipe internal/schedule internal/selection internal/imagecount internal/trial
	internal/trialmode`)

const (
	longestSentence = 25  // words
	mostPronouns    = 6.0 // per 100 words of a package
)

// vagueWords make a reader search for a noun.
var vagueWords = strings.Fields(`it its itself they them their that those these this which who whom whose what one ones other others such each
	nobody somebody anybody whoever whatever`)

// bannedWords are metaphors, archaisms and indefinite persons.
var bannedWords = regexp.MustCompile(`(?i)\b(whoever|nobody|somebody|anybody|tell|tells|told|telling|anew|mend(s|ed)?|by (itself|themselves)|` +
	`stands in|(given|give|gives) back|(is|are) meant|beside)\b`)

// paragraph is a paragraph of a comment outside code.
type paragraph struct {
	at   token.Pos
	text string
}

// paragraphs returns the prose of a file's comments, without directives, literals in backquotes and indented code.
func paragraphs(file *ast.File) (all []paragraph) {
	literal := regexp.MustCompile("`[^`]*`")
	add := func(at token.Pos, text string) {
		if text = literal.ReplaceAllString(text, "CODE"); text != "" {
			all = append(all, paragraph{at, text})
		}
	}
	for _, group := range file.Comments {
		for text := range strings.SplitSeq(group.Text(), "\n\n") {
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

// sentences splits a paragraph at the marks between sentences or parts of a list.
func sentences(text string) []string { return regexp.MustCompile(`[.:;!?][*)"]*\s+`).Split(text, -1) }

func words(sentence string) []string {
	return strings.FieldsFunc(sentence, func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' })
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

// bannedWord returns the first banned word of a text that is not a name; empty if there is none.
func bannedWord(text string, names map[string]bool) string {
	for _, word := range bannedWords.FindAllString(text, -1) {
		if !names[word] {
			return word
		}
	}
	return ""
}

func vague(sentence []string) (count int) {
	for _, word := range sentence {
		if slices.Contains(vagueWords, strings.ToLower(word)) {
			count++
		}
	}
	return count
}

// TestCommentsArePlain holds comments to short sentences with nouns.
func TestCommentsArePlain(t *testing.T) {
	for _, dir := range plainComments {
		paths, err := filepath.Glob("../../" + dir + "/*.go")
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s has no files (%v)", dir, err)
		}
		total, found := 0, 0
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
				if word := bannedWord(p.text, names); word != "" {
					t.Errorf("%s: %q is banned: %s", set.Position(p.at), word, p.text)
				}
				for _, s := range sentences(p.text) {
					w := words(s)
					if len(w) > longestSentence {
						t.Errorf("%s: %d words, at most %d: %s", set.Position(p.at), len(w), longestSentence, s)
					}
					total, found = total+len(w), found+vague(w)
				}
			}
		}
		if share := 100 * float64(found) / float64(max(total, 1)); share > mostPronouns {
			t.Errorf("%s: %.1f pronouns per 100 words of comments, at most %.1f: repeat the noun", dir, share, mostPronouns)
		}
	}
}

// TestCommentsAreRead: what the limits see of a file.
func TestCommentsAreRead(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", "// Package x is\n// short. Told is `told`.\n//\n//\tcode that is told\n//\n// More.\npackage x\n\n"+
		"//go:generate that\nvar Told = 1 //nolint:gosec // a reason\n\nvar b = 2 // behind code\n", parser.ParseComments)
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
	if s := sentences(got[0]); len(s) != 2 || len(words(s[0])) != 4 {
		t.Errorf("sentences %q", s)
	}
	names := exportedNames(file)
	for text, want := range map[string]string{got[0]: "", "It was told.": "told", "Told by the cloud": "", "Nobody knows": "Nobody", "a nobodyish word": ""} {
		if have := bannedWord(text, names); have != want {
			t.Errorf("%q: %q is banned, want %q", text, have, want)
		}
	}
	if n := vague(words("It is what the others gave, with nouns")); n != 3 {
		t.Errorf("%d pronouns, want 3", n)
	}
}
