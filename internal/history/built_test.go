package history

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestBuiltAt: the tag and the Prototype give the same time. The fallbacks have one order.
func TestBuiltAt(t *testing.T) {
	day := time.Date(2026, 1, 9, 0, 0, 0, 0, time.UTC)
	made, tagged := day.Add(7*time.Hour), day.Add(4*time.Hour+5*time.Minute)
	for _, test := range []struct {
		name  string
		image cloud.Image
		want  time.Time
	}{
		{"the tag counts most", cloud.Image{Version: "2026.01.09", CreatedAt: made,
			Tags: map[string]string{cloud.TagBuiltAt: "2026-01-09 04:05:00.000000"}}, tagged},
		{"a tag that can't be read", cloud.Image{Version: "2026.01.09", CreatedAt: made, Tags: map[string]string{cloud.TagBuiltAt: "yesterday"}}, made},
		{"no tag", cloud.Image{Version: "2026.01.09", CreatedAt: made}, made},
		{"nothing but a name", cloud.Image{Version: "2026.01.09"}, day},
		{"a name that is no day", cloud.Image{Version: "1.0"}, time.Time{}},
		{"no version", cloud.Image{}, time.Time{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := BuiltAt(test.image); !got.Equal(test.want) {
				t.Errorf("built at %v, want %v", got, test.want)
			}
		})
	}
}

func TestPrototypeAndTagHaveEqualTime(t *testing.T) {
	at := time.Date(2026, 1, 9, 4, 5, 6, 7000, time.UTC)
	for _, test := range []struct {
		name       string
		proof, now time.Time
		want       time.Time
	}{
		{"as ever", at, at.Add(time.Minute), at},
		{"the donor's clock is ahead", at.Add(time.Hour), at, at},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &v1alpha1.Prototype{Spec: v1alpha1.PrototypeSpec{Version: "2026.01.09"}, Status: v1alpha1.PrototypeStatus{
				Proof: &v1alpha1.Proof{At: metav1.NewTime(test.proof)},
				Steps: []v1alpha1.Step{{Phase: v1alpha1.PhaseDraining}, {Phase: v1alpha1.PhasePublishing, StartedAt: metav1.NewMicroTime(test.now)},
					{Phase: v1alpha1.PhasePromoting}},
			}}
			image := cloud.Image{Tags: map[string]string{cloud.TagBuiltAt: BuiltAtTag(test.proof, test.now)}}
			if got := BuiltAt(image); !got.Equal(test.want) {
				t.Errorf("the tag says %v, want %v", got, test.want)
			}
			if got := CapturedAt(p); !got.Equal(test.want) {
				t.Errorf("the Prototype says %v, want %v", got, test.want)
			}
		})
	}
	queued := &v1alpha1.Prototype{Spec: v1alpha1.PrototypeSpec{Version: "2026.01.09"}}
	if got, want := CapturedAt(queued), time.Date(2026, 1, 9, 0, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("one that published nothing says %v, want %v", got, want)
	}
}
