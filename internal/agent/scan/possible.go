package scan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path"
	"unicode/utf8"
)

// maxPossible is the size of the largest file that may hold only an identity, in bytes.
const maxPossible = 4 << 10

// maxWord is the size of the largest file that may hold a single word only, in bytes.
const maxWord = 256

var (
	// possibleName matches names of files with the identity of a machine or an agent.
	possibleName = expression(`(?i)(?:^|[^a-z])(?:id|uuid|guid|hostid|host_id|machine_id|serial|node|agent|state|identity|secret)(?:$|[^a-z])|(?i)(?:uuid|guid|hostid|nodeid|agentid|identity)`)
	// possibleID matches a UUID, or 32 digits that are not a part of a longer number.
	possibleID = expression(`(?i)\b(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b`)
	// wholeKey matches 32 bytes in base64 or hex.
	wholeKey = expression(`^(?:[A-Za-z0-9+/]{43}=|[A-Za-z0-9_-]{43}=?|[0-9a-fA-F]{64})\s*$`)
	// namedID matches a setting that names a machine or an agent by a number.
	namedID = expression(`(?i)\b(?:computer|machine|host|node|agent|device|client|sensor|system|endpoint|registration|enrollment)[-_ ]?(?:id|guid|uuid)\b["']?\s*[=:]\s*["']?[0-9a-z{-]*\d{2}`)
	// namedWord matches such a setting with a word, which is the rest of the line.
	namedWord = expression(`(?im)\b(?:computer|machine|host|node|agent|device|sensor|system|endpoint|enrollment|instance|chassis|member)[-_ ]?(?:id|guid|uuid)\b["']?[ \t]*[=:][ \t]*["']?[a-z][a-z._-]{7,80}["']?[ \t]*[,;}]?[ \t]*$`)
	// namedKey matches a setting with the key of a machine or an agent.
	namedKey = expression(`(?i)\b(?:computer|machine|host|node|agent|device|client|sensor|system)[-_ ]?key\b["']?\s*[=:]\s*["']?[0-9a-z]{16}`)
	// oneWord matches content that is a single word of at least 20 characters.
	oneWord = expression(`^[A-Za-z0-9+/_=-]{20,200}\s*$`)
	// program matches names of programs and settings, which often are named after their agent.
	program = expression(`(?i)\.(?:egg|py|pyc|sh|so|jar|rb|js|html?|service|socket|timer|target|md|txt)$`)
	// keyName matches names of files with a key, and publicKey those of keys and certificates that may be public.
	keyName   = expression(`(?i)(?:^|[^a-z])(?:auth)?key(?:$|[^a-z])|secret|cookie`)
	publicKey = expression(`(?i)\.(?:gpg|pgp|pub|asc|crt|cer|pem)$`)
	// checksumName matches names of files with a checksum, which looks like a key.
	checksumName = expression(`(?i)sha|sum|digest|hash|revision|commit`)
)

// possible inspects a small file of unknown origin: it may hold an identity that no rule knows. A file whose whole
// content is 32 bytes in base64 or hex is a key.
func (w *treeWalk) possible(content []byte, at placeOf, found func(secretHit)) {
	if len(content) <= maxWord && wholeKey().Match(content) && !checksumName().MatchString(path.Base(at.name)) {
		found(secretHit{kind: PrivateKey, what: "key of 32 bytes, the whole content"})
		return
	}
	base := path.Base(at.name)
	if sources[path.Ext(base)] && !publicKey().MatchString(base) {
		return // programs and documents describe identities
	}
	named := namesMachine(base) && possibleName().MatchString(base) && !program().MatchString(base)
	if named || countIDs(content, 2) == 1 || namesHost(content) || setsID(content) || isKey(base, content) {
		w.report.Possible.add(at.shown)
	}
}

// isKey reports whether a file may hold a key: one random word, or random bytes under the name of a key.
func isKey(name string, content []byte) bool {
	// The expression is tried last, because most files are text.
	if len(content) <= maxWord && oneWord().Match(content) {
		return (isMixed(content) || isRandomWord(bytes.TrimSpace(content)) || keyName().MatchString(name)) && !checksumName().MatchString(name)
	}
	return isRandom(content) && keyName().MatchString(name) && !publicKey().MatchString(name)
}

// namesMachine reports whether a name has a word of possibleName, which costs more.
func namesMachine(name string) bool {
	for i := range len(name) {
		for _, word := range []string{"id", "node", "agent", "state", "serial", "secret"} {
			if len(name)-i >= len(word) && fold(name[i]) == word[0] && isFolded(name[i:i+len(word)], word) {
				return true
			}
		}
	}
	return false
}

// setsID reports whether a text sets the number of a machine or an agent. The expression is tried only around the few
// signs that follow "id" or "key".
func setsID(content []byte) bool {
	const around = 48
	for _, sign := range []byte("=:") {
		for at := 0; ; at++ {
			next := bytes.IndexByte(content[at:], sign)
			if next < 0 {
				break
			}
			at += next
			key := bytes.TrimRight(content[max(0, at-around):at], " \t\"'")
			part := content[max(0, at-around):min(len(content), at+around)]
			if endsIn(key, "id") && (namedID().Match(part) || namedWord().Match(part)) || endsIn(key, "key") && namedKey().Match(part) {
				return true
			}
		}
	}
	return false
}

func endsIn(text []byte, word string) bool {
	return len(text) >= len(word) && isFolded(text[len(text)-len(word):], word)
}

// isRandom reports whether content is not text, and hardly has a byte twice, like a random number.
func isRandom(content []byte) bool {
	part := content[:min(len(content), 256)]
	var seen [256]bool
	distinct := 0
	for _, c := range part {
		if !seen[c] {
			seen[c], distinct = true, distinct+1
		}
	}
	return len(part) >= 16 && distinct > len(part)/2 && !utf8.Valid(content)
}

// isMixed reports whether a word has digits, capitals and small letters, like a random text.
func isMixed(word []byte) bool {
	return bytes.ContainsAny(word, "0123456789") && !bytes.Equal(word, bytes.ToUpper(word)) && !bytes.Equal(word, bytes.ToLower(word))
}

// isRandomWord reports whether a word of letters alone is like a random text: a language has more vowels.
func isRandomWord(word []byte) bool {
	vowels := 0
	for _, c := range word {
		if c = fold(c); c < 'a' || c > 'z' {
			return false
		}
		if bytes.IndexByte([]byte("aeiou"), c) >= 0 {
			vowels++
		}
	}
	return 4*vowels <= len(word) && entropy(string(word)) >= 3.5
}

// countIDs counts UUIDs and numbers of 32 digits, up to a limit. Each covers a position divisible by 32, so that the
// expression is tried only around such positions.
func countIDs(content []byte, limit int) (count int) {
	seen := 0
	for p := 0; p < len(content); p += idDigits {
		if p < seen || !hexOrDash[content[p]] {
			continue
		}
		begin, end := p, p+1
		for begin > seen && hexOrDash[content[begin-1]] {
			begin--
		}
		for end < len(content) && hexOrDash[content[end]] {
			end++
		}
		seen = end
		if end-begin < idDigits {
			continue
		}
		if count += len(possibleID().FindAll(content[max(0, begin-1):min(len(content), end+1)], limit)); count >= limit {
			return count
		}
	}
	return count
}

const (
	macLength      = 17
	instancePrefix = "i-"
	instanceDigits = 17
)

// namesHost reports whether a text has an instance ID of AWS, or a MAC address that is not a part of a fingerprint.
func namesHost(content []byte) bool {
	for at := 0; ; at++ {
		next := bytes.IndexByte(content[at:], ':')
		if next < 0 {
			break
		}
		at += next
		if begin := at - 2; begin >= 0 && begin+macLength <= len(content) && isMAC(content, begin) {
			return true
		}
	}
	for at := 0; ; at++ {
		next := bytes.Index(content[at:], []byte(instancePrefix))
		if next < 0 {
			return false
		}
		at += next
		digits, end := 0, at+len(instancePrefix)
		for ; end < len(content) && hexOrDash[content[end]] && content[end] != '-'; end++ {
			digits++
		}
		if digits == instanceDigits && !isWord(content, at-1) && !isWord(content, end) {
			return true
		}
	}
}

// isMAC reports whether a MAC address with colons is at a position.
func isMAC(content []byte, begin int) bool {
	for i, c := range content[begin:][:macLength] {
		if i%3 == 2 && c != ':' || i%3 != 2 && (c == '-' || !hexOrDash[c]) {
			return false
		}
	}
	part := func(at int) bool {
		return at >= 0 && at < len(content) && (content[at] == ':' || hexOrDash[content[at]])
	}
	return !part(begin-1) && !part(begin+macLength)
}

const (
	// maxHashed is the number of files with a hash, and maxHashedSize the size of the largest of them, in bytes. A
	// larger file holds data, not an identity.
	maxHashed     = 20_000
	maxHashedSize = 16 << 20
)

// hash records the hash of a file of unknown origin.
func (w *treeWalk) hash(f body, at placeOf) error {
	if !w.Hashes || f.size > maxHashedSize || len(w.report.Hashes) >= maxHashed {
		return nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f.reader()); err != nil {
		return err
	}
	if w.report.Hashes == nil {
		w.report.Hashes = map[string]string{}
	}
	w.report.Hashes[at.shown] = hex.EncodeToString(sum.Sum(nil))
	return nil
}
