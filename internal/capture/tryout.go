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

	// Observe completes the subject's facts from the cluster. For the measurements, Observe cordons the trial's instances and
	// keeps pods on the node.
	//
	// Callers repeat Observe until there is a verdict, possibly from different processes. Observe keeps no state: all state
	// is in the returned observation, also with an error, and in the next subject. An error means that this observation
	// failed.
	Observe(ctx context.Context, subject trial.Subject) (trial.Observation, error)

	// Evidence returns the Warning events of the node and of its pods, as the end of a sentence; empty without events. An
	// unread event is no reason to wait, so that an error is part of the text.
	Evidence(ctx context.Context, subject trial.Subject, node string) string

	// Clean starts the removal of all objects that Observe has made, and of the Nodes of removed instances. left names the
	// objects that still exist. Callers begin once the instances are being removed, and repeat Clean until nothing is
	// left.
	Clean(ctx context.Context, subject trial.Subject) (left []string, err error)
}
