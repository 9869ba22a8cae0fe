package capi

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// `clusterctl move` pauses a Cluster, creates all objects in the target and deletes the source, where writes can be lost. So
// Kamino writes, and trusts a missing object, only after a read without a pause. Source: Cluster API,
// cmd/clusterctl/client/cluster, mover.go.

// reasonMoved is the code of errors about a Cluster that is not in the management cluster.
const reasonMoved = "ClusterNotHere"

// readCluster reads the Cluster.
func (r *clusterAccess) readCluster(ctx context.Context, op string) (object, error) {
	cluster, err := r.kube.get(ctx, core(kindCluster), r.cluster.Name)
	if cloud.Is(err, cloud.NotFound) {
		return object{}, &cloud.Error{Kind: cloud.Unavailable, Op: op, Resource: kindCluster + " " + r.cluster.String(), Code: reasonMoved,
			Message: "the Cluster is not in this management cluster: after a move, name the new management cluster with --management-kubeconfig; " +
				"a begun capture continues there"}
	}
	return cluster, err
}

// requireNotMoved returns nil if a new read shows the Cluster without a pause. Call requireNotMoved before a write, and after an object was
// missing.
func (r *clusterAccess) requireNotMoved(ctx context.Context, op string) error {
	cluster, err := r.readCluster(cloud.WithoutReadCache(ctx), op)
	if err != nil || !cluster.paused() {
		return err
	}
	return &cloud.Error{Kind: cloud.Unavailable, Op: op, Resource: cluster.String(), Code: reasonPaused,
		Message: "the Cluster is paused, perhaps for a move to another management cluster: end the pause"}
}

// confirmMissing returns the error of a read. NotFound is returned only if requireNotMoved confirms the Cluster.
func (r *clusterAccess) confirmMissing(ctx context.Context, op string, err error) error {
	if !cloud.Is(err, cloud.NotFound) {
		return err
	}
	if away := r.requireNotMoved(ctx, op); away != nil {
		return away
	}
	return err
}
