package capture

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/recipe"
)

// ofThePool is a Secret with the mark of a copy of pool1's customData.
var ofThePool = metav1.ObjectMeta{Name: "ours", Namespace: ourspace, Labels: map[string]string{v1alpha1.PoolLabel: "pool1"}}

// TestATrialApartUsesTheCopy: the trial node of a pool that keeps its bootstrap needs customData. Without a copy, Kamino refuses the
// capture before any change.
func TestATrialApartUsesTheCopy(t *testing.T) {
	for name, c := range map[string]struct {
		from, secret string
		reason       string
	}{
		"no copy":        {"", "", cloud.PoolNotCopyable},
		"a missing copy": {"ours", "", cloud.CustomDataUnusable},
		"a copy":         {"ours", "needle", ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := &trialEnv{}
			v.testEnv = newTestEnv(t, func(s *testEnv) {
				s.unreadable = []string{cloud.CustomData}
				s.settings = v.settle([]func(*v1alpha1.Prototype){keepsBootstrap, func(p *v1alpha1.Prototype) {
					if c.from != "" {
						p.Spec.Settings.Recipe.CustomDataFrom = &v1alpha1.SecretKey{Name: c.from}
					}
				}})
			})
			if c.secret != "" {
				v.must(v.objects.Add(&corev1.Secret{ObjectMeta: ofThePool, Data: map[string][]byte{recipe.CustomDataKey: []byte(c.secret)}}))
			}
			v.tryout = v
			v.restart()
			v.decide()
			if c.reason == "" {
				if p := v.play(); p.Status.Phase != v1alpha1.PhaseSucceeded {
					t.Error(verdict(p))
				}
				return
			}
			v.failed(v.play(), c.reason)
			if w := v.cloud.World(); w.Instance(v.donor).Boots != 1 || len(w.Trials) != 0 {
				t.Errorf("the donor booted %d times, trials: %+v", w.Instance(v.donor).Boots, w.Trials)
			}
		})
	}
}

// TestPreflightKnowsCustomDataOfCommand: the command creates the Secret of the copy after the preflight.
func TestPreflightKnowsCustomDataOfCommand(t *testing.T) {
	for _, given := range []string{"", "needle"} {
		v := &trialEnv{}
		v.testEnv = newTestEnv(t, func(s *testEnv) {
			s.unreadable = []string{cloud.CustomData}
			s.settings = v.settle([]func(*v1alpha1.Prototype){keepsBootstrap})
		})
		v.tryout = v
		v.restart()
		v.engine.GivenCustomData = []byte(given)
		v.decide()
		refusals, err := v.engine.Refusals(t.Context(), v.prototype())
		if err != nil || (len(refusals) == 0) != (given != "") {
			t.Errorf("with %q: %+v, %v", given, refusals, err)
		}
	}
}

// TestOnlyAMarkedSecretIsCopied: the cloud's credential and other unmarked Secrets of Kamino's namespace are refused
// before the capture begins. The message has the command for the mark.
func TestOnlyAMarkedSecretIsCopied(t *testing.T) {
	for name, test := range map[string]struct {
		labels map[string]string
		of     corev1.SecretType
		copied bool
	}{
		"a credential":             {nil, corev1.SecretTypeOpaque, false},
		"one of another tool":      {map[string]string{"app.kubernetes.io/name": "kamino"}, "", false},
		"a token":                  {nil, corev1.SecretTypeServiceAccountToken, false},
		"the copy of another pool": {map[string]string{v1alpha1.PoolLabel: "pool2"}, "kamino.dev/custom-data", false},
		"the copy of this pool":    {map[string]string{v1alpha1.PoolLabel: "pool1"}, "", true},
		"a copy of no pool":        {nil, "kamino.dev/custom-data", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t)
			s.must(
				s.objects.Add(
					&corev1.Secret{
						ObjectMeta: metav1.ObjectMeta{Name: "ours", Namespace: ourspace, Labels: test.labels},
						Type:       test.of,
						Data:       map[string][]byte{"mine": []byte("needle")},
					},
				),
			)
			p := s.decide(func(p *v1alpha1.Prototype) {
				p.Spec.Settings.Recipe.CustomDataFrom = &v1alpha1.SecretKey{Name: "ours", Key: "mine"}
			}).play()
			if test.copied {
				s.succeeded(p)
				if saved := s.saved(p); saved == nil || string(saved.Data[recipe.CustomDataKey]) != "needle" {
					t.Errorf("saved: %+v", saved)
				}
				return
			}
			s.failed(p, cloud.CustomDataUnusable)
			if !strings.Contains(p.Status.Failure.Message, "`kubectl -n "+ourspace+" label secret ours kamino.dev/pool=pool1`") {
				t.Errorf("no command: %s", p.Status.Failure.Message)
			}
			if w := s.cloud.World(); w.Instance(s.donor).Boots != 1 || s.saved(p) != nil {
				t.Errorf("the donor booted %d times, saved: %+v", w.Instance(s.donor).Boots, s.saved(p))
			}
		})
	}
}

// keepsBootstrap chooses a profile whose recipe keeps its bootstrap data.
func keepsBootstrap(p *v1alpha1.Prototype) { p.Spec.Settings.Generalize.Profile = v1alpha1.ProfileEKS }
