package scan

import "testing"

// TestReadRuleset compiles all rules. The scan compiles a rule at the first match of a word, perhaps on a donor.
func TestReadRuleset(t *testing.T) {
	r := ruleSet()
	if r.err != nil {
		t.Fatal(r.err)
	}
	if len(r.forms) < 100 {
		t.Fatalf("only %d rules: the set can't be right", len(r.forms))
	}
	for _, form := range r.forms {
		if form.match() == nil {
			t.Errorf("%s has no expression", form.what)
		}
	}
}
