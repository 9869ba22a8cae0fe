package capi

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A Cluster can be moved to another management cluster. `clusterctl move` pauses it, makes all its objects there, each with a UID of its
// own, deletes them here, the Cluster last, and takes the pause away there. In between, what is written here can be lost, and what is
// missing here is not gone. So nothing is written, and no absence is believed, unless the Cluster is here and not paused after it was
// seen. Source: Cluster API, cmd/clusterctl/client/cluster, mover.go.

// reasonMoved is the code of errors about a Cluster that is not in the management cluster.
const reasonMoved = "ClusterNotHere"

// theCluster reads the Cluster.
func (r *world) theCluster(ctx context.Context, op string) (object, error) {
	cluster, err := r.kube.get(ctx, core(kindCluster), r.cluster.Name)
	if cloud.Is(err, cloud.NotFound) {
		return object{}, &cloud.Error{Kind: cloud.Unavailable, Op: op, Resource: kindCluster + " " + r.cluster.String(), Code: reasonMoved,
			Message: "it is not in this management cluster: if it was moved to another one, name that one with --management-kubeconfig; what was begun goes on there"}
	}
	return cluster, err
}

// atHome is nil where the Cluster is here to stay, by a look of its own. It comes before a write, and after an absence was seen.
func (r *world) atHome(ctx context.Context, op string) error {
	cluster, err := r.theCluster(cloud.WithoutReadCache(ctx), op)
	if err != nil || !cluster.paused() {
		return err
	}
	return &cloud.Error{Kind: cloud.Unavailable, Op: op, Resource: cluster.String(), Code: reasonPaused,
		Message: "it is paused, as while it is moved to another management cluster: nothing is written until the pause is gone"}
}

// believed is an error of a look; one that something does not exist only if that can be believed.
func (r *world) believed(ctx context.Context, op string, err error) error {
	if !cloud.Is(err, cloud.NotFound) {
		return err
	}
	if away := r.atHome(ctx, op); away != nil {
		return away
	}
	return err
}
