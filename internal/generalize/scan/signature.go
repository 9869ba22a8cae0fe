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
	// Leftover is content that a rule removed and that has another name.
	Leftover Kind = "removed content"
)

// before and after are how many bytes around an anchor may belong to what is found there. The longest is
// the text of an RSA key of 8192 bits (6.4 kB), and that in base64 once more.
const (
	before = 2 << 10
	after  = 12 << 10
)

// signature is a form of secret: anchors that are quick to look for, and an expression that says whether
// the text around one of them is one.
type signature struct {
	kind Kind
	// what it is, for people.
	what string
	// anchors, whatever their case; one of them is part of every match.
	anchors []string
	// match is tried on the text that begins up to back bytes before the anchor and ends reach bytes after
	// its begin (zero: as far as there is text). It is made when it is first needed.
	back, reach int
	match       func() *regexp.Regexp
	// group is the submatch that is the secret; zero is the whole.
	group int
	// inside says that the anchor lies in the secret itself, which is a run of at least so many characters.
	inside int
	// near is a quick look at what follows an anchor, at its begin, before the expression is asked.
	near func(text []byte) bool
	// keep says whether a match is meant, where an expression cannot tell.
	keep func(whole, secret []byte) bool
	// random secrets cannot be guessed from their hash, so that the hash may be given out.
	random bool
	// named secrets are told by the name next to them alone. They count only in text which neither a package
	// nor an image brought: programs, manuals and examples are full of the like.
	named bool
}

// catalogue is all that is looked for, ready to be looked for in one pass.
type catalogue struct {
	// forms in the order of their precedence: of what two find in one place, the first counts.
	forms  []signature
	filter *filter
	// words of the filter: which forms each belongs to, and how long it is.
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

// everything is what is looked for. It is put together when a search begins: most commands make none.
var everything = sync.OnceValue(func() *catalogue {
	return newCatalogue(slices.Concat(keyForms(), tokenForms(), passwordForms(), ruleSet().forms))
})

func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// at returns the match that the anchor at a position is part of, and the secret in it.
func (s *signature) at(data []byte, at, length int) (start int, whole, secret []byte) {
	if s.inside > 0 && runAround(data, at, s.inside) < s.inside || s.near != nil && !s.near(data[at:]) {
		return 0, nil, nil
	}
	start = max(0, at-s.back)
	reach := after
	if s.reach > 0 {
		reach = s.reach
	}
	text := data[start:min(len(data), at+reach)]
	// A match ends where the anchor does at the earliest, so one before it is no match of this anchor.
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
			if s.keep != nil && !s.keep(whole, secret) {
				return 0, nil, nil
			}
			return start + from + place[0], whole, secret
		}
		from += max(1, place[1])
	}
	return 0, nil, nil
}

// runAround is how long the run of characters is, of which tokens are made, around a position; it is not
// counted further than needed.
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

// fingerprint is the SHA-256 of a secret that cannot be guessed from it, and empty for the others.
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
