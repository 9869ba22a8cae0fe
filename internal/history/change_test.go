package history

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

func reasons(refusals []cloud.Refusal) string {
	names := make([]string, len(refusals))
	for i, r := range refusals {
		names[i] = r.Reason
	}
	return strings.Join(names, ",")
}

// bad returns a version that a rollback to version to has left or is about to leave.
func bad(version, to string) cloud.Image {
	return image(version, cloud.TagQuarantined, "was bad", cloud.TagRolledBackTo, to)
}

func TestRollback(t *testing.T) {
	quarantines := func(why, to string) map[string]string {
		return map[string]string{cloud.TagQuarantined: why, cloud.TagRolledBackTo: to}
	}
	for _, c := range []struct {
		name   string
		h      History
		to     string
		want   Rollback
		refuse string
	}{
		{"to the prior one", historyOf(v3, image(v1), image(v2), image(v3)), "",
			Rollback{From: v3, To: v2, Tags: quarantines("why", v2)}, ""},
		{"past a quarantined one", historyOf(v3, image(v1), image(v2, cloud.TagQuarantined, "x"), image(v3)), "",
			Rollback{From: v3, To: v1, Tags: quarantines("why", v1)}, ""},
		{"past one in work and one that failed",
			historyOf("2026.03.04", image(v1), in(cloud.Pending, image(v2)), in(cloud.Failed, image(v3)), image("2026.03.04")), "",
			Rollback{From: "2026.03.04", To: v1, Tags: quarantines("why", v1)}, ""},
		{"to a named one", historyOf(v3, image(v1), image(v2), image(v3)), v1,
			Rollback{From: v3, To: v1, Tags: quarantines("why", v1)}, ""},
		{"a name as the cloud writes it", historyOf(v3, image(v1), image(v3)), "2026.3.1",
			Rollback{From: v3, To: v1, Tags: quarantines("why", v1)}, ""},
		{"one that was broken off goes on to where it was going, and keeps its reason", historyOf(v3, image(v1), image(v2), bad(v3, v1)), "",
			Rollback{From: v3, To: v1, Tags: quarantines("was bad", v1)}, ""},
		{"one that was broken off may be sent elsewhere", historyOf(v3, image(v1), image(v2), bad(v3, v1)), v2,
			Rollback{From: v3, To: v2, Tags: quarantines("was bad", v2)}, ""},
		{"one that was broken off, and its target is bad too", historyOf(v3, image(v1), image(v2, cloud.TagQuarantined, "x"), bad(v3, v2)), "",
			Rollback{From: v3, To: v1, Tags: quarantines("was bad", v1)}, ""},
		{"again is done", historyOf(v2, image(v1), image(v2), bad(v3, v2)), "", Rollback{From: v3, To: v2, Done: true}, ""},
		{"again to the same is done", historyOf(v2, image(v1), image(v2), bad(v3, v2)), v2, Rollback{From: v3, To: v2, Done: true}, ""},
		{"further back is named", historyOf(v2, image(v1), image(v2), bad(v3, v2)), v1,
			Rollback{From: v2, To: v1, Tags: quarantines("why", v1)}, ""},
		{"a newer one takes it back, and quarantines nothing", historyOf(v1, image(v1), image(v2)), v2, Rollback{From: v1, To: v2}, ""},
		{"from one that is gone", historyOf(v3, image(v1), image(v2)), "", Rollback{From: v3, To: v2}, ""},
		{"a newer version that was never used", historyOf(v2, image(v1), image(v2), image(v3)), "",
			Rollback{From: v2, To: v1, Tags: quarantines("why", v1)}, ""},
		{"no prior", historyOf(v1, image(v1)), "", Rollback{}, NoPrior},
		{"no good prior", historyOf(v2, image(v1, cloud.TagQuarantined, "x"), image(v2)), "", Rollback{}, NoPrior},
		{"a recipe of another image", historyOf("", image(v1), image(v2)), v1, Rollback{}, RecipeNotOurs},
		{"an absent one", historyOf(v2, image(v1), image(v2)), "2026.02.28", Rollback{}, VersionNotFound},
		{"nonsense", historyOf(v2, image(v1), image(v2)), "latest", Rollback{}, VersionNotFound},
		{"a quarantined one", historyOf(v2, image(v1, cloud.TagQuarantined, "x"), image(v2)), v1, Rollback{}, VersionQuarantined},
		{"one in work", historyOf(v2, in(cloud.Pending, image(v1)), image(v2)), v1, Rollback{}, VersionUnusable},
		{"one that goes", historyOf(v2, in(cloud.Deleting, image(v1)), image(v2)), v1, Rollback{}, VersionUnusable},
		{"the current one", historyOf(v2, image(v1), image(v2)), v2, Rollback{}, VersionNeeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, refusals := c.h.Rollback(c.to, "why")
			if reasons(refusals) != c.refuse {
				t.Fatalf("refused for %q, want %q", reasons(refusals), c.refuse)
			}
			if c.refuse == "" {
				c.want.Pool = "pool1"
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("rollback (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACaptureInFlight(t *testing.T) {
	h := Of(Facts{
		Pool:       cloud.Pool{Name: "pool1", Recipe: cloud.Recipe{Version: v2}},
		Images:     []cloud.Image{image("2026.02.28"), image(v1), image(v2), in(cloud.Pending, image(v3))},
		Prototypes: []v1alpha1.Prototype{capturing("pool1-x", v3)},
	})
	_, refusals := h.Rollback("", "why")
	if reasons(refusals) != CaptureInFlight || !strings.Contains(refusals[0].Message, "kamino cancel pool1-x") {
		t.Errorf("a rollback is refused for %+v", refusals)
	}
	if _, refusals := h.Retire(v3); reasons(refusals) != CaptureInFlight {
		t.Errorf("retiring what is being made is refused for %+v", refusals)
	}
	if _, refusals := h.Retire("2026.02.28"); refusals != nil {
		t.Errorf("retiring an old one is refused for %+v", refusals)
	}
	if m, refusals := h.Quarantine(v3, "why"); refusals != nil || m.Done {
		t.Errorf("what is being made can't be quarantined: %+v %+v", m, refusals)
	}
}

// TestAVersionThatAwaitsItsPromotion: a capture that waits for a promotion blocks no change, and its complete version
// can be promoted.
func TestAVersionThatAwaitsItsPromotion(t *testing.T) {
	for phase, waits := range map[v1alpha1.Phase]bool{
		v1alpha1.PhaseAwaitingPromotion: true, v1alpha1.PhaseRunningTrial: false, v1alpha1.PhasePromoting: false, v1alpha1.PhasePublishing: false,
	} {
		p := capturing("pool1-x", v3)
		p.Status.Phase = phase
		waiting := ours(v3)
		waiting.Tags[cloud.TagTrial] = "Passed 2026-03-01T10:00:00Z"
		h := Of(Facts{
			Pool:   cloud.Pool{Name: "pool1", Recipe: cloud.Recipe{Version: v2, Image: v2}},
			Images: []cloud.Image{ours(v1), ours(v2), waiting}, Prototypes: []v1alpha1.Prototype{p},
		})
		promotion, refusals := h.Promote(v3)
		switch {
		case !waits && reasons(refusals) != CaptureInFlight:
			t.Errorf("a promotion in phase %s is refused for %+v", phase, refusals)
		case waits && (refusals != nil || promotion.Version != v3 || promotion.Trial != waiting.Tags[cloud.TagTrial]):
			t.Errorf("a version that awaits its promotion: %+v, refused for %+v", promotion, refusals)
		}
		// A trial in the pool points the recipe at the version for some time.
		h.Recipe = cloud.Recipe{Version: v3, Image: v3}
		if open, refusals := h.Promote(v3); phase == v1alpha1.PhaseRunningTrial && (open.Done || reasons(refusals) != CaptureInFlight) {
			t.Errorf("what the recipe names for a trial is promoted already: %+v, refused for %+v", open, refusals)
		} else if phase == v1alpha1.PhasePromoting && !open.Done {
			t.Errorf("what the recipe names is refused for %+v", refusals)
		}
		h.Recipe = cloud.Recipe{Version: v2, Image: v2}
		if _, refusals := h.Rollback("", "why"); waits != (refusals == nil) {
			t.Errorf("a rollback in phase %s is refused for %+v", phase, refusals)
		}
	}
}

// TestRetireForgetsAQuarantine: Forgets is true if the deletion makes more nodes eligible as donors.
func TestRetireForgetsAQuarantine(t *testing.T) {
	all := []cloud.Image{image("2026.02.28", cloud.TagQuarantined, "x"), image(v1), image(v2), image(v3, cloud.TagQuarantined, "x")}
	for version, want := range map[string]bool{"2026.02.28": false, v3: true} {
		if got, refusals := historyOf(v2, all...).Retire(version); refusals != nil || got.Forgets != want {
			t.Errorf("%s: forgets %t, want %t; %v", version, got.Forgets, want, refusals)
		}
	}
}

func TestRetire(t *testing.T) {
	all := []cloud.Image{image("2026.02.28"), image(v1), image(v2), image(v3, cloud.TagQuarantined, "x")}
	for _, c := range []struct {
		name    string
		h       History
		version string
		refuse  string
		done    bool
	}{
		{"an old one", historyOf(v2, all...), "2026.02.28", "", false},
		{"a quarantined one", historyOf(v2, all...), v3, "", false},
		{"one that failed", historyOf(v2, append(all, in(cloud.Failed, image("2026.02.01")))...), "2026.02.01", "", false},
		{"one that goes already", historyOf(v2, append(all, in(cloud.Deleting, image("2026.02.01")))...), "2026.02.01", "", true},
		{"the current one", historyOf(v2, all...), v2, VersionNeeded, false},
		{"the prior one", historyOf(v2, all...), v1, VersionNeeded, false},
		{"where an unfinished rollback goes", historyOf(v3, image(v1), image(v2), bad(v3, v1)), v1, VersionNeeded, false},
		{"an absent one", historyOf(v2, all...), "2026.01.01", VersionNotFound, false},
		{"one in work", historyOf(v2, append(all, in(cloud.Pending, image("2026.02.01")))...), "2026.02.01", VersionUnusable, false},
		{"a recipe of another image", counted(historyOf("", all...)), "2026.02.28", "", false},
		{"the last one, after a restore", counted(historyOf("", ours(v1))), v1, "", false},
		{"the last one, after a restore, still with nodes", run(counted(historyOf("", ours(v1))), v1, "n"), v1, RecipeNotOurs, false},
		{"one that no recipe ever named", counted(historyOf("", ours("2026.02.28"), image(v1))), "2026.02.28", "", false},
		{"one that a node was built from", run(counted(historyOf("", ours("2026.02.28"), image(v1))), "2026.02.28", "n"), "2026.02.28", RecipeNotOurs, false},
		{"one with uncounted nodes", historyOf("", ours("2026.02.28")), "2026.02.28", RecipeNotOurs, false},
		{"one without a proof", counted(historyOf("", image("2026.02.28", cloud.TagPrototype, "p"))), "2026.02.28", "", false},
		{"ours that failed", counted(historyOf("", in(cloud.Failed, image("2026.02.28", cloud.TagPrototype, "p")))), "2026.02.28", "", false},
		{"a recipe of a version that is gone", historyOf("2026.03.09", all...), "2026.02.28", RecipeNotOurs, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, refusals := c.h.Retire(c.version)
			if reasons(refusals) != c.refuse || got.Done != c.done {
				t.Errorf("refused for %q, done %t; want %q, %t", reasons(refusals), got.Done, c.refuse, c.done)
			}
			if c.refuse == "" && got.Version != c.version {
				t.Errorf("retires %q", got.Version)
			}
		})
	}
}

// ours returns a version that a capture created.
func ours(version string) cloud.Image {
	return image(version, cloud.TagPrototype, "pool1-"+version, cloud.TagProof, "static/1/sha256:0")
}

// run sets the nodes that were built from a version.
func run(h History, version string, nodes ...string) History {
	h.Find(version).Nodes = nodes
	return h
}

func counted(h History) History {
	h.Counted = true
	return h
}

// TestWayIn: the refusal for a foreign recipe names the command that points the recipe at a version.
func TestWayIn(t *testing.T) {
	for want, h := range map[string]History{
		"to use the newest usable version, run `kamino promote pool1 2026.03.02`": historyOf("", ours("2026.02.28"), ours(v2), bad(v3, v1)),
		"capture a node, or write a version into the recipe manually":             historyOf("", image(v1)),
	} {
		_, refusals := h.Rollback("", "why")
		if reasons(refusals) != RecipeNotOurs || !strings.HasSuffix(refusals[0].Message, want) {
			t.Errorf("rollback is refused with %+v, not with %q", refusals, want)
		}
	}
}

func TestQuarantineAndItsEnd(t *testing.T) {
	h := historyOf(v3, image(v1), image(v2), image(v3))
	m, refusals := h.Quarantine(v2, "why")
	if refusals != nil || m.Done || m.Prior != v1 || m.Tags[cloud.TagQuarantined] != "why" {
		t.Errorf("quarantine of the prior one: %+v %+v", m, refusals)
	}
	if _, refusals := h.Quarantine(v3, "why"); reasons(refusals) != VersionNeeded || !strings.Contains(refusals[0].Message, "kamino rollback pool1") {
		t.Errorf("quarantine of the current one is refused for %+v", refusals)
	}
	if _, refusals := h.Quarantine("2026.01.01", "why"); reasons(refusals) != VersionNotFound {
		t.Errorf("quarantine of none is refused for %+v", refusals)
	}
	h = historyOf(v1, image(v1), bad(v2, v1))
	if m, _ := h.Quarantine(v2, "was bad"); !m.Done {
		t.Error("the same quarantine twice is not done")
	}
	m, refusals = h.Unquarantine(v2)
	if want := map[string]string{cloud.TagQuarantined: "", cloud.TagRolledBackTo: ""}; refusals != nil || m.Done || !maps.Equal(m.Tags, want) {
		t.Errorf("release: %+v %+v", m, refusals)
	}
	if m, _ := h.Unquarantine(v1); !m.Done {
		t.Error("releasing what is free is not done")
	}
}

func TestCheckReason(t *testing.T) {
	for reason, ok := range map[string]bool{"": false, "bad": true, strings.Repeat("é", MaxReason): true, strings.Repeat("é", MaxReason+1): false} {
		if got := CheckReason(reason); (got == "") != ok {
			t.Errorf("reason of %d bytes: %q", len(reason), got)
		}
	}
}
