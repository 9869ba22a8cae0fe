package cli

import (
	"fmt"

	"k8s.io/client-go/metadata"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/controller/nodelabel"
	"github.com/kamino-dev/kamino/internal/metrics"
)

// labeler is what writes on nodes which version they were built from.
func (s *session) labeler(provider cloud.Provider, counts *metrics.Metrics) (*nodelabel.Labeler, error) {
	objects, err := metadata.NewForConfigAndClient(metadata.ConfigFor(s.cluster.Config), s.cluster.HTTP)
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	return &nodelabel.Labeler{
		Kube: s.cluster.Kube, Metadata: objects, Cloud: provider, Now: s.Now,
		Counted: func(pool cloud.PoolID, byVersion map[string]int) {
			counts.NodesCounted(pool, provider.PoolName(pool), byVersion)
		},
		Joined: counts.NodeJoined,
		Log:    s.options.Log.WithName("nodelabel"),
	}, nil
}
