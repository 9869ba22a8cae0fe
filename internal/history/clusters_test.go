package history

import (
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// of returns the image with another origin.
func of(origin cloud.Origin, image cloud.Image) cloud.Image {
	image.Origin = origin
	return image
}

// TestAVersionOfAnotherClusterIsLeftAlone: no decision promotes, tags or deletes the version, it is no target of a rollback, and its
// marks stop nothing. A version without a cluster's tag stays usable.
func TestAVersionOfAnotherClusterIsLeftAlone(t *testing.T) {
	const foreign = "2026.03.02"
	marked := of(cloud.Foreign, image(foreign, cloud.TagPrototype, "pool1-"+foreign, cloud.TagProof, "static/1/sha256:0", cloud.TagSuspect,
		"their nodes do not join",
		cloud.TagRolledBackAt, "2026-03-03T00:00:00Z"))
	h := historyOf("2026.03.03", of(cloud.Unmarked, image("2026.03.01")), marked, image("2026.03.03"))
	v := h.Find(foreign)
	if h.Prior != "2026.03.01" || v.Use != OtherCluster || !v.OtherCluster || !v.Keep || len(h.AutoRollbacks) > 0 ||
		Unacknowledged([]cloud.Image{marked}) != nil {
		t.Errorf("the version is %+v, the rollback target %q, automatic rollbacks %+v", v, h.Prior, h.AutoRollbacks)
	}
	_, rollback := h.Rollback(foreign, "bad")
	_, promote := h.Promote(foreign)
	_, retire := h.Retire(foreign)
	_, quarantine := h.Quarantine(foreign, "bad")
	_, unquarantine := h.Unquarantine(foreign)
	_, automatic := h.RollBackAutomatically(foreign, "their nodes do not join", time.Time{})
	for name, refusals := range map[string][]cloud.Refusal{
		"rollback": rollback, "promote": promote, "retire": retire, "quarantine": quarantine, "unquarantine": unquarantine, "automatic rollback": automatic,
	} {
		if reasons(refusals) != VersionOfOtherCluster {
			t.Errorf("%s: %v", name, refusals)
		}
	}
	if back, refusals := h.Rollback("", "bad"); refusals != nil || back.To != "2026.03.01" {
		t.Errorf("rollback to a version without a cluster's tag: %+v, %v", back, refusals)
	}
	if _, refusals := h.Retire("2026.03.01"); reasons(refusals) != VersionNeeded {
		t.Errorf("retire of the target: %v", refusals)
	}
}

// TestTheRecipeNamesAVersionOfAnotherCluster, as after a new cluster took over the pool: a person may leave the version. Kamino leaves its
// tags alone, and so does not roll back automatically.
func TestTheRecipeNamesAVersionOfAnotherCluster(t *testing.T) {
	h := historyOf("2026.03.03", image("2026.03.01"), of(cloud.Foreign, image("2026.03.03")))
	if v := h.Find("2026.03.03"); v.Use != Current {
		t.Errorf("the version is %+v", v)
	}
	if back, refusals := h.Rollback("", "bad"); refusals != nil || back.To != "2026.03.01" || len(back.Tags) > 0 {
		t.Errorf("rollback: %+v, %v", back, refusals)
	}
	if _, refusals := h.RollBackAutomatically("2026.03.01", "bad", time.Time{}); reasons(refusals) != VersionOfOtherCluster {
		t.Errorf("automatic rollback: %v", refusals)
	}
}
