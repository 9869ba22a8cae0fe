package memory

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// losingTrials implements cloud.TrialRunner for Faulty.
type losingTrials struct{ f *Faulty }

// PreflightTrial implements cloud.TrialRunner, and may be lost.
func (l losingTrials) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	return through(ctx, l.f, opPreflightTrial, string(spec.Pool), looks, func() ([]cloud.Refusal, error) {
		return behind[cloud.TrialRunner](l.f).PreflightTrial(ctx, spec)
	})
}

// Trial implements cloud.TrialRunner, and may be lost.
func (l losingTrials) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return through(ctx, l.f, opTrial, spec.Version, looksOnce, func() (cloud.Trial, error) { return behind[cloud.TrialRunner](l.f).Trial(ctx, spec) })
}

// Trials implements cloud.TrialRunner, and may be lost.
func (l losingTrials) Trials(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error) {
	return through(ctx, l.f, opTrials, "", looks, func() ([]cloud.TrialSpec, error) { return behind[cloud.TrialRunner](l.f).Trials(ctx, pools...) })
}

// EnsureTrial implements cloud.TrialRunner, and may be lost.
func (l losingTrials) EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return through(ctx, l.f, opEnsureTrial, spec.Version, writes, func() (cloud.Trial, error) { return behind[cloud.TrialRunner](l.f).EnsureTrial(ctx, spec) })
}

// CloseTrial implements cloud.TrialRunner, and may be lost.
func (l losingTrials) CloseTrial(ctx context.Context, spec cloud.TrialSpec) error {
	_, err := through(ctx, l.f, opCloseTrial, spec.Version, writes, alone(func() error { return behind[cloud.TrialRunner](l.f).CloseTrial(ctx, spec) }))
	return err
}

// EndTrial implements cloud.TrialRunner, and may be lost.
func (l losingTrials) EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	return through(ctx, l.f, opEndTrial, spec.Version, writes, func() (cloud.State, error) { return behind[cloud.TrialRunner](l.f).EndTrial(ctx, spec) })
}
