package docs

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const (
	longestSentence = 25 // words
	longestLine     = 120
	meanSentence    = 17  // words
	mostPronouns    = 6.0 // per 100 words
)

// pronouns make a reader search for a noun.
var pronouns = strings.Fields(`it its itself they them their that those these this which who whom whose what one ones other others such each
	nobody somebody anybody whoever whatever`)

// banned words are metaphors, archaisms, and words for persons who may be anybody.
var banned = regexp.MustCompile(`(?i)\b(whoever|nobody|somebody|anybody|(is|are|was|were|be) told|tells|anew|mend(s|ed)?|by (it|them)sel(f|ves)|stands (in|at)|` +
	`g(ive|ives|ave|iven) (it |them )?back|is meant)\b`)

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

// figures count words, sentences and pronouns of texts that belong together.
type figures struct{ words, sentences, pronouns int }

// hold reports banned words and long sentences of a block of prose, and counts.
func (f *figures) hold(t *testing.T, where, block string) {
	t.Helper()
	if word := banned.FindString(block); word != "" {
		t.Errorf("%s: %q is banned: %s", where, word, block)
	}
	for _, s := range sentencesOf(block) {
		w := wordsOf(s)
		if len(w) > longestSentence {
			t.Errorf("%s: %d words, at most %d: %s", where, len(w), longestSentence, s)
		}
		if len(w) >= 4 {
			f.sentences++
		}
		f.words += len(w)
		for _, word := range w {
			if slices.Contains(pronouns, strings.ToLower(word)) {
				f.pronouns++
			}
		}
	}
}

// check reports too many pronouns and too long sentences of all texts together.
func (f *figures) check(t *testing.T, name string) {
	t.Helper()
	share, mean := 100*float64(f.pronouns)/float64(max(f.words, 1)), float64(f.words)/float64(max(f.sentences, 1))
	t.Logf("%s: %d words, %.1f per sentence, %.1f pronouns per 100 words", name, f.words, mean, share)
	if share > mostPronouns {
		t.Errorf("%s: %.1f pronouns per 100 words, at most %.1f: repeat the noun", name, share, mostPronouns)
	}
	if mean >= meanSentence+1 {
		t.Errorf("%s: %.1f words per sentence, at most %d", name, mean, meanSentence)
	}
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

// TestProse holds all pages to plain words and short sentences. The changelog keeps the sentences of earlier changes.
func TestProse(t *testing.T) {
	for _, path := range files(t, ".md") {
		text, total := page(t, path), figures{}
		for _, line := range bannedLines(text) {
			t.Errorf("%s: banned word %s", path, line)
		}
		if path == "../CHANGELOG.md" {
			continue
		}
		for _, block := range prose(text) {
			total.hold(t, path, block)
		}
		total.check(t, path)
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
