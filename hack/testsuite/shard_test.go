package main

import (
	"fmt"
	"testing"
)

// sample is a list of tests of several packages, with very different times.
func sample(tests int) []Weighed {
	var out []Weighed
	for i := range tests {
		out = append(out, Weighed{
			Test:    Test{Package: fmt.Sprint("p", i/7), Name: fmt.Sprint("Test", i)},
			Seconds: float64((i * 37) % 101),
		})
	}
	return out
}

func TestEachTestIsInOneShard(t *testing.T) {
	for _, size := range []int{1, 2, 10, 168} {
		tests := sample(size)
		for count := 1; count <= 20; count++ {
			var joined []Weighed
			for k := range count {
				joined = append(joined, Shard{Index: k + 1, Count: count}.Of(tests)...)
			}
			if len(joined) != len(tests) {
				t.Fatalf("%d tests in %d shards: %d run", size, count, len(joined))
			}
			for i := range joined {
				if joined[i] != tests[i] {
					t.Fatalf("%d tests in %d shards: test %d is %v, want %v", size, count, i, joined[i], tests[i])
				}
			}
		}
	}
}

func TestShardsStayBelowTheLimit(t *testing.T) {
	tests := sample(168)
	tests[50].Seconds = 3 * shardSeconds // a long test alone
	count := Shards(tests)
	for k := range count {
		part := Shard{Index: k + 1, Count: count}.Of(tests)
		if len(part) == 0 || len(part) > 1 && Expected(part) > shardSeconds {
			t.Errorf("shard %d of %d has %d tests and takes %.0f s", k+1, count, len(part), Expected(part))
		}
	}
	if least := int(Expected(tests) / shardSeconds); count > 2*least {
		t.Errorf("%d shards, where %d would do if tests could be cut", count, least)
	}
}

func TestShardFlag(t *testing.T) {
	for text, want := range map[string]Shard{"": {1, 1}, "1/1": {1, 1}, "3/12": {3, 12}} {
		var got Shard
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0/3", "4/3", "3", "a/b", "1/2x", "-1/2", "1/0"} {
		var got Shard
		if err := got.Set(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}
