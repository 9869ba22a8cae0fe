package runner

import (
	"cmp"
	"context"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/pool/nodejoin"
	"github.com/kamino-dev/kamino/internal/rules"
	"github.com/kamino-dev/kamino/internal/trial/trialnode"
)

// Engine is the part of capture.Engine that a process calls.
type Engine interface {
	Pass(ctx context.Context, name string) (capture.Result, error)
	Refusals(ctx context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error)
	Preview(ctx context.Context, p *v1alpha1.Prototype, seen *membership.Cluster) (admission.Preview, error)
	Case(ctx context.Context, p *v1alpha1.Prototype, seen *membership.Cluster) (*admission.Case, error)
	Evictions(ctx context.Context, node string, drain v1alpha1.DrainSettings) (int, error)
	Orphan(ctx context.Context, node string, holder v1alpha1.Holder) (capture.Result, error)
	Leftovers(ctx context.Context, pools []cloud.PoolID, seen *membership.Cluster) ([]reservations.Leftover, error)
	SweepLeftovers(ctx context.Context, pools []cloud.PoolID) ([]reservations.Leftover, error)
}

// Options configure a process that runs captures.
type Options struct {
	// Namespace of the Lease and of saved recipes. PodNamespace of the generalize pods; empty means
	// DefaultGeneralizeNamespace.
	Namespace, PodNamespace string
	// Image of the generalize pod for a Prototype without an image. AllowedImages are further images that a Prototype may
	// name.
	Image         string
	AllowedImages []string
	// CustomData is a copy of customData from the command line, for the preflight of a trial; nil without a copy.
	CustomData []byte
	// OwnNode is the node of this process, which this process cannot capture; empty outside a cluster.
	OwnNode string
	// MaxConcurrent limits the captures that hold a node in the cluster; zero means 1.
	MaxConcurrent int
	// Kured is the DaemonSet with the lock that captures wait for, as NAMESPACE/NAME; empty for none.
	Kured string
	Now   func() time.Time
	Log   logr.Logger
}

// NewEngine returns the engine. recorder may be nil.
func NewEngine(c *cluster.Connection, provider cloud.Provider, o Options, recorder events.EventRecorder) *capture.Engine {
	return &capture.Engine{
		Client: c.Client, Kube: c.Kube, Cloud: provider, Namespace: o.Namespace, PodNamespace: o.PodNamespace, Image: o.Image,
		AllowedImages: o.AllowedImages, GivenCustomData: o.CustomData, MaxConcurrent: o.MaxConcurrent, Now: o.Now, OwnNode: o.OwnNode,
		Log: o.Log.WithName("capture"), CheckRules: checkRules, Kured: o.Kured, Recorder: recorder, Unhealthy: unhealthy(c, o),
		TrialObserver: &trialnode.Observer{Kube: c.Kube, Namespace: cmp.Or(o.PodNamespace, v1alpha1.DefaultGeneralizeNamespace), Image: o.Image,
			Same: provider.SameInstance, Reserved: leased(c, o)},
	}
}

// unhealthy names a DaemonSet that is unready on the node although the DaemonSet is healthy on other nodes. Without
// permission to read DaemonSets, unhealthy names none.
func unhealthy(c *cluster.Connection, o Options) func(context.Context, string, []string) (string, error) {
	sets := &nodejoin.DaemonSets{Kube: c.Kube, Now: clock(o)}
	return func(ctx context.Context, node string, ignore []string) (string, error) {
		all, err := sets.Unhealthy(ctx, []string{node}, ignore)
		if lack, found := all[node]; err == nil && found {
			return "DaemonSet " + lack.DaemonSet + " is not Ready", nil
		}
		if apierrors.IsForbidden(err) {
			return "", nil
		}
		return "", err
	}
}

// checkRules returns the errors of a user's own rules.
func checkRules(profile v1alpha1.Profile, files map[string][]byte) error {
	_, err := rules.LoadFiles(profile, files)
	return err
}
