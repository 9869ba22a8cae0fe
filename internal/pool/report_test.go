package pool

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/history"
)

// TestChanges compares the newest versions, each with the version before. Versions without known differences are left out.
func TestChanges(t *testing.T) {
	h := history.History{Pool: "pool1"}
	for i, kernel := range []string{"6.5", "6.4", "6.4", "6.2", "6.1"} {
		h.Versions = append(h.Versions, history.Version{Version: fmt.Sprintf("2026.03.%02d", 9-i), Kernel: kernel})
	}
	want := map[string]string{
		"2026.03.09": "compared with version 2026.03.08: kernel 6.4 -> 6.5",
		"2026.03.07": "compared with version 2026.03.06: kernel 6.2 -> 6.4",
	}
	if diff := cmp.Diff(want, Changes(h, nil)); diff != "" {
		t.Error(diff)
	}
	if got := Changes(history.History{}, nil); len(got) > 0 {
		t.Errorf("without versions: %v", got)
	}
}
