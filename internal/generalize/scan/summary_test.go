package scan

import (
	"fmt"
	"slices"
	"testing"
)

// TestSummary compares two machines: configuration is equal, an identity differs, and some files are on one machine alone.
func TestSummary(t *testing.T) {
	own, other := map[string]string{}, map[string]string{}
	var want []string
	for i := range MaxSummarized / 2 {
		equal, differs, only := fmt.Sprintf("/opt/equal/%d", i), fmt.Sprintf("/opt/differs/%d", i), fmt.Sprintf("/opt/only/%d", i)
		own[equal], other[equal] = "a", "a"
		own[only] = "a"
		if i%10 == 0 {
			own[differs], other[differs] = "a", "b"
			want = append(want, differs)
		}
	}
	s, err := Summarize(other)
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.MarshalText()
	if err != nil || len(text) > 4096 {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	read := &Summary{}
	if err := read.UnmarshalText(text); err != nil {
		t.Fatal(err)
	}
	got := read.Differing(own)
	slices.Sort(want)
	missed, wrong := 0, 0
	for _, name := range want {
		if !slices.Contains(got, name) {
			missed++
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			wrong++
		}
	}
	// The filters are deterministic, so these figures do not change.
	if missed > len(want)/50 || wrong > len(own)/50 {
		t.Errorf("of %d different files %d are missed; %d of %d others are named", len(want), missed, wrong, len(own)-len(want))
	}
	t.Logf("%d of %d missed, %d of %d named by mistake", missed, len(want), wrong, len(own)-len(want))
}

func TestSummaryLimits(t *testing.T) {
	many := map[string]string{}
	for i := range MaxSummarized + 1 {
		many[fmt.Sprint(i)] = ""
	}
	if _, err := Summarize(many); err == nil {
		t.Error("too many files fit into a summary")
	}
	for _, text := range []string{"", "AAAA", "?"} {
		if err := (&Summary{}).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a summary", text)
		}
	}
}
