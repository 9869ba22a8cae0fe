package generalize

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// editor changes lines of a file. Its two halves are separate code, so that a mistake in one is found by the other.
type editor struct {
	takesPattern bool
	// edit returns the edited content of the file at a path of the tree.
	edit func(t *tree.Tree, p string, content []byte, r *rules.Rule, before *DonorValues) []byte
	// check returns what is still wrong with the content; empty if nothing is.
	check func(t *tree.Tree, p string, content []byte, r *rules.Rule, before *DonorValues) string
	// refuse returns why the run is refused unless the rule is allowed; empty if it is not. May be nil.
	refuse func(t *tree.Tree, p string, content []byte, before *DonorValues) string
	// rename returns the new path of the file. May be nil.
	rename func(p string, before *DonorValues) string
}

var editors = map[string]editor{
	"drop-lines": {takesPattern: true, edit: dropLines, check: linesDropped},
	"own-name":   {edit: dropOwnName, check: ownNameDropped},
	"nofail":     {edit: addNofail, check: nofailAdded, refuse: refuseForeign},
	"boot-id":    {edit: dropBootID, check: bootIDDropped, rename: renameBootEntry},
}

// isNoText reports whether a match has no text of its own to edit: a link to another match, to no file, or to a file whose name has a
// rule of its own, and a directory if the rule is for files.
func isNoText(t *tree.Tree, r *rules.Rule, m tree.Match) bool {
	if !isLink(m) {
		return r.Only == "files" && m.Info.IsDir()
	}
	target, info, err := t.Resolve(m.Path)
	return editors[r.Editor].rename != nil || errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || r.Matches(target))
}

// dropLines removes the lines that match the rule's pattern.
func dropLines(_ *tree.Tree, _ string, content []byte, r *rules.Rule, _ *DonorValues) []byte {
	kept := slices.DeleteFunc(bytes.SplitAfter(content, []byte("\n")), func(line []byte) bool {
		return r.Matcher.Match(bytes.TrimRight(line, "\r\n"))
	})
	return bytes.Join(kept, nil)
}

// blankLines is dropLines without a change of the line numbers.
func blankLines(content []byte, r *rules.Rule) []byte {
	lines := strings.Split(string(content), "\n")
	for i, line := range lines {
		if r.Matcher.MatchString(strings.TrimSuffix(line, "\r")) {
			lines[i] = ""
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

func linesDropped(_ *tree.Tree, _ string, content []byte, r *rules.Rule, _ *DonorValues) string {
	for number, line := range strings.Split(string(content), "\n") {
		if r.Matcher.MatchString(strings.TrimSuffix(line, "\r")) {
			return fmt.Sprintf("line %d had to be removed", number+1)
		}
	}
	return ""
}

// dropOwnName removes the machine's own name, and longer names that begin with it and a dot, from a hosts file. It also
// removes the line of 127.0.1.1, by Debian's convention the machine's own, and lines left without names.
func dropOwnName(_ *tree.Tree, _ string, content []byte, _ *rules.Rule, before *DonorValues) []byte {
	var kept []byte
	for _, line := range bytes.SplitAfter(content, []byte("\n")) {
		text, comment, _ := strings.Cut(strings.TrimRight(string(line), "\r\n"), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			kept = append(kept, line...)
			continue
		}
		names := slices.DeleteFunc(slices.Clone(fields[1:]), before.owns)
		switch {
		case fields[0] == "127.0.1.1" || len(names) == 0:
		case len(names) == len(fields)-1:
			kept = append(kept, line...)
		default:
			kept = append(kept, fields[0]+"\t"+strings.Join(names, " ")...)
			if comment != "" {
				kept = append(kept, " #"+comment...)
			}
			kept = append(kept, '\n')
		}
	}
	return kept
}

var word = regexp.MustCompile(`\S+`)

func ownNameDropped(_ *tree.Tree, _ string, content []byte, _ *rules.Rule, before *DonorValues) string {
	for number, line := range strings.Split(string(content), "\n") {
		if i := strings.IndexByte(line, '#'); i >= 0 {
			line = line[:i]
		}
		words := word.FindAllString(line, -1)
		if len(words) > 0 && words[0] == "127.0.1.1" {
			return fmt.Sprintf("line %d still has the address of the machine's own name", number+1)
		}
		for _, w := range words {
			if w != words[0] && before.owns(w) {
				return fmt.Sprintf("line %d still has the machine's own name", number+1)
			}
		}
	}
	return ""
}
