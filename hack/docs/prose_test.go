package docs

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const (
	longestSentence = 30 // words
	longestLine     = 120
)

// replaced are words that a reader stumbles over, as a pattern, with what to write instead. docs/contribute/style.md prints the list.
var replaced = []struct{ word, pattern, instead string }{
	{"whoever", `whoever`, "anyone who"},
	{"nobody", `nobody`, "no one"},
	{"somebody", `somebody`, "someone"},
	{"anybody", `anybody`, "anyone"},
	{"is told", `(?:is|are|was|were|be) told`, "learns, gets"},
	{"tells", `tells`, "says, shows, reports"},
	{"anew", `anew`, "again"},
	{"mend", `mend(?:s|ed)?`, "fix"},
	{"by itself", `by (?:it|them)sel(?:f|ves)`, "automatically, alone"},
	{"stands in", `stands (?:in|at)`, "is in"},
	{"gives back", `g(?:ive|ives|ave|iven) (?:it |them )?back`, "returns"},
	{"is meant", `is meant`, "means, refers to"},
}

var banned = func() *regexp.Regexp {
	var patterns []string
	for _, r := range replaced {
		patterns = append(patterns, r.pattern)
	}
	return regexp.MustCompile(`(?i)\b(` + strings.Join(patterns, "|") + `)\b`)
}()

// advice names a banned word with its replacement.
func advice(word string) string {
	for _, r := range replaced {
		if regexp.MustCompile(`(?i)^(?:` + r.pattern + `)$`).MatchString(word) {
			return fmt.Sprintf("%q: write %q", word, r.instead)
		}
	}
	return word
}

// TestWordList: the page on style prints each word with its replacement.
func TestWordList(t *testing.T) {
	text := page(t, "contribute/style.md")
	for _, r := range replaced {
		if row := fmt.Sprintf("| `%s` | %s |\n", r.word, r.instead); !strings.Contains(text, row) {
			t.Errorf("docs/contribute/style.md lacks the row %s", row)
		}
		if word := banned.FindString("It " + r.word + " it"); !strings.Contains(advice(word), r.instead) {
			t.Errorf("%s: %q is no advice", r.word, advice(word))
		}
	}
}

// prose is the text of a page outside tables, code, headings, quotes of HTML and links' targets: a block for each paragraph or list item.
func prose(text string) (blocks []string) {
	code, block := false, ""
	end := func() {
		if block != "" {
			blocks = append(blocks, strings.TrimSpace(block))
		}
		block = ""
	}
	item := regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
			end()
			continue
		}
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case code, trimmed == "", strings.HasPrefix(line, "    "), strings.ContainsAny(trimmed[:1], "|#<"):
			end()
			continue
		case item.MatchString(line):
			end()
			line = item.ReplaceAllString(line, "")
		}
		block += strings.TrimPrefix(line, "> ") + " "
	}
	end()
	link, literal := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`), regexp.MustCompile("`[^`]*`")
	for i, b := range blocks {
		blocks[i] = literal.ReplaceAllString(link.ReplaceAllString(b, "$1"), "CODE")
	}
	return blocks
}

// sentencesOf splits a block at marks that end a sentence or a part of a list.
func sentencesOf(block string) []string {
	return regexp.MustCompile(`[.:;!?][*)"]*\s+`).Split(block, -1)
}

func wordsOf(sentence string) []string {
	return strings.FieldsFunc(sentence, func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' })
}

// hold reports banned words and long sentences of a block of prose, and returns the number of words.
func hold(t *testing.T, where, block string) (words int) {
	t.Helper()
	if word := banned.FindString(block); word != "" {
		t.Errorf("%s: %s: %s", where, advice(word), block)
	}
	for _, s := range sentencesOf(block) {
		w := len(wordsOf(s))
		if words += w; w > longestSentence {
			t.Errorf("%s: %d words, at most %d: %s", where, w, longestSentence, s)
		}
	}
	return words
}

// bannedLines returns the lines of a page outside code that hold a banned word, with the word: headings and tables as well.
func bannedLines(text string) (found []string) {
	code, literal := false, regexp.MustCompile("`[^`]*`")
	for line := range strings.Lines(text) {
		if code = code != strings.HasPrefix(strings.TrimSpace(line), "```"); code {
			continue
		}
		if word := banned.FindString(literal.ReplaceAllString(line, "CODE")); word != "" {
			found = append(found, word+": "+strings.TrimSpace(line))
		}
	}
	return found
}

// TestProse holds all pages to plain words, and to sentences that a reader can follow. The changelog keeps the sentences of earlier changes.
func TestProse(t *testing.T) {
	for _, path := range files(t, ".md") {
		text := page(t, path)
		for _, line := range bannedLines(text) {
			word, rest, _ := strings.Cut(line, ": ")
			t.Errorf("%s: %s: %s", path, advice(word), rest)
		}
		if path == "../CHANGELOG.md" {
			continue
		}
		for _, block := range prose(text) {
			hold(t, path, block)
		}
		code := false
		for line := range strings.Lines(text) {
			code = code != strings.HasPrefix(line, "```")
			if !code && !strings.HasPrefix(line, "|") && len([]rune(line)) > longestLine+1 {
				t.Errorf("%s: a line of %d characters, at most %d: %s", path, len([]rune(line))-1, longestLine, line)
			}
		}
	}
}

// TestProseIsRead: what the limits see of a page.
func TestProseIsRead(t *testing.T) {
	got := prose("# Title\n\nOne line\nof `it` and [a link](that).\n- an item\n- another\n\n| a | table |\n\n```\ncode\n```\nEnd.\n")
	want := []string{"One line of CODE and a link.", "an item", "another", "End."}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	got = bannedLines("# What it tells\n\n| `nobody` | nobody |\n\n```\nit tells\n```\nPlain.\n")
	if want = []string{"tells: # What it tells", "nobody: | `nobody` | nobody |"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, text := range []string{"Whoever reads it", "The value is told.", "it goes by itself"} {
		if !banned.MatchString(text) {
			t.Errorf("%q passes", text)
		}
	}
}

// firstChecked is the commit after which subjects follow the rule of docs/contribute/style.md.
const firstChecked = "b959aff"

// TestCommitSubjects: the subject of each commit is `area: imperative`, in at most 72 characters.
func TestCommitSubjects(t *testing.T) {
	if err := exec.Command("git", "cat-file", "-e", firstChecked+"^{commit}").Run(); err != nil {
		t.Skip("no git, or a clone without the history")
	}
	out, err := exec.Command("git", "log", "--format=%s", firstChecked+"..HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	area := regexp.MustCompile(`^[a-z][a-z0-9-]*: [a-z]`)
	for subject := range strings.Lines(string(out)) {
		subject = strings.TrimSpace(subject)
		if !area.MatchString(subject) || len(subject) > 72 || banned.MatchString(subject) {
			t.Errorf("%q: want `area: imperative`, at most 72 characters, and none of the words of docs/contribute/style.md", subject)
		}
	}
}
