package capture

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/kured"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// gather collects all facts for the admission of a capture; package admission decides. A failed read becomes part of
// the case, and the other reads continue.
func (q preflight) gather(ctx context.Context, w *pass) *admission.Case {
	c := &admission.Case{
		Now: q.now(), Prototype: w.p, Pool: w.pool, Unplaced: w.noPoolReason, Image: q.Image, AllowedImages: q.AllowedImages,
		Namespace: q.podNamespace(), OwnNode: q.OwnNode, Drives: q.Drives, Again: w.facts.Disk.Pod != plan.NoPod,
	}
	if c.Pool == "" {
		return c
	}
	c.PoolName = q.Cloud.PoolName(w.pool)
	c.Donor = admission.Found(admission.Donor{Node: w.donor.namedNode, Replaced: w.donor.namedNode != nil && w.donor.node == nil})
	q.turn(ctx, w, c)
	if w.donor.node != nil {
		q.surroundings(ctx, w, c)
	}
	if c.Strayed() {
		return c
	}
	q.pods(ctx, w, c)
	if !c.Again {
		q.cluster(ctx, w, c)
		q.cloud(ctx, w, c)
		if w.p.Spec.ReplacesDonor() {
			c.Removal = admission.LookupOf(q.removalFacts(ctx, w, c))
		}
	}
	return c
}

// turn reads the other captures and the kured lock.
func (q preflight) turn(ctx context.Context, w *pass, c *admission.Case) {
	list := &v1alpha1.PrototypeList{}
	err := q.Client.List(ctx, list)
	if apierrors.IsNotFound(err) { // a preview in a cluster without the definitions
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("list prototypes: %w", err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(other v1alpha1.Prototype) bool {
		return other.Name == w.p.Name
	})
	w.preflight.activeCaptures = holding(list.Items)
	lock, kuredErr := kured.Read(ctx, q.Kube, q.Kured, q.now())
	w.preflight.kured = lock
	vacant, vacantErr := 0, error(nil)
	if len(w.preflight.activeCaptures) < q.concurrent() {
		vacant, vacantErr = q.unfilledPlaces(ctx, list.Items)
	}
	w.preflight.awaitsReplacement = vacant > 0
	if len(w.preflight.activeCaptures)+vacant < q.concurrent() && vacantErr == nil {
		w.preflight.removals, vacantErr = q.removals(ctx, list.Items)
	}
	c.Queued = admission.LookupOf(len(w.preflight.activeCaptures)+vacant+w.preflight.removals >= q.concurrent() || lock.Node != "", cmp.Or(err, vacantErr, kuredErr))
	of := make([]cloud.Membership, len(list.Items))
	if err == nil {
		of, err = membership.OfPrototypes(ctx, q.Cloud, list.Items)
	}
	if err != nil {
		c.Others = admission.Unread[[]admission.OtherCapture](err)
		return
	}
	others := make([]admission.OtherCapture, len(list.Items))
	for i := range list.Items {
		others[i] = admission.OtherCapture{Prototype: &list.Items[i], Pool: of[i].Pool}
	}
	c.Others = admission.Found(others)
}

// holding returns the Prototypes that hold a donor, or whose pool grows by a donor.
func holding(prototypes []v1alpha1.Prototype) (holding []v1alpha1.Prototype) {
	for i := range prototypes {
		p := &prototypes[i]
		record, err := v1alpha1.RecordOf(p)
		grows := p.Spec.AwaitsDonor() && record.Replacement != nil && !p.Status.Terminal()
		if err != nil || record.Reservation != nil || grows { // an unreadable record may have a reservation
			holding = append(holding, *p)
		}
	}
	return holding
}

// removals counts the donors of gone Prototypes whose instances are being removed. Without permission to list Leases
// the count is zero.
func (q preflight) removals(ctx context.Context, prototypes []v1alpha1.Prototype) (n int, err error) {
	leases, err := q.reservations().All(ctx)
	if apierrors.IsForbidden(err) {
		return 0, nil
	}
	for _, l := range leases {
		works := func(p v1alpha1.Prototype) bool { return p.UID == l.Reservation.UID && !p.Status.Terminal() }
		if d := l.Reservation.Replacement; d != nil && d.Removing && !slices.ContainsFunc(prototypes, works) {
			n++
		}
	}
	return n, err
}

// unfilledPlaces counts removed donors without a replacement. Nodes are read only if a replacement may be pending.
func (q preflight) unfilledPlaces(ctx context.Context, prototypes []v1alpha1.Prototype) (n int, err error) {
	var vacancies []reservations.PendingReplacement
	for i := range prototypes {
		if v, vacant := reservations.PendingReplacementOf(&prototypes[i]); vacant && v.Lasts(0, q.now()) {
			vacancies = append(vacancies, v)
		}
	}
	if len(vacancies) == 0 {
		return 0, nil
	}
	ready := map[cloud.PoolID]int{}
	err = membership.Each(ctx, q.Kube, q.Cloud, "", func(node *corev1.Node, of cloud.Membership) error {
		if nodestate.Ready(node) {
			ready[of.Pool]++
		}
		return nil
	})
	for _, v := range vacancies {
		if v.Lasts(ready[cloud.PoolID(v.Pool)], q.now()) {
			n++
		}
	}
	return n, err
}

// surroundings reads the nodes of the pool.
func (q preflight) surroundings(ctx context.Context, w *pass, c *admission.Case) {
	var around admission.PoolNodes
	err := membership.Each(ctx, q.Kube, q.Cloud, "", func(n *corev1.Node, of cloud.Membership) error {
		switch {
		case n.Name == w.p.Spec.Donor.NodeName:
			around.Of = of
		case of.Pool == w.pool:
			around.Peers = append(around.Peers, *n)
		}
		return nil
	})
	if around.Of.Pool != "" {
		around.OfName = q.Cloud.PoolName(around.Of.Pool)
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
	leases, err := q.reservations().All(ctx)
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
	left, err := node.Left(ctx, q.Kube, w.donor.node.Name, w.p.Spec.Settings.Drain, ownPod(q.podNamespace(), w.p))
	w.donor.remainingPods = left
	found := admission.Pods{Stuck: left.Stuck, Protected: left.Protected}
	if err == nil && c.AsksRebooter() {
		var runs bool
		if runs, err = kured.RunsOn(ctx, q.Kube, q.Kured, w.donor.node.Name); runs {
			found.Rebooter = q.Kured
		}
	}
	c.Pods = admission.LookupOf(found, err)
}

// cluster reads all further facts from the cluster.
func (q preflight) cluster(ctx context.Context, w *pass, c *admission.Case) {
	c.ClockAhead = admission.LookupOf(q.clockAhead(ctx, w.donor.node.Name))
	c.Account = admission.LookupOf(q.account(ctx))
	queued, _ := c.Queued.Get()
	if there, err := c.Account.Get(); err == nil && there && !queued {
		c.RightLacking = admission.LookupOf(q.rightLacking(ctx))
		c.OrderRefused = admission.Found(q.orderRefused(ctx, w.p))
		c.PodRefused = admission.Found(q.podRefused(ctx, w))
	}
	c.Rules = admission.LookupOf(q.userRules(ctx, w.p))
	if c.AsksForce() {
		c.MayDelete = admission.LookupOf(q.mayDelete(ctx, "pods"))
	}
	if c.AsksRemoval() {
		c.MayDeleteNode = admission.LookupOf(q.mayDelete(ctx, "nodes"))
	}
	if c.AsksCarryOver() {
		c.CarryOverDenied = admission.Found(q.carryOverDenied(ctx, w))
	}
}

// carryOverDenied asks the API server whether this process may write the labels and taints that the replacement gets. Other
// errors deny nothing: a webhook may not know dry runs.
func (q preflight) carryOverDenied(ctx context.Context, w *pass) string {
	err := node.TryCarryOver(ctx, q.Kube, w.donor.node, w.p.Spec.Settings.Donor.CarryOver)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return err.Error()
	}
	return ""
}

// clockAhead is the lead of the donor's clock over the API server's clock, from the kubelet's Lease of the node. Zero
// if the Lease is missing or forbidden.
func (q preflight) clockAhead(ctx context.Context, name string) (time.Duration, error) {
	lease, err := q.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read lease %s/%s: %w", corev1.NamespaceNodeLease, name, err)
	case lease.Spec.RenewTime == nil:
		return 0, nil
	}
	return lease.Spec.RenewTime.Sub(writtenAt(lease, q.now())), nil
}

// writtenAt is the time of the last write of the Lease by the API server's clock; now if unknown.
func writtenAt(lease *coordinationv1.Lease, now time.Time) time.Time {
	var last time.Time
	for _, entry := range lease.ManagedFields {
		if entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	if last.IsZero() {
		return now
	}
	return last
}

// account reports whether the service account of the generalize pod exists.
func (q preflight) account(ctx context.Context) (bool, error) {
	_, err := q.Kube.CoreV1().ServiceAccounts(q.podNamespace()).Get(ctx, v1alpha1.GeneralizeServiceAccount, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read service account %s/%s: %w", q.podNamespace(), v1alpha1.GeneralizeServiceAccount, err)
	}
	return err == nil, nil
}

// accountRights are the permissions of the generalize pod's account in its namespace: read its NodeOrder, and report on the
// NodeOrder.
var accountRights = []authorizationv1.ResourceAttributes{
	{Group: v1alpha1.GroupVersion.Group, Resource: "nodeorders", Verb: "get"},
	{Group: v1alpha1.GroupVersion.Group, Resource: "nodeorders", Subresource: "status", Verb: "patch"},
}

// rightLacking returns the first missing permission of the account. Empty if this process may not ask.
func (q preflight) rightLacking(ctx context.Context) (string, error) {
	for _, right := range accountRights {
		right.Namespace = q.podNamespace()
		review, err := q.Kube.AuthorizationV1().LocalSubjectAccessReviews(q.podNamespace()).Create(ctx, &authorizationv1.LocalSubjectAccessReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: q.podNamespace()},
			Spec: authorizationv1.SubjectAccessReviewSpec{
				ResourceAttributes: &right,
				User:               fmt.Sprintf("system:serviceaccount:%s:%s", q.podNamespace(), v1alpha1.GeneralizeServiceAccount),
				Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + q.podNamespace(), "system:authenticated"},
			},
		}, metav1.CreateOptions{})
		switch {
		case apierrors.IsForbidden(err):
			return "", nil
		case err != nil:
			return "", fmt.Errorf("check the permissions of service account %s/%s: %w", q.podNamespace(), v1alpha1.GeneralizeServiceAccount, err)
		case !review.Status.Allowed:
			resource := right.Resource
			if right.Subresource != "" {
				resource += "/" + right.Subresource
			}
			return right.Verb + " " + resource + "." + right.Group, nil
		}
	}
	return "", nil
}

// orderRefused creates the NodeOrder as a dry run. A missing CRD would otherwise show only after the drain. Missing
// permissions of this process are ignored.
func (q preflight) orderRefused(ctx context.Context, p *v1alpha1.Prototype) string {
	order := newOrder(p, q.podNamespace(), v1alpha1.InPlace, "preflight", "", "preflight")
	order.OwnerReferences = nil // a Prototype of a preview has no UID
	err := q.Client.Create(ctx, order, client.DryRunAll)
	if !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
		return ""
	}
	return err.Error()
}

// podRefused creates the generalize pod as a dry run: Pod Security, a quota or a webhook may refuse the pod. Missing
// permissions and other errors are ignored, because a command may run with few rights.
func (q preflight) podRefused(ctx context.Context, w *pass) string {
	pod := generalizePod(w.p, w.record, q.podNamespace(), q.Image)
	if pod.Spec.Containers[0].Image == "" {
		return ""
	}
	_, err := q.Kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || notAuthorized(err) {
		return ""
	}
	return err.Error()
}

// notAuthorized separates refusals of the authorizer from refusals of admission, which share the status code.
func notAuthorized(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot create resource")
}

// userRules checks the user's own rules.
func (q preflight) userRules(ctx context.Context, p *v1alpha1.Prototype) (admission.Rules, error) {
	files, err := ruleReader(q).readConfigMap(ctx, p)
	switch {
	case apierrors.IsNotFound(err):
		return admission.Rules{Missing: true}, nil
	case err != nil, files == nil:
		return admission.Rules{}, err
	case !holdsRules(files):
		return admission.Rules{Wrong: "no key ends in .yaml"}, nil
	case q.CheckRules != nil:
		if err := q.CheckRules(p.Spec.Settings.Profile(), files); err != nil {
			return admission.Rules{Wrong: err.Error()}, nil
		}
	}
	return admission.Rules{}, nil
}

// mayDelete reports whether this process may delete the resource. True if the process may not ask.
func (q preflight) mayDelete(ctx context.Context, resource string) (bool, error) {
	review, err := q.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Resource: resource, Verb: "delete"}},
	}, metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("check the permission to delete %s: %w", resource, err)
	}
	return review.Status.Allowed, nil
}
