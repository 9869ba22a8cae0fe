package scan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"sync"
)

// Kind is the class of a finding.
type Kind string

// The kinds of findings.
const (
	PrivateKey Kind = "private key"
	Token      Kind = "token"
	Password   Kind = "password"
	Identity   Kind = "identity"
	// Leftover is removed content that still has another name.
	Leftover Kind = "removed content"
	// Memory is the memory of a process. It can hold any secret, and no search finds all of them.
	Memory Kind = "memory of a process"
)

// before and after are how many bytes around an anchor a finding may span. The longest is the base64 of a PEM text of
// an RSA key with 8192 bits (6.4 kB).
const (
	before = 2 << 10
	after  = 12 << 10
)

// signature is a form of secret: anchors for the fast search, and an expression for the text around an anchor.
type signature struct {
	kind Kind
	// what is the description for people.
	what string
	// anchors are part of every match, ignoring case: at least one of them.
	anchors []string
	// match is applied to the text from back bytes before the anchor to reach bytes after its beginning (zero: all
	// text). The expression is compiled at its first use.
	back, reach int
	match       func() *regexp.Regexp
	// group is the submatch with the secret; zero is the whole match.
	group int
	// inside is the minimal length of the secret around the anchor, in characters; zero if the anchor is outside the
	// secret.
	inside int
	// near quickly checks the text from the anchor on, before the expression.
	near func(text []byte) bool
	// keep decides about a match where an expression is not enough.
	keep func(whole, secret []byte) bool
	// path matches the files that the form is for, and in decides about a match in a file. Nil: any file. A stream without a
	// file, as a raw image, has the name "": it matches no path.
	path func() *regexp.Regexp
	in   func(name string, whole, secret []byte) bool
	// random secrets cannot be guessed from their hash, so that the hash may be published.
	random bool
	// named secrets are recognizable only by a name next to them. They matter only in files from no package or image,
	// because programs, manuals and examples contain many similar texts.
	named bool
}

// catalogue is the set of all forms with its filter.
type catalogue struct {
	// forms are in order of precedence for findings at the same place.
	forms  []signature
	filter *filter
	// words of the filter, with the forms and the length of each.
	words []anchored
}

type anchored struct {
	length int
	forms  []int
}

func newCatalogue(forms []signature) *catalogue {
	c := &catalogue{forms: forms}
	var words []string
	for i := range forms {
		for _, anchor := range forms[i].anchors {
			word := string(bytes.ToLower([]byte(anchor)))
			at := slices.Index(words, word)
			if at < 0 {
				at = len(words)
				words, c.words = append(words, word), append(c.words, anchored{length: len(word)})
			}
			c.words[at].forms = append(c.words[at].forms, i)
		}
	}
	c.filter = newFilter(words)
	return c
}

// everything is the catalogue of all forms. It is built at the first search, because most commands do not search.
var everything = sync.OnceValue(func() *catalogue {
	return newCatalogue(slices.Concat(keyForms(), tokenForms(), passwordForms(), structureForms(), ruleSet().forms))
})

// expression is compiled at its first use, because each command starts with this package and few search.
func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// at returns the match around the anchor at a position of a file, with the secret.
func (s *signature) at(name string, data []byte, at, length int) (start int, whole, secret []byte) {
	if !s.mayBeAt(name, data, at) {
		return 0, nil, nil
	}
	start = max(0, at-s.back)
	reach := after
	if s.reach > 0 {
		reach = s.reach
	}
	text := data[start:min(len(data), at+reach)]
	// A match must reach the anchor's end. An earlier match belongs to another anchor.
	for from := 0; from <= at-start; {
		place := s.match().FindSubmatchIndex(text[from:])
		if place == nil || start+from+place[0] > at {
			return 0, nil, nil
		}
		if end := start + from + place[1]; end >= at+length {
			whole, secret = text[from+place[0]:from+place[1]], text[from+place[0]:from+place[1]]
			if g := 2 * s.group; g < len(place) && place[g] >= 0 {
				secret = text[from+place[g] : from+place[g+1]]
			}
			if !s.keeps(name, whole, secret) {
				return 0, nil, nil
			}
			return start + from + place[0], whole, secret
		}
		from += max(1, place[1])
	}
	return 0, nil, nil
}

// mayBeAt checks quickly, before the expression.
func (s *signature) mayBeAt(name string, data []byte, at int) bool {
	return (s.path == nil || s.path().MatchString(name)) && (s.inside == 0 || runAround(data, at, s.inside) >= s.inside) && (s.near == nil || s.near(data[at:]))
}

// keeps decides about a match.
func (s *signature) keeps(name string, whole, secret []byte) bool {
	return (s.keep == nil || s.keep(whole, secret)) && (s.in == nil || s.in(name, whole, secret))
}

// runAround returns the length of the run of token characters around a position, up to enough.
func runAround(data []byte, at, enough int) int {
	begin, end := at, at
	for end < len(data) && end-at < enough && inToken[data[end]] {
		end++
	}
	for begin > 0 && end-begin < enough && inToken[data[begin-1]] {
		begin--
	}
	return end - begin
}

var inToken = alphabet("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.~=+/:%")

func alphabet(characters string) (table [256]bool) {
	for i := range len(characters) {
		table[characters[i]] = true
	}
	return table
}

// fingerprint returns the SHA-256 of a random secret; empty for other secrets.
func (s *signature) fingerprint(secret []byte) string {
	if !s.random {
		return ""
	}
	return sum([]byte(bodyOf(secret)))
}

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}
