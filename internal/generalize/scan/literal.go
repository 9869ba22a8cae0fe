package scan

import (
	"slices"
	"strings"
)

// Literal is a value of the donor in plain text, for example its host name.
type Literal struct {
	// What describes the value for people.
	What string
	// Text is the value. The search ignores case.
	Text string
}

// watched are the directories of files that people and their tools write. Other places name the donor by design, for
// example logs.
var watched = []string{"/etc/", "/opt/", "/var/lib/", "/var/opt/", "/usr/local/", "/root/", "/home/", "/srv/"}

// ownRecords has the manifests, which name the donor for people.
const ownRecords = "/var/lib/kamino/"

// literals finds the donor's values in text.
type literals struct {
	values []Literal
	filter *filter
}

func literalsOf(values []Literal) *literals {
	if len(values) == 0 {
		return nil
	}
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = v.Text
	}
	return &literals{values, newFilter(words)}
}

// watches reports whether a file is searched.
func (l *literals) watches(name string) bool {
	return l != nil && !strings.HasPrefix(name, ownRecords) && slices.ContainsFunc(watched, func(dir string) bool { return strings.HasPrefix(name, dir) })
}

// find reports values that are not a part of a longer word. A longer value covers a shorter one at the same place.
func (l *literals) find(w *window, found func(hit)) {
	covered := 0
	l.filter.find(w.data, w.from, w.to, func(word uint16, end int) {
		begin := end - len(l.values[word].Text)
		if begin < w.from || begin >= w.to || begin < covered || isWord(w.data, begin-1) || isWord(w.data, end) {
			return
		}
		covered = end
		found(hit{kind: Identity, what: "the donor's " + l.values[word].What, offset: w.offset + int64(begin), trace: true})
	})
}

// isWord reports whether a letter or digit is at a position.
func isWord(data []byte, at int) bool {
	if at < 0 || at >= len(data) {
		return false
	}
	c := fold(data[at])
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
}
