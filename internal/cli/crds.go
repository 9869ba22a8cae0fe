package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/manifest"
)

// establishedWithin bounds how long the API server may take to serve a new kind; it takes well under a second.
const establishedWithin = time.Minute

func newCRDsCommand(f *Factory, o *Options) *cobra.Command {
	var apply bool
	cmd := &cobra.Command{
		Use:   "crds",
		Short: "Print the definitions of Kamino's kinds as YAML, or write them into the cluster",
		Long: `Print the definitions of Kamino's kinds. With --apply they are written into the cluster in place of those of
another version, and served when the command ends. Objects of the kinds are not touched. That is what the Helm
chart does before an upgrade, since Helm itself never changes a definition.`,
		Example: `  kamino crds | kubectl apply --server-side -f -
  kamino crds --apply`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !apply {
				return manifest.CRDs(f.Out)
			}
			cluster, err := f.Connect(o)
			if err != nil {
				return err
			}
			return applyCRDs(cmd.Context(), f, cluster.Client)
		},
	}
	cmd.Flags().BoolVar(&apply, "apply", false, "write them into the cluster")
	return cmd
}

func applyCRDs(ctx context.Context, f *Factory, c client.Client) error {
	definitions, err := manifest.Definitions()
	if err != nil {
		return err
	}
	for _, wanted := range definitions {
		done, err := replaceCRD(ctx, c, wanted)
		if err != nil {
			return fmt.Errorf("definition %s: %w", wanted.GetName(), err)
		}
		if err := awaitServed(ctx, c, wanted.GetName()); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(f.Out, "%s: %s\n", wanted.GetName(), done); err != nil {
			return err
		}
	}
	return nil
}

// helmOwner is the name under which Helm 4 applies the definitions of a chart that isn't installed. Written under
// any other, they would be in its way at the next install: it stops at what somebody else owns.
const helmOwner = client.FieldOwner("helm")

// replaceCRD makes one definition what this build says, whoever wrote it before. The list of versions is
// replaced as a whole, so that nothing of an older one is left, such as a rule.
func replaceCRD(ctx context.Context, c client.Client, wanted *unstructured.Unstructured) (done string, err error) {
	found := definition(wanted.GetName())
	err = c.Get(ctx, client.ObjectKeyFromObject(wanted), found)
	if client.IgnoreNotFound(err) != nil {
		return "", err
	}
	before := found.GetResourceVersion()
	applied := wanted.DeepCopy()
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), helmOwner, client.ForceOwnership); err != nil {
		return "", err
	}
	switch before {
	case "":
		return "created", nil
	case applied.GetResourceVersion():
		return "unchanged", nil
	default:
		return "updated", nil
	}
}

// awaitServed returns once the API server serves the kind.
func awaitServed(ctx context.Context, c client.Client, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, establishedWithin, true, func(ctx context.Context) (bool, error) {
		found := definition(name)
		if err := c.Get(ctx, client.ObjectKey{Name: name}, found); err != nil {
			return false, err
		}
		status, _ := found.Object["status"].(map[string]any)
		conditions, _ := status["conditions"].([]any) // null at first
		for _, condition := range conditions {
			if fields, ok := condition.(map[string]any); ok && fields["type"] == "Established" && fields["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("definition %s is written, but the API server does not serve it after %s: kubectl describe crd %s", name, establishedWithin, name)
	}
	return err
}

func definition(name string) *unstructured.Unstructured {
	d := &unstructured.Unstructured{}
	d.SetGroupVersionKind(cluster.DefinitionKind)
	d.SetName(name)
	return d
}
