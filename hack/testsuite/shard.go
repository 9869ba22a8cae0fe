package main

import (
	"fmt"
	"strings"
)

const (
	// defaultSeconds is what a test is expected to take that was not measured yet.
	defaultSeconds = 20
	// startSeconds is what each package of a shard takes before its first test: linking, and a sandbox of its own.
	startSeconds = 20
	// shardSeconds is the limit of the time that one shard is expected to take.
	shardSeconds = 300
)

// Weighed is a test with the time that it is expected to take.
type Weighed struct {
	Test
	// Seconds are wall time: the test's share of its package's.
	Seconds float64
}

// testKey names one test.
type testKey struct{ Package, Name string }

// Weigh gives tests their expected times.
func Weigh(tests []Test, seconds map[testKey]float64) []Weighed {
	out := make([]Weighed, 0, len(tests))
	for _, t := range tests {
		expected, known := seconds[testKey{t.Package, t.Name}]
		if !known {
			expected = defaultSeconds
		}
		out = append(out, Weighed{Test: t, Seconds: expected})
	}
	return out
}

// Shard is one of Count parts of a list. The zero Shard is invalid.
type Shard struct{ Index, Count int }

// String implements flag.Value: k/n.
func (s *Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// Set implements flag.Value. Empty is the whole.
func (s *Shard) Set(text string) error {
	if text == "" {
		*s = Shard{Index: 1, Count: 1}
		return nil
	}
	var got Shard
	var more string
	if n, _ := fmt.Sscanf(text, "%d/%d%s", &got.Index, &got.Count, &more); n != 2 || got.Index < 1 || got.Index > got.Count {
		return fmt.Errorf("%q is not a shard: want k/n with k from 1 to n, for example 2/9", text)
	}
	*s = got
	return nil
}

// Of returns the shard's tests. Shards are parts of the list in its order, so that few packages are in two shards. Each
// test is in exactly one shard. The longest shard is as short as possible.
func (s Shard) Of(tests []Weighed) []Weighed {
	low, high := 0.0, Expected(tests)
	for high-low > 0.1 {
		if middle := (low + high) / 2; len(cut(tests, middle)) > s.Count {
			low = middle
		} else {
			high = middle
		}
	}
	parts := cut(tests, high)
	if s.Index > len(parts) {
		return nil
	}
	return parts[s.Index-1]
}

// cut divides a list into parts. Each part is expected to take limit seconds at most, or is one test.
func cut(tests []Weighed, limit float64) (parts [][]Weighed) {
	for begin := 0; begin < len(tests); {
		end := begin + 1
		for end < len(tests) && Expected(tests[begin:end+1]) <= limit {
			end++
		}
		parts, begin = append(parts, tests[begin:end]), end
	}
	return parts
}

// Expected is how long tests take one after the other, with the start of each package, in seconds.
func Expected(tests []Weighed) (total float64) {
	for i, t := range tests {
		total += max(t.Seconds, 0.01)
		if i == 0 || tests[i-1].Package != t.Package {
			total += startSeconds
		}
	}
	return total
}

// pattern is the argument of `go test -run` for these tests of one package.
func pattern(tests []string) string { return "^(" + strings.Join(tests, "|") + ")$" }

// Shards is the least number of shards each of which is expected to stay within shardSeconds, or to hold one test alone.
func Shards(tests []Weighed) int { return max(len(cut(tests, shardSeconds)), 1) }
