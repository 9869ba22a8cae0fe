package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/cluster/definition"
	"github.com/kamino-dev/kamino/internal/manifest"
	"github.com/kamino-dev/kamino/internal/runner"
)

// preview returns the plan of a capture. Without an installation, the missing parts of the installation are no refusals.
func (c *capturing) preview(ctx context.Context, d runner.Decision) (admission.Preview, error) {
	preview, err := c.engine.Preview(ctx, d.Prototype, nil)
	if d.NotInstalled {
		preview.Refusals = slices.DeleteFunc(preview.Refusals, func(r cloud.Refusal) bool { return r.Reason == admission.NotInstalled })
	}
	return preview, err
}

// install installs Kamino if the user agrees, and decides again. For a capture that would be refused, install changes
// nothing.
func (c *capturing) install(ctx context.Context, d runner.Decision) (runner.Decision, error) {
	preview, err := c.preview(ctx, d)
	if len(preview.Refusals) > 0 {
		return d, refusal(fmt.Sprintf("cannot capture node %s", c.beginning.Node), preview.Refusals)
	}
	if err != nil {
		return d, err
	}
	o := c.options
	m := manifest.Options{Namespace: o.Namespace, GeneralizeNamespace: o.GeneralizeNamespace, Force: d.Prototype.Spec.Settings.Drain.Force}
	if !c.flags.install {
		question := fmt.Sprintf("The cluster has no definitions of Kamino. To install the definitions, namespaces %s and %s, "+
			"service accounts and permissions, as `kamino manifests` prints, go on.", o.Namespace, o.GeneralizeNamespace)
		if c.flags.yes || !c.asks() || !c.agreed(question) {
			return d, refusedf("%w, or pass --install", cluster.ErrNotInstalled)
		}
	}
	if err := definition.Install(ctx, c.cluster.Client, m); err != nil {
		return d, err
	}
	c.note("Installed Kamino's definitions, namespaces %s and %s, service accounts and permissions.", o.Namespace, o.GeneralizeNamespace)
	return c.beginning.Decide(ctx)
}
