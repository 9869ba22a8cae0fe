package cli

import (
	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/build"
	"github.com/kamino-dev/kamino/internal/cli/clouds"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/capi"
	"github.com/kamino-dev/kamino/internal/cloud/karpenter"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
	"github.com/kamino-dev/kamino/internal/manifest"
)

func newManifestsCommand(f *Factory, o *Options) *cobra.Command {
	m, crds, ofKarpenter, inPlace, rebuilds, warm := manifest.Options{}, false, false, false, false, false
	cmd := &cobra.Command{
		Use:   "manifests",
		Short: "Print the manifests that Kamino needs in the cluster as YAML",
		Long: `Print Kamino's CustomResourceDefinitions, namespaces, service accounts and permissions, which is all that "kamino capture" needs. --controller adds the
controller's Deployment. --iam prints the cloud permissions instead, and --crds only the definitions.`,
		Example: `  # For use from a laptop
  kamino manifests | kubectl apply --server-side -f -

  # With the controller: create a Secret with the cloud configuration in the new namespace
  kubectl -n kamino-system create secret generic kamino-cloud-config --from-file=` + registry.All()[0].ConfigFile + `
  kamino manifests --controller --cloud ` + registry.All()[0].Name + ` --cloud-config-secret cloud |
    kubectl apply --server-side -f -

  # Replace the definitions of another version
  ` + v1alpha1.DefinitionsCommand,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if crds {
				return manifest.CRDs(f.Out)
			}
			if ofKarpenter {
				m.KarpenterRules = karpenter.Rules()
			}
			m.Namespace, m.GeneralizeNamespace = o.Namespace, o.GeneralizeNamespace
			if m.CloudConfigSecret != "" || m.IAM || m.Management != "" {
				about, err := registry.All().Choose(o.Clouds.Name, nil)
				if err == nil && m.Management != "" {
					m.ManagementRules, err = capi.Rules(about)
					m.ManagementApart = capi.RulesApart(about)
				}
				if err != nil {
					return &failure{Code: ExitUsage, Err: err}
				}
				m.ConfigFile, m.Grant = about.ConfigFile, about.Grant
				if inPlace {
					m.Powers = append(m.Powers, cloud.ForInPlace)
				}
				if warm {
					m.Powers = append(m.Powers, cloud.ForWarmPool)
				}
				if rebuilds {
					m.Powers = append(m.Powers, cloud.ForRebuild)
				}
			}
			if err := manifest.Write(f.Out, m); err != nil {
				return &failure{Code: ExitUsage, Err: err}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&m.Force, "force", false, "also grant the permission to delete any pod, for drains with --force")
	cmd.Flags().BoolVar(&m.DeleteTrialNodes, "delete-trial-nodes", false,
		"also grant the permission to delete the Nodes of trials and workshops whose instance is gone")
	cmd.Flags().BoolVar(&ofKarpenter, "karpenter", false,
		"also grant the permissions on Karpenter's objects: to write the image of an EC2NodeClass, and to build trials and workshops as NodeClaims")
	cmd.Flags().BoolVar(&inPlace, "in-place", false, "with --iam: also the permissions to stop, start and hold donors, for captures in place")
	cmd.Flags().BoolVar(&rebuilds, "rebuild", false, "with --iam: also the permissions to rebuild nodes")
	cmd.Flags().BoolVar(&warm, "warm-pool", false, "with --iam: also the permissions to renew warm pools")
	cmd.Flags().BoolVar(&m.IAM, "iam", false, "print the cloud permissions as JSON instead: an IAM policy or a role definition; needs --cloud")
	cmd.Flags().StringVar(&m.Management, "management", "",
		"print the manifests for the Cluster API management cluster instead: a service account, and a Role in the `namespace` of the Cluster; needs --cloud")
	cmd.Flags().BoolVar(&crds, "crds", false, "print only the CustomResourceDefinitions")
	cmd.MarkFlagsMutuallyExclusive("iam", "management", "crds")
	cmd.Flags().BoolVar(&m.Controller, "controller", false, "also print the controller's Deployment")
	cmd.Flags().StringVar(&m.Image, "image", defaultImage(f.Getenv), "with --controller: image of the pods on nodes")
	cmd.Flags().StringVar(&m.ControllerImage, "controller-image", build.Read().ControllerImage, "with --controller: image of the controller")
	cmd.Flags().BoolVar(&m.NoAdmissionPolicy, "no-admission-policy", false,
		"omit the ValidatingAdmissionPolicy, which API servers older than 1.30 do not support")
	cmd.Flags().StringVar(&m.CloudConfigSecret, "cloud-config-secret", "",
		"`name` of the Secret with the cloud configuration in key "+clouds.ConfigFiles()+" (default: the pod's workload identity)")
	return cmd
}
