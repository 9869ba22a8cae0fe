package trialmode_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/trialmode"
)

// pool returns a reason for each unavailable mode.
type pool struct {
	cloud.Provider
	apart, inPool string
	err           error
	asked         []cloud.TrialSpec
}

func (p *pool) PreflightTrial(_ context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	p.asked = append(p.asked, spec)
	reason := p.apart
	if spec.InPool {
		reason = p.inPool
	}
	if reason == "" || p.err != nil {
		return nil, p.err
	}
	return []cloud.Refusal{cloud.Refuse(reason, "because", "do")}, nil
}

func TestFind(t *testing.T) {
	static, bootstrap := v1alpha1.ProfileStatic, v1alpha1.ProfileBootstrap
	for name, c := range map[string]struct {
		profile       v1alpha1.Profile
		said          v1alpha1.TrialMode
		apart, inPool string
		want          v1alpha1.TrialMode
		copied        bool // the settings name a copy of customData
	}{
		"bootstrap with a copy":             {profile: bootstrap, copied: true, want: v1alpha1.TrialApart},
		"static":                            {profile: static, inPool: cloud.PromotionRemoves, want: v1alpha1.TrialApart},
		"no profile is static":              {want: v1alpha1.TrialApart},
		"bootstrap":                         {profile: bootstrap, want: v1alpha1.TrialInPool},
		"bootstrap at its maximum":          {profile: bootstrap, inPool: cloud.PoolAtMaximum, want: v1alpha1.TrialApart},
		"an identity of the pool's own":     {profile: static, apart: cloud.PoolNotCopyable, want: v1alpha1.TrialInPool},
		"neither, static":                   {profile: static, apart: cloud.PoolNotCopyable, inPool: cloud.PromotionRemoves, want: v1alpha1.TrialApart},
		"beside it only":                    {profile: bootstrap, inPool: cloud.TrialBesideOnly, want: v1alpha1.TrialApart},
		"neither, bootstrap":                {profile: bootstrap, apart: cloud.PoolNotCopyable, inPool: cloud.PoolAtMaximum, want: v1alpha1.TrialInPool},
		"what can be granted is not evaded": {profile: static, apart: cloud.PermissionMissing, want: v1alpha1.TrialApart},
		"what was said stays":               {profile: static, said: v1alpha1.TrialOff, want: v1alpha1.TrialOff},
		"what was said stays, even refused": {profile: static, said: v1alpha1.TrialInPool, inPool: cloud.PromotionRemoves, want: v1alpha1.TrialInPool},
	} {
		p := &pool{apart: c.apart, inPool: c.inPool}
		settings := v1alpha1.Settings{}
		settings.Generalize.Profile, settings.Trial.Mode = c.profile, c.said
		if c.copied {
			settings.Recipe.CustomDataFrom = &v1alpha1.SecretKey{Name: "copy"}
		}
		got, err := trialmode.Find(t.Context(), p, "pool1", "2026.03.09", settings)
		if err != nil || got != c.want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, c.want)
		}
		for _, spec := range p.asked {
			if spec.Pool != "pool1" || spec.Version != "2026.03.09" || spec.RemoveBootstrap != settings.Profile().Traits().RemovesBootstrap || (len(spec.CustomData) > 0) != c.copied {
				t.Errorf("%s: asked about %+v", name, spec)
			}
		}
	}
}

func TestNeedsCustomData(t *testing.T) {
	for name, c := range map[string]struct {
		profile v1alpha1.Profile
		mode    v1alpha1.TrialMode
		apart   string
		want    bool
	}{
		"a trial apart with the bootstrap":    {v1alpha1.ProfileBootstrap, v1alpha1.TrialApart, cloud.PoolNotCopyable, true},
		"a cloud that returns everything":     {v1alpha1.ProfileBootstrap, v1alpha1.TrialApart, "", false},
		"another refusal":                     {v1alpha1.ProfileBootstrap, v1alpha1.TrialApart, cloud.PermissionMissing, false},
		"a trial apart without the bootstrap": {v1alpha1.ProfileStatic, v1alpha1.TrialApart, cloud.PoolNotCopyable, false},
		"no trial":                            {v1alpha1.ProfileBootstrap, v1alpha1.TrialOff, cloud.PoolNotCopyable, false},
	} {
		settings := v1alpha1.Settings{}
		settings.Generalize.Profile, settings.Trial.Mode = c.profile, c.mode
		got, err := trialmode.NeedsCustomData(t.Context(), &pool{apart: c.apart}, cloud.ImageRef{Pool: "pool1", Version: "2026.03.09"}, settings)
		if err != nil || got != c.want {
			t.Errorf("%s: %t (%v)", name, got, err)
		}
	}
}

func TestFindWhereTheCloudCannotBeAsked(t *testing.T) {
	away := errors.New("away")
	if got, err := trialmode.Find(t.Context(), &pool{err: away}, "pool1", "2026.03.09", v1alpha1.Settings{}); !errors.Is(err, away) || got != v1alpha1.TrialApart {
		t.Errorf("a cloud that does not answer: %q (%v)", got, err)
	}
}
