package history

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestUnprovenVersionIsNoTarget: rollbacks, unfinished rollbacks and promotions avoid a version without a
// proof. A version from before Kamino needs no proof for a rollback.
func TestUnprovenVersionIsNoTarget(t *testing.T) {
	lost := func(version, proof string) cloud.Image {
		return image(version, cloud.TagPrototype, "pool1-"+version, cloud.TagProof, proof)
	}
	for _, proof := range []string{"", "static", "static/1", "?"} {
		h := historyOf(v3, ours(v1), lost(v2, proof), ours(v3))
		if h.Prior != v1 {
			t.Errorf("proof %q: the prior version is %s", proof, h.Prior)
		}
		if r, refusals := h.Rollback("", "bad"); refusals != nil || r.To != v1 {
			t.Errorf("proof %q: it goes back to %s, %v", proof, r.To, refusals)
		}
		for way, refusals := range map[string][]cloud.Refusal{
			"rollback": second(h.Rollback(v2, "bad")), "promotion": second(h.Promote(v2)),
		} {
			if reasons(refusals) != VersionUnusable || !strings.Contains(refusals[0].Message, "has no proof") {
				t.Errorf("proof %q: %s: %v", proof, way, refusals)
			}
		}
		on := historyOf(v3, ours(v1), lost(v2, proof),
			image(v3, cloud.TagPrototype, "p", cloud.TagProof, "static/1/sha256:0", cloud.TagQuarantined, "bad", cloud.TagRolledBackTo, v2))
		if r, refusals := on.Rollback("", "bad"); refusals != nil || r.To != v1 {
			t.Errorf("proof %q: half-way, it goes on to %s, %v", proof, r.To, refusals)
		}
	}
	former := historyOf(v3, image(v2), ours(v3))
	if r, refusals := former.Rollback("", "bad"); refusals != nil || r.To != v2 {
		t.Errorf("what was there before: %s, %v", r.To, refusals)
	}
}

func second[T any](_ T, refusals []cloud.Refusal) []cloud.Refusal { return refusals }
