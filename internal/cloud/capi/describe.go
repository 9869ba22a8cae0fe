package capi

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// Describe returns a cloud's description for nodes of Cluster API, with pools from this package and all else from the
// cloud. Describe returns an error if the cloud has no separate ImageProvider.
func Describe(d cloud.Description, management *rest.Config, cluster types.NamespacedName) (cloud.Description, error) {
	disks := d.NewDisks
	if disks == nil {
		return d, fmt.Errorf("the nodes are Machines of Cluster %s of Cluster API, which Kamino does not support on %s: see %s",
			cluster, d.Name, page.ClusterAPI)
	}
	d.New = func(ctx context.Context, c cloud.Config) (cloud.Provider, string, error) {
		half, source, err := disks(ctx, c)
		if err != nil {
			return cloud.Provider{}, "", err
		}
		recipes, err := New(Config{Management: management, Cluster: cluster, Images: half})
		if err != nil {
			return cloud.Provider{}, "", err
		}
		return cloud.New(half, cloud.RecipesOf(recipes)), source + ", and Cluster " + cluster.String() + " at " + management.Host, nil
	}
	d.Reasons = WithReasons(d).Reasons
	d.Remedies.Pool = "check that the MachineDeployment or MachinePool exists in namespace " + cluster.Namespace + " of the management cluster"
	d.Remedies.Permissions += "; if the management cluster refused, " + giveRights
	d.Remedies.NoPool = "a node must be a Machine of a MachineDeployment, a MachineSet or a MachinePool of Cluster " + cluster.String() +
		": see " + page.ClusterAPI
	return d, nil
}

// WithReasons returns the description with the reasons of this package.
func WithReasons(d cloud.Description) cloud.Description {
	d.Reasons = slices.Clone(d.Reasons)
	for _, reason := range Reasons() {
		if !slices.ContainsFunc(d.Reasons, func(r cloud.Reason) bool { return r.Name == reason.Name }) {
			d.Reasons = append(d.Reasons, reason)
		}
	}
	return d
}
