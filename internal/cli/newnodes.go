package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/runner"
	"github.com/kamino-dev/kamino/internal/wording"
)

// awaitGrowth waits for the new nodes of a successful capture, as its Prototype requests.
func (s *session) awaitGrowth(ctx context.Context, name string, limit time.Duration) error {
	p := &v1alpha1.Prototype{}
	if err := s.cluster.Client.Get(ctx, client.ObjectKey{Name: name}, p); err != nil {
		return err
	}
	return s.awaitNewNodes(ctx, p, limit)
}

// awaitNewNodes reports the time since the growth and the versions of the new nodes.
func (s *session) awaitNewNodes(ctx context.Context, p *v1alpha1.Prototype, limit time.Duration) error {
	g := runner.GrowthOf(s.cluster, s.provider, p)
	if g == nil {
		return nil
	}
	spec, want := g.Prototype.Spec, wording.Count(g.Want, "new node")
	s.note("Waiting for %s of pool %s to be Ready.", want, spec.Pool)
	ready, err := g.Await(ctx, g.Since.Add(limit), s.Now)
	switch {
	case ctx.Err() != nil:
		return &failure{Code: ExitInterrupted,
			Err: fmt.Errorf("interrupted while waiting for %s of pool %s: the capture is done, and the recipe names version %s",
				want, spec.Pool, spec.Version)}
	case err != nil && cluster.NotAllowed(err):
		return err
	case len(ready) < g.Want:
		return &failure{Code: ExitFailed, Err: errors.Join(err, fmt.Errorf("pool %s now builds new nodes from version %s, but %d of %s Ready within %s: "+
			"run `kubectl get nodes`, and read the boot logs of missing nodes. If the version is bad, run `kamino rollback %s`",
			spec.Pool, spec.Version, len(ready), wording.Are(g.Want, "new node"), wording.Duration(limit), spec.Pool))}
	}
	var run []string
	for _, n := range g.BuiltFrom(ctx, ready) {
		run = append(run, n.Name+whatItRuns(n, spec.Version))
	}
	s.note("%s Ready %s after the pool began to grow: %s.", wording.Are(len(ready), "new node"), wording.Duration(s.Now().Sub(g.Since)),
		strings.Join(run, ", "))
	return nil
}

// whatItRuns names the version of a new node, if the cloud returns the version.
func whatItRuns(n runner.NewNode, version string) string {
	switch {
	case n.Err != nil:
		return " (version unknown: " + explain(n.Err) + ")"
	case n.BuiltFrom == version:
		return " (version " + version + ")"
	case n.BuiltFrom == "":
		return " (not version " + version + ")"
	}
	return " (version " + n.BuiltFrom + ", not " + version + ")"
}
