package trial

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestMark(t *testing.T) {
	at := time.Date(2026, 11, 22, 11, 0, 0, 0, time.FixedZone("CET", 3600))
	for _, result := range []Result{Passed, Failed} {
		mark := Mark(result, at)
		if want := string(result) + " 2026-11-22T10:00:00Z"; mark != want {
			t.Errorf("the mark is %q, want %q", mark, want)
		}
		if got, when := Read(mark); got != result || !when.Equal(at) {
			t.Errorf("%q reads as %q at %s", mark, got, when)
		}
	}
}

// TestInvalidMark: an invalid mark is no result, so that no promotion uses the mark.
func TestInvalidMark(t *testing.T) {
	for _, mark := range []string{
		"", "Passed", "Passed yesterday", "passed 2026-11-22T10:00:00Z", "Inconclusive 2026-11-22T10:00:00Z", "Pending 2026-11-22T10:00:00Z",
		" 2026-11-22T10:00:00Z", "Passed  2026-11-22T10:00:00Z",
	} {
		if got, when := Read(mark); got != "" || !when.IsZero() {
			t.Errorf("%q reads as %q at %s", mark, got, when)
		}
	}
}

func TestBlame(t *testing.T) {
	for _, message := range []string{"Ready: node trial-0 is not Ready", "", strings.Repeat("ä", 300)} {
		text := Blame(message)
		if len(text) > 256 || !utf8.ValidString(text) {
			t.Errorf("no cloud takes %q", text)
		}
		got, ok := Blamed(text)
		if !ok || !strings.HasPrefix(message, got) || len(message) < 200 && got != message {
			t.Errorf("%q was blamed for %q", text, got)
		}
	}
	for _, other := range []string{"", "bad", "a trial: no", "join health: two nodes failed to join"} {
		if _, ok := Blamed(other); ok {
			t.Errorf("no trial has said %q", other)
		}
	}
}

// TestTheWholeMessage: the record of another failure is no message of this one.
func TestTheWholeMessage(t *testing.T) {
	long := "Ready: " + strings.Repeat("ä", 300)
	blamed, _ := Blamed(Blame(long))
	for recorded, want := range map[string]string{long: long, "": blamed, "Network: no": blamed} {
		if got := Whole(blamed, recorded); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Whole("", long); got != "" {
		t.Errorf("without a tag: %q", got)
	}
}

func TestUnseen(t *testing.T) {
	for looks, want := range map[int]Result{1: Pending, 3: Pending, 4: Inconclusive, 9: Inconclusive} {
		if v := Unseen(looks, "no answer"); v.Result != want || !strings.HasSuffix(v.Message, ": no answer") {
			t.Errorf("%d failed looks come to %s: %s", looks, v.Result, v.Message)
		}
	}
}
