package cli

import (
	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/cli/clouds"
	"github.com/kamino-dev/kamino/internal/cloud/capi"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
	"github.com/kamino-dev/kamino/internal/manifest"
)

func newManifestsCommand(f *Factory, o *Options) *cobra.Command {
	m := manifest.Options{}
	cmd := &cobra.Command{
		Use:   "manifests",
		Short: "Print what a cluster needs for Kamino as YAML",
		Long: `Print the definitions of Kamino's kinds, its namespace, its identities and their permissions. That is all that
"kamino capture" needs. With --controller, the Deployment of the controller is printed too. What the cloud must allow, --iam prints.`,
		Example: `  # For use from a laptop
  kamino manifests | kubectl apply -f -

  # With the controller as well: the namespace is there now, and takes a Secret that says how to reach the cloud
  kubectl -n kamino-system create secret generic kamino-cloud-config --from-file=` + registry.All()[0].ConfigFile + `
  kamino manifests --controller --cloud ` + registry.All()[0].Name + ` --cloud-config-secret kamino-cloud-config | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			m.Namespace, m.GeneralizeNamespace = o.Namespace, o.GeneralizeNamespace
			if m.CloudConfigSecret != "" || m.IAM || m.Management != "" {
				about, err := registry.All().Choose(o.Clouds.Name, nil)
				if err == nil && m.Management != "" {
					m.ManagementRules, err = capi.Rules(about)
					m.ManagementApart = capi.RulesApart(about)
				}
				if err != nil {
					return &ending{ExitUsage, err}
				}
				m.ConfigFile, m.Grant = about.ConfigFile, about.Grant
			}
			if err := manifest.Write(f.Out, m); err != nil {
				return &ending{ExitUsage, err}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&m.Force, "force", false, "also give the right to delete any pod, for drains with force")
	cmd.Flags().BoolVar(&m.RemoveDonors, "remove-donors", false, "also give the right to delete a Node, for donors that do not return")
	cmd.Flags().BoolVar(&m.IAM, "iam", false, "print instead, in JSON, what the cloud's IAM must allow: an IAM policy, a role definition; needs --cloud")
	cmd.Flags().StringVar(&m.Management, "management", "",
		"print instead what Cluster API's management cluster needs: an account, and its Role in the `namespace` of the Cluster; needs --cloud")
	cmd.MarkFlagsMutuallyExclusive("iam", "management")
	cmd.Flags().BoolVar(&m.Controller, "controller", false, "also print the controller's Deployment")
	cmd.Flags().StringVar(&m.Image, "image", defaultImage(f.Getenv), "image of the controller and of its generalize pods")
	cmd.Flags().BoolVar(&m.NoAdmissionPolicy, "no-admission-policy", false,
		"leave the ValidatingAdmissionPolicy out, which an API server before version 1.30 does not know")
	cmd.Flags().StringVar(&m.CloudConfigSecret, "cloud-config-secret", "",
		"`name` of a Secret whose key "+clouds.ConfigFiles()+" configures the cloud (default: the pod's workload identity)")
	return cmd
}
