package print

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestEndOfDonor: the end of a capture reports whether its node is back or replaced.
func TestEndOfDonor(t *testing.T) {
	taken := metav1.NewMicroTime(time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC))
	gone := metav1.NewMicroTime(taken.Add(5 * time.Minute))
	for state, want := range map[v1alpha1.DonorState]string{
		v1alpha1.DonorReady:   "Node worker-3 was out of service for 5m00s; the whole capture took 0s.\n",
		v1alpha1.DonorRemoved: "Node worker-3 was removed 5m00s after the drain; the whole capture took 0s.\n",
	} {
		p := &v1alpha1.Prototype{}
		p.Spec.Donor.NodeName = "worker-3"
		p.Status.Donor = &v1alpha1.DonorStatus{ReservedAt: &taken, ReleasedAt: &gone, State: state}
		var said strings.Builder
		if err := Success(&said, p, gone.Time); err != nil || !strings.HasSuffix(said.String(), want) {
			t.Errorf("%s: %q (%v), want at its end %q", state, said.String(), err, want)
		}
	}
}

// TestFirstPromotionAsksForCustomData: the output asks for customData only if the promotion removes customData from the recipe.
func TestFirstPromotionAsksForCustomData(t *testing.T) {
	loses := &cloud.RecipeChange{From: "ubuntu:2204", Removes: []cloud.RecipeField{{}}}
	for want, message := range map[string]string{
		"only fields that the cloud returns: to keep customData too, pass --custom-data FILE": irreversibleParts(loses, false),
		"all fields that the cloud returns, and the copy of customData":                       irreversibleParts(loses, true),
		"the whole recipe": irreversibleParts(&cloud.RecipeChange{From: "ubuntu:2204"}, false),
	} {
		if !strings.HasPrefix(message, "need `kamino restore` to undo, because ubuntu:2204") ||
			!strings.HasSuffix(message, "It restores "+want) {
			t.Errorf("%q, want at its end %q", message, want)
		}
	}
}
