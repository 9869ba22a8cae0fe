package cli

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/internal/retention"
)

// census finds the pools of the cluster's nodes, ordered by name.
func (s *session) census(ctx context.Context) ([]print.Pool, error) {
	pools := map[cloud.PoolID]*print.Pool{}
	if err := s.eachMember(ctx, func(n *corev1.Node, of cloud.Membership) { s.countNode(pools, n, of.Pool) }); err != nil {
		return nil, err
	}
	ordered := make([]print.Pool, 0, len(pools))
	for _, p := range pools {
		ordered = append(ordered, *p)
	}
	slices.SortFunc(ordered, func(a, b print.Pool) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return ordered, nil
}

// countNode counts a node in its pool. A node of no pool, such as a control plane's own VM, is no error.
func (s *session) countNode(pools map[cloud.PoolID]*print.Pool, node *corev1.Node, id cloud.PoolID) {
	if id == "" {
		return
	}
	if pools[id] == nil {
		pools[id] = &print.Pool{Pool: cloud.Pool{ID: id, Name: s.provider.PoolName(id)}}
	}
	pools[id].Nodes++
	if nodestate.Ready(node) {
		pools[id].ReadyNodes++
	}
}

// lookAtPool fills in what the cloud knows of the pool and its versions.
func (s *session) lookAtPool(ctx context.Context, pool *print.Pool) error {
	seen, err := s.provider.Pool(ctx, pool.ID)
	if err != nil {
		return err
	}
	pool.Pool = seen
	images, err := s.provider.Images(ctx, pool.ID)
	if err != nil {
		return err
	}
	reasons := map[string]retention.Reason{}
	for _, v := range retention.Decide(images, seen.Recipe.Version, 0, nil) {
		reasons[v.Version] = v.Reason
	}
	pool.Gone = history.Gone(seen, images)
	for _, image := range slices.Backward(images) {
		pool.Versions = append(pool.Versions, version(image, reasons[image.Version]))
	}
	return nil
}

func version(image cloud.Image, reason retention.Reason) print.Version {
	return print.Version{
		Version: image.Version, State: image.State, Percent: image.Percent, ID: image.ID, SizeGB: image.SizeGB, Error: image.Error,
		Donor: image.Tags[cloud.TagBuiltFrom], BuiltAt: history.BuiltAt(image), Prototype: image.Tags[cloud.TagPrototype],
		Proof: image.Tags[cloud.TagProof], Verified: image.Tags[cloud.TagVerified], Quarantined: image.Tags[cloud.TagQuarantined],
		Current: reason == retention.Current, Prior: reason == retention.Prior,
	}
}
