package scan

import (
	"bytes"
	"slices"
	"strings"
)

// Literal is a value of the donor in plain text, for example its host name.
type Literal struct {
	// What describes the value for people.
	What string
	// Text is the value. The search ignores case.
	Text string
	// Allowed are the beginnings of paths that have the value by design.
	Allowed []string
	// IsWord is true for a host name that other files have as a word. It is searched as the value of a setting for names, and where
	// an initramfs has the name of its machine.
	IsWord bool
}

var (
	uuidText = expression(`^(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	macText  = expression(`^(?i)[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}$`)
)

// Spellings returns the forms of a value in files, in lower case: a UUID with and without dashes, in both byte orders; a
// MAC address with colons, with dashes, and without either.
func Spellings(text string) []string {
	text = strings.ToLower(text)
	switch {
	case uuidText().MatchString(text):
		swapped := swapUUID(text)
		return []string{text, strings.ReplaceAll(text, "-", ""), swapped, strings.ReplaceAll(swapped, "-", "")}
	case macText().MatchString(text):
		plain := strings.NewReplacer(":", "", "-", "").Replace(text)
		pairs := make([]string, 0, 6)
		for i := 0; i < len(plain); i += 2 {
			pairs = append(pairs, plain[i:i+2])
		}
		return []string{strings.Join(pairs, ":"), strings.Join(pairs, "-"), plain}
	default:
		return []string{text}
	}
}

// swapUUID swaps the bytes of the first three fields of a UUID. Azure's agents and metadata service show the UUID of the
// firmware in the other order. Source: SMBIOS, 7.2.1 System UUID.
func swapUUID(text string) string {
	fields := strings.Split(text, "-")
	for i, field := range fields[:3] {
		swapped := ""
		for p := 0; p < len(field); p += 2 {
			swapped = field[p:p+2] + swapped
		}
		fields[i] = swapped
	}
	return strings.Join(fields, "-")
}

// watched are the directories of files that people and their tools write. Other places name the donor by design, for
// example logs.
var watched = []string{"/etc/", "/opt/", "/var/lib/", "/var/opt/", "/var/snap/", "/usr/local/", "/root/", "/home/", "/srv/"}

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

// find reports the values in a file that are not a part of a longer word. A longer value covers a shorter one at the
// same place.
func (l *literals) find(name string, w *window, found func(secretHit)) {
	covered := 0
	l.filter.find(w.data, w.from, w.to, func(word uint16, end int) {
		begin := end - len(l.values[word].Text)
		if begin < w.from || begin >= w.to || begin < covered || isWord(w.data, begin-1) || isWord(w.data, end) {
			return
		}
		v := &l.values[word]
		if v.IsWord && !isNameSet(name, w.data, begin, end) {
			return
		}
		covered = end
		if v.isPart(w.data, begin, end) || slices.ContainsFunc(v.Allowed, func(beginning string) bool { return strings.HasPrefix(name, beginning) }) {
			return
		}
		found(secretHit{kind: Identity, what: "the donor's " + v.What, offset: w.offset + int64(begin), trace: true})
	})
}

var (
	// nameSetting matches a line up to the value of a setting that names a machine, and nameRest the rest of the line after the short
	// name: a domain, and what closes the value. Source: the manuals of Puppet, Zabbix, Postfix, collectd, Samba, snmpd and others.
	nameSetting = expression(`(?i)^[^#;]*(?:(?:host|node|cert|machine|computer|netbios)[-_ ]?name|minion[-_]?id|sysname|fqdn)` +
		`["']?(?:[ \t]*[=:][ \t]*|[ \t]+)["']?$`)
	nameRest = expression(`^(?:\.[\w.-]*)?(?:["'][ \t]*[,}]|["']?[ \t]*[,;})]*[ \t]*(?:#.*)?$)`)
	// nameFile matches files whose only word is the name of a machine.
	nameFile = expression(`(?i)/(?:[\w.-]*[-_.])?(?:host|node|mail|machine|cert)_?-?name$`)
)

// maxSetting is the length of the longest line before and after a name that is searched for a setting, in bytes.
const maxSetting = 120

// isNameSet reports whether the word at a position is the value of a setting that names a machine, or the whole file is. A raw image
// has no files.
func isNameSet(file string, data []byte, begin, end int) bool {
	if file == "" {
		return false
	}
	line := data[max(0, begin-maxSetting):begin]
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	rest, _, _ := bytes.Cut(data[end:min(len(data), end+maxSetting)], []byte("\n"))
	if !nameRest().Match(bytes.TrimSuffix(rest, []byte("\r"))) {
		return false
	}
	return nameSetting().Match(line) || nameFile().MatchString(file) && len(bytes.TrimSpace(data[:begin])) == 0
}

// isPart reports whether a value is a part of a longer address or version, for example 10.0.3.1 in 10.0.3.1.7.
func (v *Literal) isPart(data []byte, begin, end int) bool {
	digit := func(at int) bool { return at >= 0 && at < len(data) && data[at] >= '0' && data[at] <= '9' }
	return strings.Trim(v.Text, "0123456789.") == "" && (begin > 0 && data[begin-1] == '.' && digit(begin-2) || end < len(data) && data[end] == '.' && digit(end+1))
}

// isWord reports whether a letter or digit is at a position.
func isWord(data []byte, at int) bool {
	if at < 0 || at >= len(data) {
		return false
	}
	c := fold(data[at])
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
}
