package cloud

import "testing"

// TestALookIsContinuedUntilSomethingIsWritten holds what a pass may take over from an earlier one.
func TestALookIsContinuedUntilSomethingIsWritten(t *testing.T) {
	first := OneLook(t.Context())
	SightOf(first).Keep("pool", 1)
	next := ContinueLook(t.Context(), SightOf(first))
	if kept, found := SightOf(next).Seen("pool"); !found || kept != 1 {
		t.Errorf("the later pass sees %v, %t", kept, found)
	}
	if SightOf(next).IsWritten() {
		t.Error("nothing was written yet")
	}
	SightOf(next).Written()
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
