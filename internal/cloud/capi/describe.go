package capi

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Docs is the page of the documentation about these recipes.
const Docs = "docs/cluster-api.md"

// Describe is what a cloud says of itself where Cluster API builds its nodes: the recipes are these, and the rest is the cloud's. An
// error if the cloud's own half cannot be had alone.
func Describe(d cloud.Description, management *rest.Config, cluster types.NamespacedName) (cloud.Description, error) {
	disks := d.NewDisks
	if disks == nil {
		return d, fmt.Errorf("the nodes are Machines of Cluster API's Cluster %s, and on %s such nodes cannot be captured yet: see %s", cluster, d.Name, Docs)
	}
	d.New = func(ctx context.Context, c cloud.Config) (cloud.Provider, string, error) {
		half, source, err := disks(ctx, c)
		if err != nil {
			return nil, "", err
		}
		images, able := half.(Images)
		if !able {
			return nil, "", fmt.Errorf("the disks of %s cannot tell Cluster API's recipes how their images are named", d.Name)
		}
		recipes, err := New(Config{Management: management, Cluster: cluster, Images: images})
		if err != nil {
			return nil, "", err
		}
		return cloud.New(half, recipes), source + ", and Cluster " + cluster.String() + " at " + management.Host, nil
	}
	d.Reasons = WithReasons(d).Reasons
	d.Remedies.Pool = "see whether the MachineDeployment or MachinePool still exists in namespace " + cluster.Namespace + " of the management cluster"
	d.Remedies.Permissions += "; if it is the management cluster that denies, " + giveRights
	d.Remedies.NoPool = "see " + Docs + ": a node must be a Machine of a MachineDeployment, a MachineSet or a MachinePool of Cluster " + cluster.String()
	return d, nil
}

// WithReasons is the description with the reasons that these recipes add to its own.
func WithReasons(d cloud.Description) cloud.Description {
	d.Reasons = slices.Clone(d.Reasons)
	for _, reason := range Reasons() {
		if !slices.ContainsFunc(d.Reasons, func(r cloud.Reason) bool { return r.Name == reason.Name }) {
			d.Reasons = append(d.Reasons, reason)
		}
	}
	return d
}
