// Package known reads what the cluster alone knows about captures and policies, and says it to a person who waits for the cloud.
package known

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cli/explain"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/runner"
)

// Cluster reads a cluster with its namespace for Leases. Note prints a message that is no result.
type Cluster struct {
	*cluster.Connection
	Namespace string
	Now       func() time.Time
	Note      func(format string, args ...any)
}

// Facts reads what the list of attention needs beside pools and nodes. What the user may not read is a note, and stays unknown.
func (c Cluster) Facts(ctx context.Context, all []v1alpha1.Prototype) attention.Facts {
	facts := attention.Facts{Now: c.Now(), Prototypes: all}
	var err error
	if facts.Policies, err = c.Policies(ctx); err != nil {
		facts.Policies = nil
		if !errors.Is(err, cluster.ErrNotInstalled) {
			c.Note("What policies say is unknown: %s", explain.Sentence(err))
		}
	}
	if facts.Lease, err = runner.LeaseState(ctx, c.Connection, c.Namespace, c.Now()); err != nil {
		c.Note("Whether a process works on captures is unknown: %s", explain.Sentence(err))
	}
	return facts
}

// Say says what needs a person and which captures run, of the named pool or of all. The verb itself reports an API server that does not
// answer.
func (c Cluster) Say(ctx context.Context, pool string) {
	all, err := c.Prototypes(ctx)
	if err != nil {
		return
	}
	items := attention.List(c.Facts(ctx, all))
	if pool != "" {
		items = attention.OfPools(items, pool)
		all = slices.DeleteFunc(all, func(p v1alpha1.Prototype) bool { return p.Spec.Pool != pool })
	}
	c.Note("%s", print.Meanwhile(items, all, c.Now()))
}
