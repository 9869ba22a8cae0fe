package capture

import (
	"fmt"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
)

// A version carries what its donor was built from, whichever call of the capture is lost, and says nothing
// where the donor came from a generic image.
func TestLineage(t *testing.T) {
	for _, lineage := range []string{"", "2026.03.01"} {
		for _, lost := range []int{-1, 5, 10, 12, 14, 16, 18, 20, 30, 40} {
			t.Run(fmt.Sprintf("%q lost %d", lineage, lost), func(t *testing.T) {
				s := newStage(t, func(s *stage) { s.lineage = lineage }).decide()
				s.lose = func(n int, _ string) memory.Outcome {
					if n == lost {
						return memory.CrashAfter()
					}
					return memory.Pass()
				}
				p := s.play()
				s.succeeded(p)
				found := false
				for _, image := range s.cloud.World().Images {
					if image.Version == p.Spec.Version {
						found = true
						if got, tagged := image.Tags[cloud.TagLineage]; got != lineage || tagged != (lineage != "") {
							t.Errorf("the version's lineage is %q (%t), want %q", got, tagged, lineage)
						}
					}
				}
				if !found {
					t.Error("there is no version")
				}
			})
		}
	}
}
