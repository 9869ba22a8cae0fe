package scan

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path"
	"regexp"
)

// maxPossible is the size of the largest file that may hold only an identity, in bytes.
const maxPossible = 4 << 10

var (
	// possibleName matches names of files with the identity of a machine or an agent.
	possibleName = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:id|uuid|guid|hostid|host_id|machine_id|serial|node|agent|state|identity|secret)(?:$|[^a-z])|(?i)(?:uuid|guid|hostid|nodeid|agentid|identity)`)
	// possibleID matches a UUID, or 32 digits that are not a part of a longer number.
	possibleID = regexp.MustCompile(`(?i)\b(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b`)
	// possibleHost matches an instance ID of AWS, or a MAC address that is not a part of a fingerprint.
	possibleHost = regexp.MustCompile(`\bi-[0-9a-f]{17}\b|(?i)(?:^|[^0-9a-f:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?:$|[^0-9a-f:])`)
	// wholeKey matches 32 bytes in base64 or hex.
	wholeKey = regexp.MustCompile(`^(?:[A-Za-z0-9+/]{43}=|[A-Za-z0-9_-]{43}=?|[0-9a-fA-F]{64})\s*$`)
	// program matches names of programs and settings, which often are named after their agent.
	program = regexp.MustCompile(`(?i)\.(?:egg|py|pyc|sh|so|jar|rb|js|html?|service|socket|timer|target|md|txt)$`)
	// checksumName matches names of files with a checksum, which looks like a key.
	checksumName = regexp.MustCompile(`(?i)sha|sum|digest|hash|revision|commit`)
)

// possible inspects a small file of unknown origin: it may hold an identity that no rule knows. A file whose whole
// content is 32 bytes in base64 or hex is a key.
func (w *treeWalk) possible(f io.ReaderAt, at placeOf, size int64, found func(hit)) {
	if size > maxPossible || w.Base != nil && w.Base(at.name) {
		return
	}
	content := headAt(f, 0, int(size))
	if wholeKey.Match(content) && !checksumName.MatchString(path.Base(at.name)) {
		found(hit{kind: PrivateKey, what: "key of 32 bytes, the whole content"})
		return
	}
	base := path.Base(at.name)
	if possibleName.MatchString(base) && !program.MatchString(base) || len(possibleID.FindAll(content, 2)) == 1 || possibleHost.Match(content) {
		w.report.Possible.add(at.shown)
	}
}

const (
	// maxHashed is the number of files with a hash, and maxHashedSize the size of the largest of them, in bytes. A
	// larger file holds data, not an identity.
	maxHashed     = 20_000
	maxHashedSize = 16 << 20
)

// hash records the hash of a file of unknown origin.
func (w *treeWalk) hash(f io.ReaderAt, at placeOf, size int64) error {
	if !w.Hashes || size > maxHashedSize || len(w.report.Hashes) >= maxHashed || w.Base != nil && w.Base(at.name) {
		return nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, size)); err != nil {
		return err
	}
	if w.report.Hashes == nil {
		w.report.Hashes = map[string]string{}
	}
	w.report.Hashes[at.shown] = hex.EncodeToString(sum.Sum(nil))
	return nil
}
