package runner

import (
	"fmt"

	"k8s.io/client-go/metadata"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/controller/nodelabel"
	"github.com/kamino-dev/kamino/internal/imageversion/imagecount"
	"github.com/kamino-dev/kamino/internal/policy"
)

// labeler returns the Labeler, which writes the version of a node's image on the Node.
func (k *Controller) labeler(c *cluster.Connection, provider cloud.Provider, looks *policy.PoolCache) (*nodelabel.Labeler, error) {
	objects, err := metadata.NewForConfigAndClient(metadata.ConfigFor(c.Config), c.HTTP)
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	return &nodelabel.Labeler{
		Kube: c.Kube, Metadata: objects, Cloud: provider, Now: k.Now,
		Counted: func(pool cloud.PoolID, byVersion map[string]int) {
			k.Counts.NodesCounted(pool, provider.PoolName(pool), byVersion)
		},
		Listed: func(pool cloud.PoolID, instances []cloud.Instance) {
			limit := provider.MaxImages(pool)
			looks.Counted(pool, imagecount.Of(cloud.Recipe{}, instances, limit).Brief())
			if limit > 0 {
				counted := imagecount.Of(looks.Last(pool).Pool.Recipe, instances, limit)
				k.Counts.ImagesCounted(pool, provider.PoolName(pool), len(counted.Images), limit)
			}
		},
		Joined: k.Counts.NodeJoined,
		Log:    k.Log.WithName("nodelabel"),
	}, nil
}
