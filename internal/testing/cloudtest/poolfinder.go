package cloudtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var poolFinderCases = []testCase{
	{"the pool list shows each pool once, with the ID from the instances", poolFinderShowsPools},
	{"listing pools changes nothing", poolFinderChangesNothing},
	{"a pool's ID is read in any case, and no other text is an ID", poolFinderReadsIDs},
}

func poolFinderShowsPools(t *testing.T, s suite) {
	all := got(s.p.PoolsInScope(t.Context(), s.Pool, s.Pool))(t)
	if n := len(slices.DeleteFunc(slices.Clone(all), func(id cloud.PoolID) bool { return id != s.Pool })); n != 1 {
		t.Errorf("pool %s is shown %d times among %v", s.Pool, n, all)
	}
}

func poolFinderChangesNothing(t *testing.T, s suite) {
	before := s.readAll(t)
	got(s.p.PoolsInScope(t.Context(), s.Pool))(t)
	wantSame(t, "listing changed the world (-before +after)", before, s.readAll(t))
}

func poolFinderReadsIDs(t *testing.T, s suite) {
	texts := []string{string(s.Pool)}
	if s.FoldsCase {
		texts = append(texts, strings.ToUpper(string(s.Pool)))
	}
	for _, text := range texts {
		if id, ok := s.p.ReadPool(text); !ok || id != s.Pool {
			t.Errorf("%s is read as %q (%t), not as %s", text, id, ok, s.Pool)
		}
	}
	for _, text := range []string{"", s.p.PoolName(s.Pool), string(s.a), "more/" + string(s.Pool)} {
		if id, ok := s.p.ReadPool(text); ok {
			t.Errorf("%q is read as pool %s", text, id)
		}
	}
	// A longer text is no ID, or the ID of another pool if names may be longer.
	longer := s.Pool + "/more"
	if id, ok := s.p.ReadPool(string(longer)); ok && id != longer {
		t.Errorf("%q is read as pool %s", longer, id)
	}
}
