package plan

import (
	"os"
	"strings"
	"testing"
)

// returningDonors are the worlds at the begin of a capture with a returning donor.
func returningDonors() []model {
	var worlds []model
	for _, refused := range []bool{false, true} {
		for _, cordoned := range []bool{false, true} {
			for _, protected := range []bool{false, true} {
				w := model{cordonedBefore: cordoned, protectedBefore: protected}
				w.f = Facts{
					Refused:   refused,
					Donor:     DonorFacts{Node: NodeReady, Power: On, Cordoned: cordoned},
					Hold:      HoldFacts{Protected: protected},
					Promotion: PromotionFacts{MustRetire: true},
				}
				worlds = append(worlds, w.derived())
			}
		}
	}
	compares := worlds[0]
	compares.compares = true
	return append(worlds, compares)
}

// instantDonors are all donors in a cloud whose snapshots are taken at once, without refused worlds.
func instantDonors() []model {
	var worlds []model
	for _, w := range returningDonors() {
		if w.f.Refused || w.cordonedBefore != w.protectedBefore {
			continue
		}
		w.instant = true
		worlds = append(worlds, w.derived())
	}
	return worlds
}

// pioneers are donors that are patched first. Refused worlds are only in returningDonors.
func pioneers() []model {
	var worlds []model
	for _, w := range returningDonors() {
		if w.f.Refused || w.cordonedBefore != w.protectedBefore {
			continue
		}
		w.f.Donor.Patch, w.patchEnd = PatchWanted, PatchDone
		worlds = append(worlds, w.derived())
	}
	return worlds
}

// TestActionsOfWholeCapture lists the actions of a whole capture.
func TestActionsOfWholeCapture(t *testing.T) {
	const (
		taken     = "Look, Wait: Look, Reserve, Record, DeletePod, "
		patched   = "Protect, PatchDonor, "
		copied    = "Protect, Cordon, Evict, NodeOrder, Note, Generalize, Adopt, Wait: Proof, Believe, DeleteOrder, Wait: PowerOff, TakeSnapshot, "
		complete  = "Wait: Snapshot, "
		back      = "DeletePod, Return, Note, Start, Wait: Ready, Unprotect, Release, Forget, "
		published = "Publish, Wait: Image, DeleteSnapshot, SaveRecipe, Promote, Retire, Wait: Deletion, Succeed"
	)
	for _, c := range []struct {
		want string
		of   model
	}{
		{taken + copied + complete + back + published, model{}},
		{taken + patched + strings.TrimPrefix(copied, "Protect, ") + complete + back + published, model{f: Facts{Donor: DonorFacts{Patch: PatchWanted}}, patchEnd: PatchDone}},
		{taken + copied + back + complete + published, model{instant: true}},
	} {
		f := &c.of.f
		f.Donor.Node, f.Donor.Power, f.Promotion.MustRetire = NodeReady, On, true
		got, w := world().Course(Next, c.of.derived())
		if got != c.want {
			t.Errorf("order of a capture:\n got %s\nwant %s", got, c.want)
		}
		if !w.succeeded {
			t.Error("the capture did not succeed")
		}
	}
}

// TestTheCourseIsDocumented: the page on architecture lists the stages in their order.
func TestTheCourseIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/contribute/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rest := string(page)
	for _, s := range course {
		_, after, found := strings.Cut(rest, "| "+s.name+" |")
		if !found {
			t.Fatalf("the page does not list the stage %q after the stages before", s.name)
		}
		row, _, _ := strings.Cut(after, "\n")
		if parts := strings.Count(row, ",") + 1; parts != len(s.parts) {
			t.Errorf("the page lists %d parts of the stage %q, want %d", parts, s.name, len(s.parts))
		}
		rest = after
	}
}
