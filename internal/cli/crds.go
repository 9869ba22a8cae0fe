package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// replaceCRD makes one definition's spec what this build says, whoever wrote it before. A server-side apply
// would leave what another field manager wrote and this build has no more, such as a rule.
func replaceCRD(ctx context.Context, c client.Client, wanted *unstructured.Unstructured) (done string, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		found := definition(wanted.GetName())
		err := c.Get(ctx, client.ObjectKeyFromObject(wanted), found)
		if apierrors.IsNotFound(err) {
			done = "created"
			return c.Create(ctx, wanted.DeepCopy())
		}
		if err != nil {
			return err
		}
		before := found.GetResourceVersion()
		found.Object["spec"] = wanted.DeepCopy().Object["spec"]
		annotations := found.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		for name, value := range wanted.GetAnnotations() {
			annotations[name] = value
		}
		found.SetAnnotations(annotations)
		err = c.Update(ctx, found)
		done = "updated"
		if found.GetResourceVersion() == before {
			done = "unchanged"
		}
		return err
	})
	return done, err
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
	d.SetGroupVersionKind(definitionKind)
	d.SetName(name)
	return d
}
