package capture

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/kured"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// poolFinder has the calls of a cloud.Provider that find and name the pools of nodes.
type poolFinder interface {
	membership.Registry
	PoolName(id cloud.PoolID) string
}

// preflight gathers all facts for the admission of a capture.
type preflight struct {
	clusterChecks clusterChecks
	cloudChecks   cloudChecks
	kube          kubernetes.Interface
	client        client.Client
	cloud         poolFinder
	leases        node.Reservations
	rules         ruleReader
	process       admission.Process
	kured         string
	concurrent    func() int
	// seen is the look of a caller with many captures in mind; nil if the preflight looks for itself.
	seen *membership.Cluster
	now  clock
}

// gather collects all facts for the admission of a capture; package admission decides. A failed read becomes part of
// the case, and the other reads continue.
func (q preflight) gather(ctx context.Context, w *pass) *admission.Case {
	c := &admission.Case{
		Now: q.now(), Prototype: w.p, Pool: w.pool, Unplaced: w.noPoolReason, Process: q.process, Again: w.facts.Disk.Pod != plan.NoPod,
	}
	if c.Pool == "" {
		return c
	}
	c.PoolName, c.CanCopy, c.InPlace = q.cloud.PoolName(w.pool), q.cloudChecks.canCopy(), q.cloudChecks.cloud.CapturesInPlace()
	c.Donor = admission.Found(admission.Donor{Node: w.donor.namedNode, Replaced: w.donor.namedNode != nil && w.donor.node == nil})
	q.turn(ctx, w, c)
	if w.donor.node != nil {
		q.surroundings(ctx, w, c)
	}
	if c.Strayed() {
		return c
	}
	if !c.StaysInService() {
		q.pods(ctx, w, c)
	}
	if c.Again {
		return c
	}
	q.cluster(ctx, w, c)
	q.cloudChecks.cloudFacts(ctx, w, c)
	if c.CopiesDonor() {
		info, err := membership.Once(q.seen, clusterInfo, func() (map[string]string, error) {
			return q.clusterChecks.configMapData(ctx, metav1.NamespacePublic, clusterInfo)
		})
		c.NoToken = admission.LookupOf(noToken(info, w), err)
	}
	return c
}

// turn reads the other captures and the kured lock.
func (q preflight) turn(ctx context.Context, w *pass, c *admission.Case) {
	all, err := membership.Once(q.seen, "captures", func() (captures, error) { return q.captures(ctx) })
	isSelf := func(name string) bool { return name == w.p.Name }
	w.preflight.activeCaptures = slices.DeleteFunc(slices.Clone(all.holding), func(p v1alpha1.Prototype) bool { return isSelf(p.Name) })
	lock, kuredErr := membership.Once(q.seen, "kured", func() (kured.Lock, error) { return kured.Read(ctx, q.kube, q.kured, q.now()) })
	w.preflight.kured = lock
	reboots := lock.Node != "" && (!c.StaysInService() || lock.Node == w.p.Spec.Donor.NodeName) // kured may reboot other nodes during a copy
	c.Queued = admission.LookupOf(len(w.preflight.activeCaptures) >= q.concurrent() || reboots, cmp.Or(err, kuredErr))
	if err = cmp.Or(err, all.unplaced); err != nil {
		c.Others = admission.Unread[[]admission.OtherCapture](err)
		return
	}
	others := slices.Concat(all.byPool[w.pool], all.byPool[""])
	c.Others = admission.Found(slices.DeleteFunc(others, func(other admission.OtherCapture) bool { return isSelf(other.Prototype.Name) }))
}

// captures are the Prototypes of the cluster, by pool, and those that hold a donor. unplaced is why their pools are unknown.
type captures struct {
	byPool   map[cloud.PoolID][]admission.OtherCapture
	holding  []v1alpha1.Prototype
	unplaced error
}

// captures lists the Prototypes. There are none in a cluster without the definitions, where a preview is possible.
func (q preflight) captures(ctx context.Context) (captures, error) {
	list := &v1alpha1.PrototypeList{}
	if q.seen != nil && q.seen.Prototypes != nil {
		list.Items = q.seen.Prototypes
	} else if err := q.client.List(ctx, list); err != nil && !apierrors.IsNotFound(err) {
		return captures{}, fmt.Errorf("list prototypes: %w", err)
	}
	of, err := membership.OfPrototypes(ctx, q.cloud, list.Items)
	all := captures{byPool: map[cloud.PoolID][]admission.OtherCapture{}, holding: holding(list.Items), unplaced: err}
	for i := range of {
		all.byPool[of[i].Pool] = append(all.byPool[of[i].Pool], admission.OtherCapture{Prototype: &list.Items[i], Pool: of[i].Pool})
	}
	return all, nil
}

// holding returns the Prototypes that hold a donor.
func holding(prototypes []v1alpha1.Prototype) (holding []v1alpha1.Prototype) {
	for i := range prototypes {
		p := &prototypes[i]
		record, err := v1alpha1.RecordOf(p)
		if err != nil || record.Reservation != nil { // an unreadable record may have a reservation
			holding = append(holding, *p)
		}
	}
	return holding
}

// surroundings reads the nodes of the pool.
func (q preflight) surroundings(ctx context.Context, w *pass, c *admission.Case) {
	var around admission.PoolNodes
	add := func(n *corev1.Node, of cloud.Membership) error {
		switch {
		case n.Name == w.p.Spec.Donor.NodeName:
			around.Of = of
		case of.Pool == w.pool:
			around.Peers = append(around.Peers, *n)
		}
		return nil
	}
	var err error
	if q.seen != nil {
		err = q.seen.Around(w.p.Spec.Donor.NodeName, w.pool, add)
	} else {
		err = membership.Each(ctx, q.kube, q.cloud, "", add)
	}
	if around.Of.Pool != "" {
		around.OfName = q.cloud.PoolName(around.Of.Pool)
	}
	if err == nil {
		around.Reserved, err = q.reservedAmong(ctx, around.Peers)
	}
	c.PoolNodes = admission.LookupOf(around, err)
}

// reservedAmong returns the nodes with a reservation that a Lease confirms; nil without permission to list Leases.
// Leases are read only if a node carries a reservation.
func (q preflight) reservedAmong(ctx context.Context, nodes []corev1.Node) (map[types.UID]bool, error) {
	confirmed := map[types.UID]bool{}
	if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Annotations[v1alpha1.ReservationAnnotation] != "" }) {
		return confirmed, nil
	}
	leases, err := membership.Once(q.seen, "leases", func() ([]node.Lease, error) { return q.leases.All(ctx) })
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	for _, l := range leases {
		confirmed[l.NodeUID] = true
	}
	return confirmed, err
}

// pods reads the pods that a drain would evict.
func (q preflight) pods(ctx context.Context, w *pass, c *admission.Case) {
	left, err := node.Left(ctx, q.kube, w.donor.node.Name, w.p.Spec.Settings.Drain, ownPod(q.process.Namespace, w.p))
	w.donor.remainingPods = left
	found := admission.Pods{Stuck: left.Stuck, Protected: left.Protected}
	if err == nil && c.AsksRebooter() {
		var runs bool
		if runs, err = kured.RunsOn(ctx, q.kube, q.kured, w.donor.node.Name); runs {
			found.Rebooter = q.kured
		}
	}
	c.Pods = admission.LookupOf(found, err)
}

// cluster reads all further facts from the cluster.
func (q preflight) cluster(ctx context.Context, w *pass, c *admission.Case) {
	c.ClockAhead = admission.LookupOf(q.clusterChecks.clockAhead(ctx, w.donor.node.Name))
	c.Account = admission.LookupOf(membership.Once(q.seen, "account", func() (bool, error) { return q.clusterChecks.account(ctx) }))
	queued, _ := c.Queued.Get()
	if there, err := c.Account.Get(); err == nil && there && !queued {
		c.RightLacking = admission.LookupOf(membership.Once(q.seen, "right", func() (string, error) { return q.clusterChecks.rightLacking(ctx) }))
		c.OrderRefused = admission.Found(q.clusterChecks.orderRefused(ctx, w.p))
		c.PodRefused = admission.Found(q.clusterChecks.podRefused(ctx, w))
	}
	c.Rules = admission.LookupOf(q.rules.validate(ctx, w.p))
	if c.AsksForce() {
		c.MayDelete = admission.LookupOf(membership.Once(q.seen, "delete", func() (bool, error) { return q.clusterChecks.mayDelete(ctx, "pods") }))
	}
	if c.AsksCopyRight() {
		c.CopyRightLacking = admission.LookupOf(membership.Once(q.seen, "copy", func() (string, error) { return q.clusterChecks.copyRightLacking(ctx) }))
	}
}
