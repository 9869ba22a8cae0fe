package scan

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
)

const (
	// summaryBytes is the size of each filter. Both filters in base64 fit into the termination message of a container,
	// which is limited to 4 KiB.
	summaryBytes = 1500
	// MaxSummarized is the number of entries that fit into a summary: files, or directories of more files. The error rate is
	// 2 % then, and 0.3 % for two thirds.
	MaxSummarized = 1500
	summaryProbes = 8
	// summaryTagBytes is the length of the authentication tag.
	summaryTagBytes = 16
	// SummaryKeyBytes is the length of a summary's key.
	SummaryKeyBytes = 32
)

// Summary is a set of files of one machine: two Bloom filters, of the paths and of the paths with their contents. No file is
// missing, and a file can be in a filter by mistake. Only a reader with the key can test a guessed content.
type Summary struct {
	key             []byte
	depth           byte // of the directories that stand for more than MaxSummarized files; 0 for fewer files
	paths, contents [summaryBytes]byte
}

func newSummary(key []byte) (*Summary, error) {
	if len(key) != SummaryKeyBytes {
		return nil, fmt.Errorf("the key of a summary has %d bytes, not %d", len(key), SummaryKeyBytes)
	}
	return &Summary{key: key}, nil
}

// Summarize returns the summary of files with their SHA-256, by path.
func Summarize(files map[string]string, key []byte) (*Summary, error) {
	s, err := newSummary(key)
	if err != nil {
		return nil, err
	}
	entries := files
	for depth := deepest(files); len(entries) > MaxSummarized; depth-- {
		if depth == 0 {
			return nil, fmt.Errorf("%d files of unknown origin are too many for a comparison, and the limit is %d: exempt directories with a reason", len(files), MaxSummarized)
		}
		s.depth, entries = byte(min(depth, maxDirectoryDepth)), gathered(files, min(depth, maxDirectoryDepth))
	}
	for name, content := range entries {
		for _, at := range s.probes(name) {
			s.paths[at/8] |= 1 << (at % 8)
		}
		for _, at := range s.probes(name + "\x00" + content) {
			s.contents[at/8] |= 1 << (at % 8)
		}
	}
	return s, nil
}

// Differing returns the files that both machines have with different contents, sorted. A name that ends in a slash is a
// directory in which files differ, or exist on one machine only.
func (s *Summary) Differing(files map[string]string) (names []string) {
	entries := gathered(files, int(s.depth))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if s.has(&s.paths, name) && !s.has(&s.contents, name+"\x00"+entries[name]) {
			names = append(names, name)
		}
	}
	return names
}

// maxErrorRate is the error rate of a summary up to which a single file counts as equal: that of about 300 files.
const maxErrorRate = 1e-6

// Equal reports whether the other machine certainly has the file with this content. A summary of many files cannot tell.
func (s *Summary) Equal(name, content string) bool {
	set := 0
	for _, b := range s.contents {
		set += bits.OnesCount8(b)
	}
	rate := math.Pow(float64(set)/(8*summaryBytes), summaryProbes)
	return s.depth == 0 && rate <= maxErrorRate && s.has(&s.contents, name+"\x00"+content)
}

// maxDirectoryDepth is the depth below which directories are not told apart.
const maxDirectoryDepth = 255

// deepest is the largest number of directories above a file.
func deepest(files map[string]string) (depth int) {
	for name := range files {
		depth = max(depth, strings.Count(strings.Trim(name, "/"), "/"))
	}
	return depth
}

// gathered puts the directory at the depth, with a slash at its end, in place of all files below it. The hash of the
// directory covers their paths and hashes. Depth 0 keeps all files.
func gathered(files map[string]string, depth int) map[string]string {
	if depth == 0 {
		return files
	}
	entries, below := map[string]string{}, map[string]hash.Hash{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		parts := strings.SplitN(strings.TrimPrefix(name, "/"), "/", depth+1)
		if len(parts) <= depth {
			entries[name] = files[name]
			continue
		}
		directory := strings.TrimSuffix(name, parts[depth])
		if below[directory] == nil {
			below[directory] = sha256.New()
		}
		fmt.Fprintf(below[directory], "%q %s\n", name, files[name])
	}
	for directory, sum := range below {
		entries[directory] = hex.EncodeToString(sum.Sum(nil))
	}
	return entries
}

// MarshalText returns the summary as one word.
func (s *Summary) MarshalText() ([]byte, error) {
	return []byte(base64.RawURLEncoding.EncodeToString(slices.Concat([]byte{s.depth}, s.paths[:], s.contents[:], s.tag()))), nil
}

// ReadSummary reads the word of MarshalText. With another key, every file would seem to be missing.
func ReadSummary(text string, key []byte) (*Summary, error) {
	s, err := newSummary(key)
	if err != nil {
		return nil, err
	}
	content, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(content) != 1+2*summaryBytes+summaryTagBytes {
		return nil, errors.New("no summary of files")
	}
	s.depth = content[0]
	copy(s.paths[:], content[1:])
	copy(s.contents[:], content[1+summaryBytes:])
	if !hmac.Equal(content[1+2*summaryBytes:], s.tag()) {
		return nil, errors.New("the summary of files has another key")
	}
	return s, nil
}

func (s *Summary) has(filter *[summaryBytes]byte, name string) bool {
	return !slices.ContainsFunc(s.probes(name), func(at uint32) bool { return filter[at/8]&(1<<(at%8)) == 0 })
}

// probes are the bits of a name.
func (s *Summary) probes(name string) []uint32 {
	sum := s.mac([]byte(name))
	at := make([]uint32, summaryProbes)
	for i := range at {
		at[i] = binary.BigEndian.Uint32(sum[4*i:]) % (8 * summaryBytes)
	}
	return at
}

// tag authenticates both filters.
func (s *Summary) tag() []byte {
	return s.mac([]byte("\x00filters\x00"), []byte{s.depth}, s.paths[:], s.contents[:])[:summaryTagBytes]
}

func (s *Summary) mac(parts ...[]byte) []byte {
	h := hmac.New(sha256.New, s.key)
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)
}
