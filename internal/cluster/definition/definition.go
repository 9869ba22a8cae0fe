// Package definition installs Kamino in a cluster: the definitions of its kinds, namespaces, accounts and permissions. The
// package replaces other versions of the definitions, waits until the API server serves the kinds, and does not change
// objects of the kinds.
package definition

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/manifest"
)

// establishedWithin limits the wait for a new kind; the API server needs well under a second.
const establishedWithin = time.Minute

// owner is the field manager that Helm 4 uses for definitions before a chart's installation. With another owner, the next
// installation would stop with a conflict.
const owner = client.FieldOwner("helm")

// installer is the field manager of the objects that Install writes.
const installer = client.FieldOwner("kamino")

// Install writes the manifests of the options, and the definitions last: a cluster with the definitions has the rest. API
// servers before 1.30 do not know ValidatingAdmissionPolicies, and get none. A repeated call is harmless.
func Install(ctx context.Context, c client.Client, o manifest.Options) error {
	objects, err := manifest.Installation(o)
	if err != nil {
		return err
	}
	for _, object := range objects {
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), installer, client.ForceOwnership)
		if apierrors.IsNotFound(err) && strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return apply(ctx, c)
}

// apply writes all definitions of this build over any earlier version, and waits until the API server serves the kinds. The
// list of versions is replaced as a whole, so that no rule of an older version remains. A repeated call is harmless.
func apply(ctx context.Context, c client.Client) error {
	definitions, err := manifest.Definitions()
	if err != nil {
		return err
	}
	for _, wanted := range definitions {
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), owner, client.ForceOwnership); err != nil {
			return fmt.Errorf("definition %s: %w", wanted.GetName(), err)
		}
		if err := awaitServed(ctx, c, wanted.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// awaitServed waits until the API server serves the kind.
func awaitServed(ctx context.Context, c client.Client, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, establishedWithin, true, func(ctx context.Context) (bool, error) {
		found := named(name)
		if err := c.Get(ctx, client.ObjectKey{Name: name}, found); err != nil {
			return false, err
		}
		return served(found), nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("definition %s is applied, but the API server does not serve the kind after %s: run `kubectl describe crd %s`",
			name, establishedWithin, name)
	}
	return err
}

// served reports whether the API server serves the kind.
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
