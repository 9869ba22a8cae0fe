package cloud

import "testing"

// TestALookIsContinuedUntilSomethingIsWritten holds what a pass may take over from an earlier one.
func TestALookIsContinuedUntilSomethingIsWritten(t *testing.T) {
	first := WithReadCache(t.Context())
	ReadCacheOf(first).Put("pool", 1)
	next := ContinueReadCache(t.Context(), ReadCacheOf(first))
	if seen, found := ReadCacheOf(next).Get("pool"); !found || seen != 1 {
		t.Errorf("the later pass sees %v, %t", seen, found)
	}
	if ReadCacheOf(next).IsInvalid() {
		t.Error("nothing was written yet")
	}
	kept := ReadCacheOf(next).Copy()
	ReadCacheOf(next).Invalidate()
	if _, found := kept.Get("pool"); !found || kept.IsInvalid() {
		t.Error("the write ends the copy of the look, too")
	}
	if !ReadCacheOf(next).Copy().IsInvalid() || !ReadCacheOf(t.Context()).Copy().IsInvalid() {
		t.Error("the copy of a look that has ended has reads to share")
	}
	if !ReadCacheOf(first).IsInvalid() {
		t.Error("a write of the later pass does not end the look")
	}
	if _, found := ReadCacheOf(first).Get("pool"); found {
		t.Error("what was read before a write is still there")
	}
	if !ReadCacheOf(t.Context()).IsInvalid() {
		t.Error("a context without a look has reads to share")
	}
}
