package plan

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// worlds returns all possible facts.
func worlds() (all []Facts) {
	for bits := range 1 << 2 {
		all = append(all, Facts{Back: bits&1 != 0, AsShown: bits&2 != 0})
	}
	return all
}

// TestNothingIsWrittenOverWhatNobodySaw: no write over an unseen recipe, no second write, and a completed change is
// done.
func TestNothingIsWrittenOverWhatNobodySaw(t *testing.T) {
	for _, f := range worlds() {
		switch a := Next(f); {
		case a == Write && (f.Back || !f.AsShown):
			t.Errorf("%+v is written", f)
		case (a == Done) != f.Back:
			t.Errorf("%+v: %s", f, a)
		case a == Stop && f.AsShown:
			t.Errorf("%+v stops", f)
		}
	}
}

// TestItEnds: from all facts the steps end, whichever write is lost.
func TestItEnds(t *testing.T) {
	for _, start := range worlds() {
		for lost := range 3 {
			f, writes := start, 0
			for Next(f) == Write {
				if writes++; writes > 2 {
					t.Fatalf("%+v: written again and again", start)
				}
				f.Back = writes-1 != lost
			}
			if end := Next(f); (end == Stop) != (start == Facts{}) {
				t.Errorf("%+v ends in %s", start, end)
			}
		}
	}
}

// TestTwoAtOnce: two processes in any order write the recipe once.
func TestTwoAtOnce(t *testing.T) {
	for order := range 1 << 4 {
		f, writes := Facts{AsShown: true}, 0
		for n := range 4 {
			who := order >> n & 1
			if a := Next(f); a == Write {
				writes++
				// The second process finds the result of the first.
				f = Facts{Back: true, AsShown: who == 0}
			}
		}
		if writes != 1 || Next(f) != Done {
			t.Errorf("order %04b: %d writes, then %s", order, writes, Next(f))
		}
	}
}

func TestMissing(t *testing.T) {
	change := cloud.RecipeChange{
		Adds:    []cloud.RecipeField{{Kind: "extension", Name: "cse"}},
		Missing: []cloud.RecipeField{{Kind: "customData"}, {Kind: "extension", Name: "join"}},
	}
	refusals := Missing(change, "kamino-system", "customData")
	if len(refusals) != 2 {
		t.Fatalf("%+v", refusals)
	}
	for i, want := range []string{"--custom-data-from SECRET[/KEY]", "--protected-settings-from join=SECRET[/KEY]"} {
		r := refusals[i]
		if r.Reason != PartMissing || !strings.Contains(r.Message, want) || !strings.Contains(r.Message, "kamino-system") || !strings.Contains(r.Message, "--incomplete") {
			t.Errorf("%+v does not say %s", r, want)
		}
	}
	if more := Missing(cloud.RecipeChange{Adds: change.Adds}, "kamino-system", "customData"); more != nil {
		t.Errorf("nothing is missing: %+v", more)
	}
}
