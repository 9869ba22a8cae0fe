package cloud

import "testing"

// TestALookIsContinuedUntilSomethingIsWritten holds what a pass may take over from an earlier one.
func TestALookIsContinuedUntilSomethingIsWritten(t *testing.T) {
	first := OneLook(t.Context())
	SightOf(first).Keep("pool", 1)
	next := ContinueLook(t.Context(), SightOf(first))
	if seen, found := SightOf(next).Seen("pool"); !found || seen != 1 {
		t.Errorf("the later pass sees %v, %t", seen, found)
	}
	if SightOf(next).IsWritten() {
		t.Error("nothing was written yet")
	}
	kept := SightOf(next).Copy()
	SightOf(next).Written()
	if _, found := kept.Seen("pool"); !found || kept.IsWritten() {
		t.Error("the write ends the copy of the look, too")
	}
	if !SightOf(next).Copy().IsWritten() || !SightOf(t.Context()).Copy().IsWritten() {
		t.Error("the copy of a look that has ended has reads to share")
	}
	if !SightOf(first).IsWritten() {
		t.Error("a write of the later pass does not end the look")
	}
	if _, found := SightOf(first).Seen("pool"); found {
		t.Error("what was read before a write is still there")
	}
	if !SightOf(t.Context()).IsWritten() {
		t.Error("a context without a look has reads to share")
	}
}
