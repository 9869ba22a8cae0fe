package runner

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/metadata"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/controller/nodelabel"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/policy"
)

// labeler returns the Labeler, which writes the version of a node's image on the Node. Labeler and policies share the lists
// of instances.
func (k *Controller) labeler(c *cluster.Connection, provider cloud.Provider, looks *policy.PoolCache) (*nodelabel.Labeler, error) {
	objects, err := metadata.NewForConfigAndClient(metadata.ConfigFor(c.Config), c.HTTP)
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	looks.Listed = func(pool cloud.PoolID, instances []cloud.Instance) {
		byVersion := map[string]int{}
		for _, instance := range instances {
			byVersion[v1alpha1.VersionLabelValue(instance.BuiltFrom)]++
		}
		counted := imagecount.Of(looks.Last(pool).Pool.Recipe, instances, provider.MaxImages(pool))
		k.Counts.InstancesListed(pool, provider.PoolName(pool), byVersion, len(counted.Images), counted.Limit)
	}
	return &nodelabel.Labeler{
		Kube: c.Kube, Metadata: objects, Cloud: provider, Now: k.Now, Joined: k.Counts.NodeJoined, Log: k.Log.WithName("nodelabel"),
		Instances: func(ctx context.Context, pool cloud.PoolID, maxAge time.Duration) ([]cloud.Instance, error) {
			list, err := looks.Instances(ctx, pool, maxAge)
			return list.Instances, err
		},
	}, nil
}
