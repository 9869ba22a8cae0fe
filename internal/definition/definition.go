// Package definition writes the definitions of Kamino's kinds into a cluster, in place of those of another version, and waits
// until they are served. Objects of the kinds are not touched.
package definition

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/manifest"
)

// Done is what became of a definition.
type Done string

// What may become of a definition.
const (
	Created   Done = "created"
	Unchanged Done = "unchanged"
	Updated   Done = "updated"
)

// establishedWithin bounds how long the API server may take to serve a new kind; it takes well under a second.
const establishedWithin = time.Minute

// owner is the name under which Helm 4 applies the definitions of a chart that isn't installed. Written under any other, they
// would be in its way at the next install: it stops at what somebody else owns.
const owner = client.FieldOwner("helm")

// Apply writes each definition that this build has, and returns once the API server serves it. It tells of each, by name,
// when it is through with it; what tell returns ends it. To run it again is harmless.
func Apply(ctx context.Context, c client.Client, tell func(name string, done Done) error) error {
	definitions, err := manifest.Definitions()
	if err != nil {
		return err
	}
	for _, wanted := range definitions {
		name := wanted.GetName()
		done, err := replace(ctx, c, wanted)
		if err != nil {
			return fmt.Errorf("definition %s: %w", name, err)
		}
		if err := awaitServed(ctx, c, name); err != nil {
			return err
		}
		if err := tell(name, done); err != nil {
			return err
		}
	}
	return nil
}

// replace makes one definition what this build says, whoever wrote it before. The list of versions is replaced as a whole, so
// that nothing of an older one is left, such as a rule.
func replace(ctx context.Context, c client.Client, wanted *unstructured.Unstructured) (Done, error) {
	found := named(wanted.GetName())
	if err := client.IgnoreNotFound(c.Get(ctx, client.ObjectKeyFromObject(wanted), found)); err != nil {
		return "", err
	}
	before, applied := found.GetResourceVersion(), wanted.DeepCopy()
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), owner, client.ForceOwnership); err != nil {
		return "", err
	}
	switch before {
	case "":
		return Created, nil
	case applied.GetResourceVersion():
		return Unchanged, nil
	}
	return Updated, nil
}

// awaitServed returns once the API server serves the kind.
func awaitServed(ctx context.Context, c client.Client, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, establishedWithin, true, func(ctx context.Context) (bool, error) {
		found := named(name)
		if err := c.Get(ctx, client.ObjectKey{Name: name}, found); err != nil {
			return false, err
		}
		return served(found), nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("definition %s is applied, but the API server does not serve the kind after %s: run `kubectl describe crd %s`", name, establishedWithin, name)
	}
	return err
}

// served tells whether the API server says that it serves the kind.
func served(d *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(d.Object, "status", "conditions") // null at first
	for _, condition := range conditions {
		if fields, ok := condition.(map[string]any); ok && fields["type"] == "Established" && fields["status"] == "True" {
			return true
		}
	}
	return false
}

func named(name string) *unstructured.Unstructured {
	d := &unstructured.Unstructured{}
	d.SetGroupVersionKind(cluster.DefinitionKind)
	d.SetName(name)
	return d
}
