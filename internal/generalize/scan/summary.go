package scan

import (
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
)

// Summary is a set of files of one machine, small enough for a message to another machine: two Bloom filters, of the paths
// and of the paths with their contents. A file may be in a filter by mistake, and is never missing.
type Summary struct{ paths, contents [summaryBytes]byte }

// Summarize returns the summary of files with their SHA-256, by path.
func Summarize(files map[string]string) (*Summary, error) {
	if len(files) > MaxSummarized {
		return nil, fmt.Errorf("%d files of unknown origin are too many for a comparison, and the limit is %d: exempt directories with a reason", len(files), MaxSummarized)
	}
	s := &Summary{}
	for name, hash := range files {
		for _, at := range probes(name) {
			s.paths[at/8] |= 1 << (at % 8)
		}
		for _, at := range probes(name + "\x00" + hash) {
			s.contents[at/8] |= 1 << (at % 8)
		}
	}
	return s, nil
}

// Differing returns the files that both machines have with different contents, sorted.
func (s *Summary) Differing(files map[string]string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if has(&s.paths, name) && !has(&s.contents, name+"\x00"+files[name]) {
			names = append(names, name)
		}
	}
	return names
}

// MarshalText returns the summary as one word.
func (s *Summary) MarshalText() ([]byte, error) {
	return []byte(base64.RawURLEncoding.EncodeToString(append(s.paths[:], s.contents[:]...))), nil
}

// UnmarshalText reads the word of MarshalText.
func (s *Summary) UnmarshalText(text []byte) error {
	content, err := base64.RawURLEncoding.DecodeString(string(text))
	if err != nil || len(content) != 2*summaryBytes {
		return errors.New("no summary of files")
	}
	copy(s.paths[:], content)
	copy(s.contents[:], content[summaryBytes:])
	return nil
}

func has(filter *[summaryBytes]byte, key string) bool {
	return !slices.ContainsFunc(probes(key), func(at uint32) bool { return filter[at/8]&(1<<(at%8)) == 0 })
}

// probes are the bits of a key.
func probes(key string) []uint32 {
	sum := sha256.Sum256([]byte(key))
	at := make([]uint32, summaryProbes)
	for i := range at {
		at[i] = binary.BigEndian.Uint32(sum[4*i:]) % (8 * summaryBytes)
	}
	return at
}
