package report

import (
	"testing"
	"time"
)

// TestExposureOfOneNode: time counts from the newest patch, from the node's creation, or from the beginning of the report,
// whichever is latest.
func TestExposureOfOneNode(t *testing.T) {
	for name, test := range map[string]struct {
		node   NodeFacts
		newest time.Time
		want   string
	}{
		"patched after the newest version": {
			node:   NodeFacts{Created: day(1), PatchedAt: day(29)},
			newest: day(20),
			want:   "0",
		},
		"patched with the newest version": {
			node:   NodeFacts{Created: day(1), PatchedAt: day(20)},
			newest: day(20),
			want:   "0",
		},
		"patched before": {
			node:   NodeFacts{Created: day(1), PatchedAt: day(19)},
			newest: day(20),
			want:   "240",
		},
		"created after the newest patch": {
			node:   NodeFacts{Created: day(25), PatchedAt: day(19)},
			newest: day(20),
			want:   "120",
		},
		"of unknown age": {
			node:   NodeFacts{PatchedAt: day(19)},
			newest: day(20),
			want:   "240",
		},
		"missing the patch since before the report": {
			node:   NodeFacts{Created: day(-90), PatchedAt: day(-80)},
			newest: day(-10),
			want:   "720",
		},
		"of a version of that patch": {
			node:   NodeFacts{Version: "2026.03.21", Created: day(25)},
			newest: day(20),
			want:   "0",
		},
		"of a version with a later patch in place": {
			node:   NodeFacts{Version: "2026.03.02", Created: day(3), PatchedAt: day(20)},
			newest: day(20),
			want:   "0",
		},
		"patched with the newest version, half a day earlier": {
			node:   NodeFacts{Created: day(1), PatchedAt: day(20).Add(-samePatch)},
			newest: day(20),
			want:   "0",
		},
		"missing two patches": {
			node:   NodeFacts{Created: day(-9), PatchedAt: day(-8)}, // the other version has the patch of day 0
			newest: day(20),
			want:   "720",
		},
		"waiting for its reboot": {
			node:   NodeFacts{Created: day(-9), PatchedAt: day(10), PendingSince: day(20)},
			newest: day(20),
			want:   "240",
		},
		"waiting for the reboot after its first patch": {
			node:   NodeFacts{Created: day(-9), PendingSince: day(25)},
			newest: day(20),
			want:   "120",
		},
		"with a patch in the future": {
			node:   NodeFacts{Created: day(1), PatchedAt: day(40)},
			newest: day(20),
			want:   "0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts()
			f.Versions[1].PatchedAt = test.newest
			f.Nodes = []NodeFacts{test.node}
			expect(t, f, "exposure", test.want, "annotations of nodes")
		})
	}
}
