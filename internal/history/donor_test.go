package history

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

func TestRefuseDonor(t *testing.T) {
	for _, good := range []cloud.Image{{}, image(v1)} {
		if refusals := RefuseDonor("node-1", "pool1", good); refusals != nil {
			t.Errorf("built from %q: %v", good.Version, refusals)
		}
	}
	refusals := RefuseDonor("node-1", "pool1", image(v2, cloud.TagQuarantined, "panics"))
	if len(refusals) != 1 || refusals[0].Reason != BuiltFromQuarantined {
		t.Fatalf("refusals: %v", refusals)
	}
	for _, part := range []string{"node-1", v2, "panics", "kamino unquarantine pool1 " + v2} {
		if !strings.Contains(refusals[0].Message, part) {
			t.Errorf("%q does not say %q", refusals[0].Message, part)
		}
	}
}
