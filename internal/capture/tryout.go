package capture

import (
	"context"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/trial"
)

// TrialObserver observes trial nodes in the cluster. Facts from the cloud are part of the subject.
type TrialObserver interface {
	// Check returns the reason why the Job in the settings cannot run on a trial node; empty if the Job is suitable, or
	// without a Job.
	Check(ctx context.Context, settings v1alpha1.Settings) (why string, err error)

	// Look completes the subject's facts from the cluster. For the measurements, Look cordons the trial's instances and
	// keeps pods on the node.
	//
	// Callers repeat Look until there is a verdict, possibly from different processes. Look keeps no state: all state
	// is in the returned observation, also with an error, and in the next subject. An error means that this observation
	// failed.
	Look(ctx context.Context, subject trial.Subject) (trial.Observation, error)

	// Clean starts the removal of all objects that Look has made, and of the Nodes of removed instances. left names the
	// objects that still exist. Callers begin once the instances are being removed, and repeat Clean until nothing is
	// left.
	Clean(ctx context.Context, subject trial.Subject) (left []string, err error)
}
