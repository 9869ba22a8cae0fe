package scan

import "testing"

// TestEveryRuleCanBeRead: a rule is compiled when one of its words is first met, which may be on a donor. None may
// fail there that could have failed here.
func TestEveryRuleCanBeRead(t *testing.T) {
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
