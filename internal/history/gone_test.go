package history

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

func TestGone(t *testing.T) {
	image := func(version string, state cloud.State, tags ...string) cloud.Image {
		i := cloud.Image{Version: version, State: state, Tags: map[string]string{}}
		for _, tag := range tags {
			i.Tags[tag] = "yes"
		}
		return i
	}
	for name, test := range map[string]struct {
		recipe cloud.Recipe
		images []cloud.Image
		says   string // empty: no problem
	}{
		"it is there":   {cloud.Recipe{Version: "2026.3.1"}, []cloud.Image{image("2026.03.01", cloud.Complete)}, ""},
		"another image": {cloud.Recipe{Image: "ubuntu"}, nil, ""},
		"back": {cloud.Recipe{Version: "2026.03.01"},
			[]cloud.Image{image("2026.02.01", cloud.Complete), image("2026.02.15", cloud.Complete)},
			"roll back to version 2026.02.15 with `kamino rollback pool1`"},
		"back, past a bad one": {cloud.Recipe{Version: "2026.03.01"},
			[]cloud.Image{image("2026.02.01", cloud.Complete), image("2026.02.15", cloud.Complete, cloud.TagQuarantined)}, "roll back to version 2026.02.01"},
		"being deleted": {cloud.Recipe{Version: "2026.03.01"},
			[]cloud.Image{image("2026.02.01", cloud.Complete), image("2026.03.01", cloud.Deleting)}, "roll back to version 2026.02.01"},
		"on": {cloud.Recipe{Version: "2026.03.01"},
			[]cloud.Image{image("2026.03.02", cloud.Complete), image("2026.03.03", cloud.Complete)}, "`kamino rollback pool1 --to 2026.03.02`"},
		"nothing left":           {cloud.Recipe{Version: "2026.03.01"}, nil, "capture a node"},
		"a definition with none": {cloud.Recipe{Latest: true}, nil, "without a latest version"},
		"a definition that hides": {cloud.Recipe{Latest: true},
			[]cloud.Image{{Version: "2026.03.02", State: cloud.Complete, Tags: ours("2026.03.02").Tags}}, "`kamino promote pool1 2026.03.02`"},
		"a definition that hides what no capture made": {cloud.Recipe{Latest: true}, []cloud.Image{image("2026.03.02", cloud.Complete)}, "capture a node"},
		"back, past one that lost its proof": {cloud.Recipe{Version: "2026.03.01"},
			[]cloud.Image{image("2026.02.01", cloud.Complete), image("2026.02.15", cloud.Complete, cloud.TagPrototype)}, "roll back to version 2026.02.01"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Gone(cloud.Pool{Name: "pool1", Recipe: test.recipe}, test.images)
			if got == nil != (test.says == "") {
				t.Fatalf("got %+v", got)
			}
			if got != nil && (got.Reason != CurrentVersionMissing || !strings.Contains(got.Message, test.says) ||
				!strings.Contains(got.Message, "cannot create new nodes")) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestRollbackFromDeletedVersion: the remedy of Gone is not refused.
func TestRollbackFromDeletedVersion(t *testing.T) {
	h := Of(Facts{Pool: cloud.Pool{Name: "pool1", Recipe: cloud.Recipe{Version: "2026.03.01"}}, Images: []cloud.Image{
		{Version: "2026.02.01", State: cloud.Complete}, {Version: "2026.04.01", State: cloud.Complete},
	}})
	if r, refusals := h.Rollback("", "bad"); refusals != nil || r.To != "2026.02.01" || len(r.Tags) > 0 {
		t.Errorf("%+v, %v", r, refusals)
	}
	if r, refusals := h.Rollback("2026.04.01", "bad"); refusals != nil || r.To != "2026.04.01" {
		t.Errorf("%+v, %v", r, refusals)
	}
	if h.Gone == nil {
		t.Error("the history does not say that the current version is gone")
	}
}
