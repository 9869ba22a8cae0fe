package scan

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

const (
	// summaryBytes is the size of each filter. Both filters in base64 fit into the termination message of a container,
	// which is limited to 4 KiB.
	summaryBytes = 1500
	// MaxSummarized is the number of files that fit into a summary. The error rate is 2 % then, and 0.3 % for two thirds.
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
	if len(files) > MaxSummarized {
		return nil, fmt.Errorf("%d files of unknown origin are too many for a comparison, and the limit is %d: exempt directories with a reason", len(files), MaxSummarized)
	}
	s, err := newSummary(key)
	if err != nil {
		return nil, err
	}
	for name, hash := range files {
		for _, at := range s.probes(name) {
			s.paths[at/8] |= 1 << (at % 8)
		}
		for _, at := range s.probes(name + "\x00" + hash) {
			s.contents[at/8] |= 1 << (at % 8)
		}
	}
	return s, nil
}

// Differing returns the files that both machines have with different contents, sorted.
func (s *Summary) Differing(files map[string]string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if s.has(&s.paths, name) && !s.has(&s.contents, name+"\x00"+files[name]) {
			names = append(names, name)
		}
	}
	return names
}

// MarshalText returns the summary as one word.
func (s *Summary) MarshalText() ([]byte, error) {
	return []byte(base64.RawURLEncoding.EncodeToString(slices.Concat(s.paths[:], s.contents[:], s.tag()))), nil
}

// ReadSummary reads the word of MarshalText. With another key, every file would seem to be missing.
func ReadSummary(text string, key []byte) (*Summary, error) {
	s, err := newSummary(key)
	if err != nil {
		return nil, err
	}
	content, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(content) != 2*summaryBytes+summaryTagBytes {
		return nil, errors.New("no summary of files")
	}
	copy(s.paths[:], content)
	copy(s.contents[:], content[summaryBytes:])
	if !hmac.Equal(content[2*summaryBytes:], s.tag()) {
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
	return s.mac([]byte("\x00filters\x00"), s.paths[:], s.contents[:])[:summaryTagBytes]
}

func (s *Summary) mac(parts ...[]byte) []byte {
	h := hmac.New(sha256.New, s.key)
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)
}
