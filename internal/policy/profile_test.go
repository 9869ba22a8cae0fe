package policy

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
)

// TestTheProfileFollowsThePool: the profile is asked for once, and again after the node or the image of the pool has changed.
func TestTheProfileFollowsThePool(t *testing.T) {
	asked, answer := 0, v1alpha1.ProfileStatic
	d := &Decider{Joins: func(context.Context, bootstrapkind.Facts) (bootstrapkind.Answer, error) {
		asked++
		return bootstrapkind.Answer{Profile: answer}, nil
	}}
	o := &PoolOutcome{Pool: PoolRef{ID: "pool"}}
	profile := func(uid types.UID, image string) v1alpha1.Profile {
		o.Look.Pool.Recipe.Image = image
		return d.profileOf(t.Context(), o, []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: uid}}})
	}
	for i, of := range []struct {
		uid   types.UID
		image string
		was   v1alpha1.Profile
		asked int
	}{
		{"a", "1", v1alpha1.ProfileStatic, 1}, {"a", "1", v1alpha1.ProfileStatic, 1},
		{"b", "1", v1alpha1.ProfileBootstrap, 2}, {"b", "1", v1alpha1.ProfileBootstrap, 2}, {"b", "2", v1alpha1.ProfileBootstrap, 3},
	} {
		if got := profile(of.uid, of.image); got != of.was || asked != of.asked {
			t.Errorf("%d: %s after %d questions, want %s after %d", i, got, asked, of.was, of.asked)
		}
		answer = v1alpha1.ProfileBootstrap
	}
}
