package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/nodestate"
)

// newNodesTempo is the pause between two looks for nodes that are to come.
const newNodesTempo = 3 * time.Second

// awaitGrowth awaits the new nodes of a capture that has ended well, by what its Prototype says.
func (s *session) awaitGrowth(ctx context.Context, name string, limit time.Duration) error {
	p := &v1alpha1.Prototype{}
	if err := s.cluster.Client.Get(ctx, client.ObjectKey{Name: name}, p); err != nil {
		return err
	}
	return s.awaitNewNodes(ctx, p, limit, newNodesTempo)
}

// awaitNewNodes waits until as many nodes as the pool grew by are Ready, and says how long that took from the growth on,
// and what they run.
func (s *session) awaitNewNodes(ctx context.Context, p *v1alpha1.Prototype, limit, tempo time.Duration) error {
	want, since := int(p.Spec.Settings.Recipe.NewNodes), grownAt(p)
	if want == 0 || since.IsZero() {
		return nil
	}
	s.note("Waiting for %s of pool %s to be Ready.", counted(want, "new node"), p.Spec.Pool)
	deadline := since.Add(limit)
	for {
		ready, err := s.newNodes(ctx, p, since)
		switch {
		case ctx.Err() != nil:
			return &ending{ExitInterrupted, fmt.Errorf("interrupted while %s of pool %s were awaited: its recipe names version %s, and the capture is over",
				counted(want, "new node"), p.Spec.Pool, p.Spec.Version)}
		case err != nil && notAllowed(err):
			return err
		case err == nil && len(ready) >= want:
			s.note("%s Ready %s after the pool began to grow: %s.", is(len(ready), "new node"),
				print.Duration(s.Now().Sub(since)), strings.Join(s.whatTheyRun(ctx, p, ready), ", "))
			return nil
		case s.Now().After(deadline):
			return &ending{ExitFailed, errors.Join(err, fmt.Errorf("pool %s builds its next nodes from version %s now, but %d of %s Ready within %s: "+
				"see `kubectl get nodes` and the boot log of those that are missing, and `kamino rollback %s` if the version is bad",
				p.Spec.Pool, p.Spec.Version, len(ready), is(want, "new node"), print.Duration(limit), p.Spec.Pool))}
		}
		select {
		case <-ctx.Done():
		case <-time.After(tempo):
		}
	}
}

// grownAt is when the capture began to grow its pool; zero if it did not.
func grownAt(p *v1alpha1.Prototype) time.Time {
	for _, step := range p.Status.Steps {
		if step.Phase == v1alpha1.PhaseScalingOut {
			return step.StartedAt.Truncate(time.Second) // as a Node's age is kept
		}
	}
	return time.Time{}
}

// newNodes are the pool's Ready nodes that have come since.
func (s *session) newNodes(ctx context.Context, p *v1alpha1.Prototype, since time.Time) (ready []*corev1.Node, err error) {
	its, err := membership.OfPrototype(ctx, s.provider, p, nil)
	switch {
	case err != nil:
		return nil, err
	case its.Pool == "":
		return nil, fmt.Errorf("the donor of prototype %s belongs to no pool: %s", p.Name, its.Why)
	}
	err = s.eachMember(ctx, func(n *corev1.Node, of cloud.Membership) {
		if of.Pool == its.Pool && !n.CreationTimestamp.Time.Before(since) && nodestate.Ready(n) {
			ready = append(ready, n.DeepCopy())
		}
	})
	return ready, err
}

// whatTheyRun names each node with the version that its instance was built from, as far as the cloud tells.
func (s *session) whatTheyRun(ctx context.Context, p *v1alpha1.Prototype, nodes []*corev1.Node) []string {
	said := make([]string, len(nodes))
	for i, n := range nodes {
		said[i] = n.Name
		instance, err := s.provider.Instance(ctx, cloud.InstanceID(n.Spec.ProviderID))
		switch {
		case err != nil:
			said[i] += " (what it runs can't be told: " + explain(err) + ")"
		case instance.BuiltFrom == p.Spec.Version:
			said[i] += " (version " + instance.BuiltFrom + ")"
		case instance.BuiltFrom == "":
			said[i] += " (not version " + p.Spec.Version + ")"
		default:
			said[i] += " (version " + instance.BuiltFrom + ", not " + p.Spec.Version + ")"
		}
	}
	return said
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func is(n int, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return counted(n, what) + " are"
}
