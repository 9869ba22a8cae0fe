package drive

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
)

// TestTheTrialIsFoundAsACaptureBegins: a new Prototype carries the trial mode, from the pool's abilities unless the user
// sets a mode. A running Prototype keeps its mode.
func TestTheTrialIsFoundAsACaptureBegins(t *testing.T) {
	static, bootstrap := v1alpha1.ProfileStatic, v1alpha1.ProfileBootstrap
	for name, c := range map[string]struct {
		profile v1alpha1.Profile
		said    v1alpha1.TrialMode
		want    v1alpha1.TrialMode
		away    bool // the cloud, as it is asked for the first time
	}{
		"its promotion takes the bootstrap out":     {profile: static, want: v1alpha1.TrialApart},
		"it does not, and customData is nobody's":   {profile: bootstrap, want: v1alpha1.TrialInPool},
		"somebody says where":                       {profile: static, said: v1alpha1.TrialInPool, want: v1alpha1.TrialInPool},
		"somebody says nowhere":                     {profile: bootstrap, said: v1alpha1.TrialOff, want: v1alpha1.TrialOff},
		"a cloud that is away is asked again later": {profile: bootstrap, away: true, want: v1alpha1.TrialInPool},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, "", interceptor.Funcs{})
			d.Settings.Generalize.Profile, d.Settings.Trial.Mode = c.profile, c.said
			d.Cloud = memory.NewFaulty(d.memory, func(call memory.Call) memory.Outcome {
				if call.Op == "PreflightTrial" && c.away {
					return memory.FailBefore(cloud.Unavailable)
				}
				return memory.Pass()
			})
			decision, _, err := d.begin(t, Holder{})
			if err != nil {
				t.Fatal(err)
			}
			if got := decision.Prototype.Spec.Settings.Trial.Mode; got != c.want {
				t.Errorf("it is tried %q, want %q", got, c.want)
			}
			if d.Settings.Trial.Mode != c.said {
				t.Errorf("what was said has become %q", d.Settings.Trial.Mode)
			}
		})
	}
	before := prior("pool1-2026.03.09", "2026.03.09", "node-1", v1alpha1.PhasePublishing)
	d := newDesk(t, "", interceptor.Funcs{}, &before)
	before.Spec.Donor.ProviderID = string(d.memory.World().Instances[0].ID)
	if err := d.Cluster.Client.Update(t.Context(), &before); err != nil {
		t.Fatal(err)
	}
	decision, err := d.Decide(t.Context())
	if err != nil || !decision.Existing || decision.Prototype.Spec.Settings.Trial.Mode != "" {
		t.Errorf("one from before there were trials: existing %t, tried %q, %v", decision.Existing, decision.Prototype.Spec.Settings.Trial.Mode, err)
	}
}
