package cloud

import (
	"context"
	"testing"
)

// TestALookIsContinuedUntilSomethingIsWritten holds what a pass may take over from an earlier one.
func TestALookIsContinuedUntilSomethingIsWritten(t *testing.T) {
	first := OneLook(context.Background())
	SightOf(first).Keep("pool", 1)
	next := ContinueLook(context.Background(), SightOf(first))
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
	if !SightOf(context.Background()).IsWritten() {
		t.Error("a context without a look has reads to share")
	}
}
