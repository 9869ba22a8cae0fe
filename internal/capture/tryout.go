package capture

import (
	"context"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/trial"
)

// Tryout looks at the node of a trial in the cluster. It asks no cloud: what that says is part of the subject.
type Tryout interface {
	// Check tells why the Job that the settings name would not be run on a trial node; empty if nothing is the matter, or they
	// name none.
	Check(ctx context.Context, settings v1alpha1.Settings) (why string, err error)

	// Look completes the subject's facts by what the cluster says of the node, and does what measuring it needs: it cordons
	// every instance of the trial, and keeps pods on the node. It is called again and again until there is a verdict, by one
	// process after the other, and keeps nothing: what it has seen and done is in the sight, also beside an error, and comes back with
	// the next subject. An error says that nothing could be seen now.
	Look(ctx context.Context, subject trial.Subject) (trial.Sight, error)

	// Clean starts to remove all that Look has made for the subject, and the Nodes of its instances that are gone. left says what is
	// still waited for. It is called once the instances are on their way, and again until nothing is left.
	Clean(ctx context.Context, subject trial.Subject) (left []string, err error)
}
