package scan

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFilter compares the filter with a plain search, on words and data of few characters.
func TestFilter(t *testing.T) {
	words := []string{"a", "Ab", "abc", "abca", "b-c", "\x00a", "cc", "ccccc", "aB~"}
	f, random := newFilter(words), rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not for secrets
	type hit struct {
		word uint16
		end  int
	}
	for range 2000 {
		data := make([]byte, random.IntN(24))
		for i := range data {
			data[i] = "abcABC-~\x00z"[random.IntN(10)]
		}
		from := random.IntN(len(data) + 1)
		to := from + random.IntN(len(data)-from+1)
		got, want := map[hit]int{}, map[hit]int{}
		last := from
		f.find(data, from, to, func(word uint16, end int) {
			got[hit{word, end}]++
			if begin := end - len(words[word]); begin < last {
				t.Fatalf("%q: the word at %d comes after one at %d", data, begin, last)
			} else {
				last = begin
			}
		})
		for n, word := range words {
			for begin := from; begin < to; begin++ {
				if end := begin + len(word); end <= len(data) && bytes.Equal(bytes.ToLower(data[begin:end]), bytes.ToLower([]byte(word))) {
					want[hit{uint16(n), end}]++
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q, %d to %d (-want +got):\n%s", data, from, to, diff)
		}
	}
}
