package capture

import (
	"context"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/trial"
)

// TrialObserver observes trial nodes in the cluster. Facts from the cloud are part of the subject.
type TrialObserver interface {
	// Check returns the obstacles in the settings: a Job that cannot run on a trial node, or an expression that does not
	// compile. Nil without an obstacle.
	Check(ctx context.Context, settings v1alpha1.Settings) ([]cloud.Refusal, error)

	// Observe completes the subject's facts from the cluster, cordons the trial's instances and keeps measuring pods on the
	// node. Callers repeat Observe until a verdict, from any process: all state is in the observation, also with an error.
	Observe(ctx context.Context, subject trial.Subject) (trial.Observation, error)

	// Evidence returns the Warning events of the node and of its pods, as the end of a sentence; empty without events. An
	// unread event is no reason to wait, so that an error is part of the text.
	Evidence(ctx context.Context, node string) string

	// Clean starts the removal of all objects of Observe, and of the Nodes of removed instances. left names existing objects.
	// Callers begin once the instances are being removed, and repeat Clean until nothing is left.
	Clean(ctx context.Context, subject trial.Subject) (left []string, err error)
}
