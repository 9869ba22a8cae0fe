package capture

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
	"github.com/kamino-dev/kamino/internal/trial"
)

// TestACloudWithoutRoom: the cloud accepts each attempt without an instance, or refuses each attempt. The failure has
// the cloud's message and code, although cloud and status lose both.
func TestACloudWithoutRoom(t *testing.T) {
	const words = "AllocationFailed: there is no capacity in the zone"
	for name, course := range map[string]struct {
		spoil func(*trialEnv)
		says  string
	}{
		"nothing is made": {func(v *trialEnv) {
			v.cloud.FailTrials(1000, memory.TrialFailure{Trouble: words, LacksCapacity: true, Unfilled: true})
		}, words},
		"refused at once": {func(v *trialEnv) { v.cloud.SetQuota(memory.Quota{Instances: 2}) }, "OperationNotAllowed: the quota of 2 instances is used up"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, forgets := range []bool{false, true} {
				v := published(t)
				v.capacity = 2
				course.spoil(v)
				p := v.run(func(int) {
					if s := v.prototype().Status.Trial; forgets && s != nil {
						v.onPrototype(func(p *v1alpha1.Prototype) { p.Status.Trial = nil })
					} else if s != nil && strings.Contains(s.Message, "another-user") {
						t.Errorf("a person is blamed: %s", s.Message)
					}
				})
				v.nothingLeft(p)
				if p == nil || p.Status.Failure == nil || p.Status.Failure.Reason != "TrialInconclusive" {
					t.Fatal(verdict(p))
				}
				if f := p.Status.Failure; f.CloudError != course.says || !strings.Contains(f.Message, course.says) {
					t.Errorf("the cloud's text is %q, and the failure %q", f.CloudError, f.Message)
				}
				if v.tagged(cloud.TagQuarantined, "") {
					t.Error("the version is quarantined")
				}
			}
		})
	}
}

// TestTroubleOfTheCloudIsForgottenOnceANodeRuns: what the cloud said of an earlier attempt is none of the end's.
func TestTroubleOfTheCloudIsForgottenOnceANodeRuns(t *testing.T) {
	v := published(t)
	v.cloud.FailTrials(1, memory.TrialFailure{Trouble: "AllocationFailed: no capacity", LacksCapacity: true, Unfilled: true})
	v.finds = func(_ int32, f *trial.Facts) { f.Twins = []string{"peer"} }
	p := v.run()
	if p == nil || p.Status.Failure == nil || p.Status.Failure.Reason != "TrialFailed" || p.Status.Failure.CloudError != "" {
		t.Error(verdict(p))
	}
}

// TestTheEndOfATrialIsLookedAtOften, however long the trial has taken.
func TestTheEndOfATrialIsLookedAtOften(t *testing.T) {
	v := published(t, func(p *v1alpha1.Prototype) { p.Spec.Settings.Trial.Soak = &metav1.Duration{Duration: 40 * time.Minute} })
	var gone, shown time.Time
	p := v.run(func(int) {
		ends := v.cloud.World().Count(memory.ByCaller, memory.EffectEndTrial, "") > 0
		if now := v.clock.Now(); ends && len(v.cloud.World().Trials) == 0 {
			if gone.IsZero() {
				gone = now
			}
			if r, err := v1alpha1.RecordOf(v.prototype()); err == nil && r.Trial != nil && r.Trial.CleanedUpAt != nil && shown.IsZero() {
				shown = now
			}
		}
	})
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded || gone.IsZero() || shown.IsZero() {
		t.Fatal(verdict(p))
	}
	if late := shown.Sub(gone); late > 20*time.Second {
		t.Errorf("that nothing is left was seen %s after the first look that could have", late)
	}
	if took := shown.Sub(v.endedFrom(p)); took > time.Minute {
		t.Errorf("the end took %s", took)
	}
}

// endedFrom is when the trial had its verdict.
func (v *trialEnv) endedFrom(p *v1alpha1.Prototype) time.Time { return p.Status.Trial.FinishedAt.Time }
