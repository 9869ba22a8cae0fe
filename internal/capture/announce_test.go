package capture

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
)

// heard keeps what was recorded, as "Warning Reason: note".
type heard []string

// Eventf implements events.EventRecorder.
func (h *heard) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	*h = append(*h, fmt.Sprintf("%s %s: %s", kind, reason, fmt.Sprintf(note, args...)))
}

// TestACredentialThatIsTakenAwayIsAnnouncedOnce takes it away while the image is made, for several passes.
func TestACredentialThatIsTakenAwayIsAnnouncedOnce(t *testing.T) {
	s := newStage(t).decide()
	var events heard
	s.engine.Recorder = &events
	lost, begun := 0, false
	s.lose = func(_ int, what string) memory.Outcome {
		begun = begun || strings.HasPrefix(what, "EnsureImage")
		if begun && lost < 5 && strings.HasPrefix(what, "Image") {
			lost++
			return memory.FailBefore(cloud.Unauthenticated)
		}
		return memory.Pass()
	}
	s.succeeded(s.play())
	told := 0
	for _, event := range events {
		if strings.HasPrefix(event, "Warning Unauthenticated: ") && strings.HasSuffix(event, "once this is mended") {
			told++
		}
	}
	if lost != 5 || told != 1 {
		t.Errorf("the credential was missed %d times and %d events say so, want 5 and 1:\n%s", lost, told, strings.Join(events, "\n"))
	}
}
