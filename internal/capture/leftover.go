package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/trial"
)

// Leftovers lists objects without an active Prototype: pods, NodeOrders, Leases, Nodes of trials and workshops, and with pools also what
// is in the cloud in the places of the pools. It belongs to this cluster, by its tag or its Prototype. A snapshot without the tag has the
// name of a pool. A snapshot of a disk in use is a leftover after the end in its tag in any case: the cloud may have shown it after its
// capture went on to another. The Nodes are those of seen; nil if Leftovers lists the Nodes of trials.
func (e *Engine) Leftovers(ctx context.Context, pools []cloud.PoolID, seen *membership.Cluster) ([]reservations.Leftover, error) {
	r := e.leftovers(pools)
	r.seen = seen
	lists := []func(context.Context) ([]reservations.Leftover, error){r.strayPods, r.strayOrders, r.strayLeases, r.strayNodes}
	if len(pools) > 0 {
		lists = append(lists, r.straySnapshots, r.strayTrials, r.strayWorkshops, r.strayCopies)
	}
	var candidates []reservations.Leftover
	for _, list := range lists {
		found, err := list(ctx)
		if err != nil {
			return nil, err
		}
		candidates = append(candidates, found...)
	}
	if len(candidates) == 0 {
		return nil, nil
	}
	// The list of Prototypes is newer than the objects, and so includes captures that have just begun.
	list := &v1alpha1.PrototypeList{}
	if err := e.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list prototypes: %w", err)
	}
	ended := map[types.UID]bool{} // by UID of each Prototype, whether its capture has ended
	for i := range list.Items {
		ended[list.Items[i].UID] = list.Items[i].Status.Terminal()
	}
	var left []reservations.Leftover
	for _, c := range candidates {
		if isEnded, isKnown := ended[c.UID]; isEnded || isKnown && c.Overdue || !isKnown && !c.Unmarked {
			left = append(left, c)
		}
	}
	return left, nil
}

// leftoverCloud has the calls of a cloud.Provider that find and remove what captures left.
type leftoverCloud interface {
	PoolName(id cloud.PoolID) string
	Snapshots(ctx context.Context, pools ...cloud.PoolID) ([]cloud.Snapshot, error)
	DropSnapshot(ctx context.Context, id string) error
	Images(ctx context.Context, pool cloud.PoolID) ([]cloud.Image, error)
	DeleteImage(ctx context.Context, ref cloud.ImageRef) error
	Trials(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error)
	Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error)
	EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error)
	Workshops(ctx context.Context, pools ...cloud.PoolID) ([]cloud.WorkshopSpec, error)
	Workshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error)
	EndWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.State, error)
	Copies(ctx context.Context, pools ...cloud.PoolID) ([]cloud.CopySpec, error)
	EndCopy(ctx context.Context, spec cloud.CopySpec) (cloud.State, error)
}

// leftovers finds and removes the objects of captures that are gone.
type leftovers struct {
	kube         kubernetes.Interface
	client       client.Client
	cloud        leftoverCloud
	leases       node.Reservations
	observer     TrialObserver
	podNamespace string
	pools        []cloud.PoolID // in whose places the cloud is asked
	seen         *membership.Cluster
	now          clock
}

func (e *Engine) leftovers(pools []cloud.PoolID) leftovers {
	return leftovers{
		kube: e.Kube, client: e.Client, cloud: e.Cloud, leases: e.reservations(), observer: e.TrialObserver, podNamespace: e.podNamespace(),
		pools: pools, now: e.now,
	}
}

// strayOrders lists the NodeOrders of generalize pods.
func (r leftovers) strayOrders(ctx context.Context) ([]reservations.Leftover, error) {
	list := &v1alpha1.NodeOrderList{}
	if err := r.client.List(ctx, list, client.InNamespace(r.podNamespace)); err != nil && !apierrors.IsNotFound(err) { // an older version had no NodeOrders
		return nil, fmt.Errorf("list the orders of namespace %s: %w", r.podNamespace, err)
	}
	var found []reservations.Leftover
	for _, o := range list.Items {
		if !o.Spec.Holder.Is(v1alpha1.HolderPrototype) {
			continue // the policy removes the order of its check
		}
		found = append(found,
			reservations.Leftover{Kind: reservations.Order, Name: o.Namespace + "/" + o.Name, Prototype: o.Spec.Holder.Name, UID: o.Spec.Holder.UID})
	}
	return found, nil
}

// strayLeases lists the Leases whose Node is gone, released or never written.
func (r leftovers) strayLeases(ctx context.Context) ([]reservations.Leftover, error) {
	all, err := r.leases.All(ctx)
	if err != nil {
		return nil, err
	}
	var found []reservations.Leftover
	for _, l := range all {
		stray, err := r.isStray(ctx, l)
		switch {
		case err != nil:
			return nil, err
		case stray:
			found = append(found,
				reservations.Leftover{Kind: reservations.Lease, Name: l.Namespace + "/" + l.Name, Prototype: l.Reservation.Name, UID: l.Reservation.UID})
		}
	}
	return found, nil
}

// isStray reports whether no Node needs the Lease. A changed Node may still be restored from the Lease, even if its
// reservation is gone.
func (r leftovers) isStray(ctx context.Context, l node.Lease) (bool, error) {
	n, err := r.kube.CoreV1().Nodes().Get(ctx, l.Node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read node %s: %w", l.Node, err)
	case !l.Of(n):
		return true, nil
	case r.now().Sub(l.WrittenAt) < node.Settled:
		return false, nil
	}
	shadow, err := v1alpha1.ReservationOf(n.Annotations)
	return err == nil && (shadow == nil || !shadow.Same(l.Reservation.Holder)) && node.AsBefore(n, l.Reservation), nil
}

// dropLease deletes the Lease if the holder is unchanged.
func (r leftovers) dropLease(ctx context.Context, l reservations.Leftover) error {
	all, err := r.leases.All(ctx)
	for _, lease := range all {
		if lease.Namespace+"/"+lease.Name == l.Name && lease.Reservation.UID == l.UID {
			return r.leases.Drop(ctx, lease)
		}
	}
	return err
}

// straySnapshots lists the snapshots of the pools that are not being deleted.
func (r leftovers) straySnapshots(ctx context.Context) ([]reservations.Leftover, error) {
	list, err := r.cloud.Snapshots(ctx, r.pools...)
	if err != nil {
		return nil, err
	}
	var found []reservations.Leftover
	for _, s := range list {
		ofPool := func(pool cloud.PoolID) bool { return versionIn(s.Name, r.cloud.PoolName(pool)) != "" }
		if s.State != cloud.Deleting && (s.Origin == cloud.Own || slices.ContainsFunc(r.pools, ofPool)) {
			found = append(found, reservations.Leftover{
				Kind: reservations.Snapshot, Name: s.ID, Prototype: s.Name, UID: types.UID(s.Tags[cloud.TagUID]), Unmarked: s.Origin == cloud.Unmarked,
				Overdue: isOver(s.Tags, r.now()), HeldBy: s.HeldBy, Release: s.Release,
			})
		}
	}
	return found, nil
}

// isOver reports whether the end in the tags has passed.
func isOver(tags map[string]string, now time.Time) bool {
	end, err := time.Parse(time.RFC3339, tags[cloud.TagEndsAt])
	return err == nil && now.After(end)
}

// strayPods lists the generalize pods.
func (r leftovers) strayPods(ctx context.Context) ([]reservations.Leftover, error) {
	list, err := r.kube.CoreV1().Pods(r.podNamespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.PrototypeUIDLabel})
	if err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s: %w", r.podNamespace, err)
	}
	var found []reservations.Leftover
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Spec.ServiceAccountName == v1alpha1.GeneralizeServiceAccount {
			found = append(found, reservations.Leftover{Kind: reservations.Pod, Name: pod.Namespace + "/" + pod.Name,
				Prototype: pod.Labels[v1alpha1.PrototypeLabel], UID: types.UID(pod.Labels[v1alpha1.PrototypeUIDLabel])})
		}
	}
	return found, nil
}

const (
	// nodeSettled is the time for the cloud's controller to delete the Node of a deleted instance.
	nodeSettled = 15 * time.Minute
	// nodeOverdue is longer than a failed trial may be kept.
	nodeOverdue = 26 * time.Hour
)

// strayNodes lists the Nodes of trials and workshops whose kubelet stopped reporting. A capture ends after its instances are gone.
func (r leftovers) strayNodes(ctx context.Context) (found []reservations.Leftover, err error) {
	nodes, err := r.trialNodes(ctx)
	for _, n := range nodes {
		since, ready := nodestate.ReadySince(n)
		if since.IsZero() {
			since = n.CreationTimestamp.Time
		}
		down := r.now().Sub(since)
		if ready || down < nodeSettled {
			continue
		}
		var mark struct{ Prototype string }
		_ = json.Unmarshal([]byte(n.Annotations[v1alpha1.TrialKey]), &mark) // the label has the UID
		found = append(found, reservations.Leftover{Kind: reservations.TrialNode, Name: n.Name, Prototype: mark.Prototype,
			UID: types.UID(n.Labels[v1alpha1.TrialKey]), Overdue: down > nodeOverdue})
	}
	return found, err
}

func (r leftovers) trialNodes(ctx context.Context) (nodes []*corev1.Node, err error) {
	if r.seen != nil {
		return r.seen.With(v1alpha1.TrialKey), nil
	}
	err = node.Each(ctx, r.kube, v1alpha1.TrialKey, func(n *corev1.Node) error { nodes = append(nodes, n); return nil })
	return nodes, err
}

// SweepLeftovers removes the objects that Leftovers lists, but no Nodes: their captures have tried that, with the UID of the record. An
// unfinished image version is removed before its snapshot; the next sweep removes the snapshot.
func (e *Engine) SweepLeftovers(ctx context.Context, pools []cloud.PoolID) ([]reservations.Leftover, error) {
	left, err := e.Leftovers(ctx, pools, nil)
	if err != nil {
		return nil, err
	}
	left = slices.DeleteFunc(left, func(l reservations.Leftover) bool { return l.Kind == reservations.TrialNode })
	var problems []error
	for _, l := range left { // an error of one leftover does not stop the others
		problems = append(problems, e.leftovers(pools).remove(ctx, l))
	}
	return left, errors.Join(problems...)
}

func (r leftovers) remove(ctx context.Context, l reservations.Leftover) error {
	switch namespace, name, _ := strings.Cut(l.Name, "/"); l.Kind {
	case reservations.Trial:
		return r.endTrial(ctx, l)
	case reservations.Workshop:
		return r.endWorkshop(ctx, l)
	case reservations.Copy:
		return r.endCopy(ctx, l)
	case reservations.Lease:
		return r.dropLease(ctx, l)
	case reservations.Pod:
		now := int64(0)
		err := r.kube.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete pod %s: %w", l.Name, err)
		}
		return nil
	case reservations.Order: // the Secret with the key has the NodeOrder as owner
		order := &v1alpha1.NodeOrder{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if err := client.IgnoreNotFound(r.client.Delete(ctx, order)); err != nil {
			return fmt.Errorf("delete order %s: %w", l.Name, err)
		}
		return nil
	}
	if l.Overdue { // no image is made from a disk in use
		return r.cloud.DropSnapshot(ctx, l.Name)
	}
	for _, pool := range r.pools {
		images, err := r.cloud.Images(ctx, pool)
		if err != nil {
			return err
		}
		for _, image := range images {
			if image.Tags[cloud.TagUID] == string(l.UID) && (image.State == cloud.Pending || image.State == cloud.Failed) {
				return r.cloud.DeleteImage(ctx, cloud.ImageRef{Pool: pool, Version: image.Version})
			}
		}
	}
	return r.cloud.DropSnapshot(ctx, l.Name)
}

// strayWorkshops lists the workshops of the pools, and strayCopies the disks made from copies of donors' disks.
func (r leftovers) strayWorkshops(ctx context.Context) (found []reservations.Leftover, err error) {
	specs, err := r.cloud.Workshops(ctx, r.pools...)
	for _, spec := range specs {
		found = appendTagged(found, reservations.Workshop, spec.Name, spec.Tags, spec.Origin)
	}
	return found, err
}

func (r leftovers) strayCopies(ctx context.Context) (found []reservations.Leftover, err error) {
	specs, err := r.cloud.Copies(ctx, r.pools...)
	for _, spec := range specs {
		found = appendTagged(found, reservations.Copy, spec.Name, spec.Tags, spec.Origin)
	}
	return found, err
}

// appendTagged appends an object of the cloud that carries the UID of a Prototype. An object without a UID cannot be matched, and
// stays.
func appendTagged(to []reservations.Leftover, kind, name string, tags map[string]string, origin cloud.Origin) []reservations.Leftover {
	uid := tags[cloud.TagUID]
	if uid == "" {
		return to
	}
	return append(to, reservations.Leftover{
		Kind: kind, Name: name, Prototype: tags[cloud.TagPrototype], UID: types.UID(uid), Unmarked: origin == cloud.Unmarked,
	})
}

// endWorkshop continues the end of a workshop without an active capture.
func (r leftovers) endWorkshop(ctx context.Context, l reservations.Leftover) error {
	specs, err := r.cloud.Workshops(ctx, r.pools...)
	for _, spec := range specs {
		if spec.Name != l.Name || spec.Tags[cloud.TagUID] != string(l.UID) {
			continue
		}
		seen, err := r.cloud.Workshop(ctx, spec)
		if err != nil {
			return err
		}
		_, err = r.cloud.EndWorkshop(ctx, spec)
		return errors.Join(err, r.clean(ctx, l, cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: spec.Pool}, Name: spec.Name, Tags: spec.Tags}, seen))
	}
	return err
}

// endCopy deletes the disk. It holds the donor's secrets.
func (r leftovers) endCopy(ctx context.Context, l reservations.Leftover) error {
	specs, err := r.cloud.Copies(ctx, r.pools...)
	for _, spec := range specs {
		if spec.Name == l.Name && spec.Tags[cloud.TagUID] == string(l.UID) {
			_, err = r.cloud.EndCopy(ctx, spec)
			return err
		}
	}
	return err
}

// clean removes what the machine beside the pool left in the cluster.
func (r leftovers) clean(ctx context.Context, l reservations.Leftover, spec cloud.TrialSpec, seen cloud.Trial) error {
	if r.observer == nil {
		return nil
	}
	p := &v1alpha1.Prototype{}
	p.Name, p.UID = l.Prototype, l.UID
	_, err := r.observer.Clean(ctx, trial.Subject{Prototype: p, Pool: spec.Pool, Spec: spec, Instances: seen.Instances})
	return err
}

// strayTrials lists the trials of the pools in the cloud that carry the UID of a Prototype. A trial without a UID
// cannot be matched, and stays.
func (r leftovers) strayTrials(ctx context.Context) ([]reservations.Leftover, error) {
	specs, err := r.cloud.Trials(ctx, r.pools...)
	if err != nil {
		return nil, err
	}
	var found []reservations.Leftover
	for _, spec := range specs {
		found = appendTagged(found, reservations.Trial, spec.Name, spec.Tags, spec.Origin)
	}
	return found, nil
}

// endTrial continues the end of a trial without an active capture: objects on its Nodes, and objects in the cloud.
func (r leftovers) endTrial(ctx context.Context, l reservations.Leftover) error {
	specs, err := r.cloud.Trials(ctx, r.pools...)
	if err != nil {
		return err
	}
	for _, spec := range specs {
		if spec.Name == l.Name && spec.Tags[cloud.TagUID] == string(l.UID) {
			return r.endTrialOf(ctx, l, spec)
		}
	}
	return nil
}

func (r leftovers) endTrialOf(ctx context.Context, l reservations.Leftover, spec cloud.TrialSpec) error {
	seen, err := r.cloud.Trial(ctx, spec)
	if err != nil {
		return err
	}
	_, err = r.cloud.EndTrial(ctx, spec)
	return errors.Join(err, r.clean(ctx, l, spec, seen))
}
