package history

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history/retention"
)

// These are the versions of the tests, oldest first.
const (
	v1 = "2026.03.01"
	v2 = "2026.03.02"
	v3 = "2026.03.03"
)

func image(version string, tags ...string) cloud.Image {
	image := cloud.Image{Version: version, State: cloud.Complete, Tags: map[string]string{}, Origin: cloud.Own}
	for i := 0; i+1 < len(tags); i += 2 {
		image.Tags[tags[i]] = tags[i+1]
	}
	return image
}

func in(state cloud.State, image cloud.Image) cloud.Image {
	image.State = state
	return image
}

// historyOf returns the history of pool1 with a recipe that names current.
func historyOf(current string, images ...cloud.Image) History {
	return Of(Facts{
		Pool:   cloud.Pool{ID: "p1", Name: "pool1", Recipe: cloud.Recipe{Image: "image/" + current, Version: current}},
		Images: images,
	})
}

func capturing(name, version string) v1alpha1.Prototype {
	p := v1alpha1.Prototype{}
	p.Name, p.Spec.Version, p.Spec.Donor.NodeName = name, version, "node-1"
	return p
}

func TestHistory(t *testing.T) {
	built := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	h := Of(Facts{
		Pool: cloud.Pool{ID: "p1", Name: "pool1", Recipe: cloud.Recipe{Image: "image/2", Version: v2}},
		Images: []cloud.Image{
			image(v1), image("2026.02.01"), image("2026.01.01"), image("2026.01.02"), in(cloud.Failed, image("2026.02.02")),
			image(v2, cloud.TagBuiltFrom, "node-1", cloud.TagLineage, v1, cloud.TagBuiltAt, built.Format(cloud.BuiltAtLayout)),
			image(v3, cloud.TagQuarantined, "bad", cloud.TagRolledBackTo, v2),
		},
		Members: []Member{{"c", v3}, {"b", v2}, {"a", v2}, {"d", ""}, {"e", "2025.12.31"}, {"f", "2026.01.02"}}, Counted: true, Keep: 3,
	})
	type row struct {
		Version, Donor, Lineage string
		Use                     Use
		Nodes                   []string
		Keep                    bool
		Reason                  retention.Reason
	}
	var rows []row
	for _, v := range h.Versions {
		rows = append(rows, row{v.Version, v.Donor, v.Lineage, v.Use, v.Nodes, v.Keep, v.Reason})
		if v.Why == "" {
			t.Errorf("version %s: nothing says why", v.Version)
		}
	}
	want := []row{
		{v3, "", "", Quarantined, []string{"c"}, true, retention.Newer},
		{v2, "node-1", v1, Current, []string{"a", "b"}, true, retention.Current},
		{v1, "", "", Prior, []string{}, true, retention.Prior},
		{"2026.02.02", "", "", Failed, []string{}, false, retention.Surplus},
		{"2026.02.01", "", "", Older, []string{}, true, retention.Recent},
		{"2026.01.02", "", "", Older, []string{"f"}, true, retention.InUse},
		{"2026.01.01", "", "", Older, []string{}, false, retention.Surplus},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if h.Prior != v1 || !h.Versions[1].BuiltAt.Equal(built) {
		t.Errorf("prior %q, built at %s", h.Prior, h.Versions[1].BuiltAt)
	}
	if diff := cmp.Diff([]string{"d", "e"}, h.Others); diff != "" {
		t.Errorf("others (-want +got):\n%s", diff)
	}
	if bad := h.Bad(); len(bad) != 1 || bad[0].Version != v3 {
		t.Errorf("bad: %+v", bad)
	}
}

func TestUncountedIsNotZero(t *testing.T) {
	h := historyOf(v1, image(v1))
	if h.Counted || h.Versions[0].Nodes != nil {
		t.Errorf("not counted, and the nodes are %v", h.Versions[0].Nodes)
	}
}

func TestKeepIsThatOfTheNewestCapture(t *testing.T) {
	old, young := capturing("a", v1), capturing("b", v2)
	old.CreationTimestamp, young.CreationTimestamp = metav1.Unix(1, 0), metav1.Unix(2, 0)
	old.Spec.Settings.Keep, young.Spec.Settings.Keep = 9, 5
	for _, c := range []struct {
		facts Facts
		want  int
	}{
		{Facts{}, 3},
		{Facts{Prototypes: []v1alpha1.Prototype{young, old}}, 5},
		{Facts{Prototypes: []v1alpha1.Prototype{young, old}, Keep: 7}, 7},
		{Facts{Keep: 1}, 2},
	} {
		if got := Of(c.facts).Keep; got != c.want {
			t.Errorf("%d are kept, want %d", got, c.want)
		}
	}
}

func TestCapturesInFlight(t *testing.T) {
	succeeded, failed, failing, going := capturing("a", v1), capturing("b", v1), capturing("c", v1), capturing("d", v1)
	succeeded.Status.Phase, failed.Status.Phase = v1alpha1.PhaseSucceeded, v1alpha1.PhaseFailed
	failing.Status.Failure = &v1alpha1.Failure{Reason: "X"}
	now := metav1.Now()
	going.DeletionTimestamp = &now
	flying := capturing("e", v2)
	h := Of(Facts{Prototypes: []v1alpha1.Prototype{succeeded, failed, failing, going, flying}})
	if diff := cmp.Diff([]Capture{{Prototype: "e", Version: v2, Donor: "node-1"}}, h.Captures); diff != "" {
		t.Errorf("captures (-want +got):\n%s", diff)
	}
}
