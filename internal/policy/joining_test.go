package policy_test

import (
	"cmp"
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
)

// TestTheProfileIsFound: a Prototype carries the detected profile of its donor, unless the policy names a profile. Without
// evidence, Kamino creates no Prototype, and the status names the setting.
func TestTheProfileIsFound(t *testing.T) {
	joins := func(_ context.Context, f bootstrapkind.Facts) (bootstrapkind.Answer, error) {
		return bootstrapkind.Of(f), nil
	}
	for name, test := range map[string]struct {
		carries string
		proof   string
		named   v1alpha1.Profile
		fails   error
		want    v1alpha1.Profile
		decided string
	}{
		"a node of Cluster API":   {carries: "cluster.x-k8s.io/machine", want: v1alpha1.ProfileBootstrap, decided: policy.Capturing},
		"what the version proved": {carries: "cluster.x-k8s.io/machine", proof: "static/1/sha256:0", want: v1alpha1.ProfileStatic, decided: policy.Capturing},
		"what the policy names": {carries: "cluster.x-k8s.io/machine", named: v1alpha1.ProfileStatic, want: v1alpha1.ProfileStatic,
			decided: policy.Capturing},
		"no sign": {decided: bootstrapkind.ProfileUnknown},
		"unknown": {fails: errors.New("the API server is away"), decided: v1alpha1.PolicyPreflightFailed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t)
			id := s.pool("pool1", 2, 0)
			at := s.clock.Now().AddDate(0, 0, -20)
			s.version(id, at, map[string]string{cloud.TagProof: test.proof})
			s.cloud.ChangeRecipe(id, string(id)+"/versions/"+imageversion.Of(at))
			for _, n := range []string{"pool1-0", "pool1-1"} {
				s.change(id, n, func(node *corev1.Node) { node.Annotations[cmp.Or(test.carries, "other")] = "" })
			}
			s.policy("all", func(p *v1alpha1.PrototypePolicySpec) { p.Settings.Generalize.Profile = test.named })
			s.decider.Joins = joins
			if test.fails != nil {
				s.decider.Joins = func(context.Context, bootstrapkind.Facts) (bootstrapkind.Answer, error) {
					return bootstrapkind.Answer{}, test.fails
				}
			}
			s.runPass()
			all := s.prototypes()
			if (len(all) == 1) != (test.want != "") || len(all) == 1 && all[0].Spec.Settings.Generalize.Profile != test.want {
				t.Errorf("%d prototypes, %+v", len(all), all)
			}
			if got := s.poolStatus("all", "pool1").Decision; got == nil || got.Reason != test.decided {
				t.Errorf("it was decided %+v", got)
			}
		})
	}
}
