package v1alpha1_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestHolders: the reading of each kind, also from versions before kinds, and from future versions with more kinds.
func TestHolders(t *testing.T) {
	for _, c := range []struct {
		holder                      v1alpha1.Holder
		capture, replacement, known bool
		says                        string
	}{
		{v1alpha1.Holder{Kind: "Prototype", Name: "p", UID: "u"}, true, false, true, "prototype p"},
		{v1alpha1.Holder{Name: "p", UID: "u"}, true, false, true, "prototype p"},
		{v1alpha1.ReplacementHolder("pool1", "/pools/1", "2026.03.01"), false, true, true, "replacement pool1-2026.03.01"},
		{v1alpha1.Holder{Kind: "Pioneer", Name: "p", UID: "u"}, false, false, false, "pioneer p, a kind of holder unknown to this version of Kamino"},
	} {
		h := c.holder
		got := []any{h.Is(v1alpha1.HolderPrototype), h.Is(v1alpha1.HolderReplacement), h.Known(), h.String()}
		if diff := cmp.Diff([]any{c.capture, c.replacement, c.known, c.says}, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", h, diff)
		}
	}
}

// TestReplacementIdentityDependsOnPoolAndVersion, for any process and any spelling of the pool.
func TestReplacementIdentityDependsOnPoolAndVersion(t *testing.T) {
	one := v1alpha1.ReplacementHolder("pool1", "/resourceGroups/RG/pools/1", "2026.03.01")
	for _, c := range []struct {
		other v1alpha1.Holder
		same  bool
	}{
		{v1alpha1.ReplacementHolder("pool1", "/resourcegroups/rg/pools/1", "2026.03.01"), true},
		{v1alpha1.ReplacementHolder("pool1", "/resourceGroups/RG/pools/1", "2026.03.02"), false},
		{v1alpha1.ReplacementHolder("pool1", "/resourceGroups/other/pools/1", "2026.03.01"), false},
		{v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: one.Name, UID: one.UID}, false},
		{v1alpha1.Holder{Name: one.Name, UID: one.UID}, false},
		{v1alpha1.Holder{Kind: "Pioneer", Name: one.Name, UID: one.UID}, false},
	} {
		if one.Same(c.other) != c.same || c.other.Same(one) != c.same {
			t.Errorf("%+v and %+v are the same: %t, want %t", one, c.other, !c.same, c.same)
		}
	}
	before := v1alpha1.Holder{Name: "p", UID: "u"}
	if now := (v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "p", UID: "u"}); !now.Same(before) {
		t.Error("a capture is not known again in what a version before there were kinds has written")
	}
}

// TestAReplacementWithoutARebuild: a missing Rebuild does not hide the holder of the node.
func TestAReplacementWithoutARebuild(t *testing.T) {
	at := metav1.NewTime(time.Unix(1_800_000_000, 0).Local())
	text := fmt.Sprintf(`{"kind":"Replacement","name":"r","uid":"r","reservedAt":%q,"unschedulable":true}`, at.UTC().Format(time.RFC3339))
	for _, c := range []struct {
		name, reservation string
		want              *v1alpha1.Rebuild
	}{
		{"missing", text, &v1alpha1.Rebuild{StartedAt: at}},
		{"present", text[:len(text)-1] + `,"rebuild":{"from":"2","to":"1","bootID":"b","startedAt":null}}`, &v1alpha1.Rebuild{From: "2", To: "1", BootID: "b"}},
		{"a capture's", `{"name":"p","uid":"u"}`, nil},
	} {
		r, err := v1alpha1.ReservationOf(map[string]string{v1alpha1.ReservationAnnotation: c.reservation})
		if err != nil || r == nil {
			t.Fatalf("%s: %v, %v", c.name, r, err)
		}
		if diff := cmp.Diff(c.want, r.Rebuild); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
