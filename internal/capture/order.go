package capture

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/node"
)

// orders creates, reads and removes the NodeOrder with its key, and copies the pod's report.
type orders struct {
	kube         kubernetes.Interface
	client       client.Client
	store        store
	hold         hold
	rules        ruleReader
	image        podImages
	podNamespace string
	now          clock
}

// order creates the NodeOrder and its key, then records both with the donor's boot, and repeats the record on the Lease. Only the
// recorded NodeOrder is trusted, and the pod follows the record. After a crash in between, the next pass creates a new NodeOrder.
func (o orders) order(ctx context.Context, w *pass) error {
	if w.facts.Copy.Wanted {
		return o.orderCopy(ctx, w)
	}
	boot, err := bootOf(w.donor.node)
	if err != nil {
		return err
	}
	rules, err := o.digest(ctx, w.p)
	if err != nil {
		return err
	}
	made, err := o.makeKeyed(ctx, newOrder(w.p, o.podNamespace, boot, rules, ""))
	if err != nil {
		return err
	}
	made.Disk = w.donor.instance.Disk
	err = o.store.record(ctx, w, func(r *v1alpha1.Record) { r.GeneralizeBootID, r.RulesDigest, r.Order = boot, rules, made })
	if err != nil {
		return err
	}
	return o.hold.noteRecord(ctx, w)
}

func bootOf(n *corev1.Node) (string, error) {
	if n.Status.NodeInfo.BootID == "" {
		return "", fmt.Errorf("node %s reports no boot ID: a capture needs the boot ID from the kubelet", n.Name)
	}
	return n.Status.NodeInfo.BootID, nil
}

// digest asks whether the pod's image and the user's rules are allowed, and returns the digest of the rules.
func (o orders) digest(ctx context.Context, p *v1alpha1.Prototype) (string, error) {
	if err := errors.Join(o.image.mayRun(p), o.mayApply(ctx, p)); err != nil {
		return "", err
	}
	rules, err := o.rules.digest(ctx, p)
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("%w: %w", errRulesGone, err)
	}
	return rules, err
}

// makeKeyed creates the NodeOrder with a new key, and returns what the record names.
func (o orders) makeKeyed(ctx context.Context, order *v1alpha1.NodeOrder) (*v1alpha1.OrderRecord, error) {
	private, public, err := v1alpha1.NewOrderKey()
	if err != nil {
		return nil, err
	}
	order.Spec.Key = public
	if err := o.makeOrder(ctx, order); err != nil {
		return nil, err
	}
	if err := node.CreateOrderKey(ctx, o.kube, order, private); err != nil {
		return nil, err
	}
	return &v1alpha1.OrderRecord{Namespace: order.Namespace, UID: order.UID, Key: public}, nil
}

func (o orders) makeOrder(ctx context.Context, order *v1alpha1.NodeOrder) error {
	err := o.client.Create(ctx, order)
	if apierrors.IsAlreadyExists(err) {
		if err := client.IgnoreNotFound(o.client.Delete(ctx, order)); err != nil {
			return fmt.Errorf("delete unused order %s/%s: %w", order.Namespace, order.Name, err)
		}
		order.ResourceVersion, order.UID = "", ""
		err = o.client.Create(ctx, order)
	}
	if err != nil {
		return fmt.Errorf("create order %s/%s: %w", order.Namespace, order.Name, err)
	}
	return nil
}

// lookReport reads the pod's report on the NodeOrder. The power is read earlier, because the pod reports just before the
// power-off.
func (o orders) lookReport(ctx context.Context, w *pass) error {
	f := &w.facts
	if f.Disk.Outdated || !f.OrderMatters() || f.Copy.Wanted && w.record.Order == nil {
		return nil
	}
	if err := o.readOrder(ctx, w); err != nil || w.disk.order == nil {
		return err
	}
	report, err := v1alpha1.ReportOf(w.disk.order, *w.record.Order)
	switch {
	case err != nil || report == nil:
	case report.Moment != nil:
		w.copy.moment = report.Moment
	default:
		err = acceptReport(w, report, o.now())
	}
	if err != nil && w.record.Order.Pod != "" { // before the record of the pod's UID no report is trusted or suspected
		w.disk.ignoredReport = err.Error()
	}
	return nil
}

// acceptReport checks a report that the NodeOrder's pod has signed. Reported is true until the Prototype carries the report.
func acceptReport(w *pass, report *v1alpha1.Report, now time.Time) error {
	f := &w.facts
	if report.Unproven != nil {
		if !w.record.Answers(report.Unproven, w.p.UID) {
			return errors.New("the report names another donor or boot")
		}
		f.Disk.Reported = !equality.Semantic.DeepEqual(w.p.Status.Unproven, report.Unproven)
	} else {
		if !w.record.Proves(report.Proof, w.p.UID) {
			return errors.New("the reported proof is not valid for this donor and boot")
		}
		f.Disk.Reported = !equality.Semantic.DeepEqual(w.p.Status.Proof, report.Proof)
	}
	if f.Disk.Reported {
		w.disk.reported = report
	}
	if report.Proof != nil {
		f.Disk.PoweringOff = now.Sub(report.Proof.At.Time).Abs() < powerOffGrace
	}
	return nil
}

// believe copies the signed report to the Prototype, where only the engine writes. Later steps then do not depend on
// the NodeOrder: after a proof it is deleted. A report without a proof revokes an earlier proof.
func (o orders) believe(ctx context.Context, w *pass) error {
	said := w.disk.reported
	err := o.store.commit(ctx, w, func(s *v1alpha1.PrototypeStatus) {
		s.Proof, s.Contents = said.Proof, said.Contents
		if said.Unproven != nil {
			s.Unproven = said.Unproven
		}
	})
	if err != nil || said.Proof == nil {
		return err
	}
	return o.deleteOrder(ctx, w)
}

// readProof sets the facts of the recorded NodeOrder, and of the proof on the Prototype.
func (o orders) readProof(_ context.Context, w *pass) error {
	f := &w.facts
	if !f.Disk.Touched {
		return nil
	}
	f.Disk.Outdated = w.record.Order == nil || w.record.Order.Namespace == ""
	proof := w.p.Status.Proof
	if w.record.Proves(proof, w.p.UID) {
		w.disk.proof = proof
		age := o.now().Sub(proof.At.Time)                // by the donor's clock, which may be ahead
		f.Disk.Proven = age < proofLife || f.Copy.Wanted // no machine starts with the copy
		f.Disk.LevelDiffers = f.Donor.Patch == plan.PatchDone && proof.PatchLevel != w.record.Patch.Level
		f.Disk.PoweringOff = age.Abs() < powerOffGrace
	}
	o.readUnproven(w)
	return nil
}

// lookLeftOrder reads a NodeOrder that should no longer exist.
func (o orders) lookLeftOrder(ctx context.Context, w *pass) error {
	f := &w.facts
	matters := f.LeftoversMatter() || f.Disk.Outdated && f.OrderMatters()
	if w.disk.order != nil || !matters {
		return nil
	}
	return o.readOrder(ctx, w)
}

func (o orders) readOrder(ctx context.Context, w *pass) error {
	order := &v1alpha1.NodeOrder{}
	key := client.ObjectKey{Namespace: podNamespaceOf(w, o.podNamespace), Name: podName(w.p)}
	switch err := o.client.Get(ctx, key, order); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read order %s: %w", key, err)
	case len(order.Unreadable) > 0:
		return fmt.Errorf("order %s cannot be read: %s", key, order.Unreadable)
	}
	w.disk.order, w.facts.Disk.Order = order, true
	return nil
}

// deleteOrder deletes the key and then the NodeOrder, unless the pod has written to the NodeOrder since the read. A used proof
// can no longer be revoked.
func (o orders) deleteOrder(ctx context.Context, w *pass) error {
	if err := node.DeleteKey(ctx, o.kube, w.disk.order.Namespace, w.disk.order.Name); err != nil {
		return err
	}
	err := o.client.Delete(ctx, w.disk.order, client.Preconditions{UID: &w.disk.order.UID, ResourceVersion: &w.disk.order.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete order %s/%s: %w", w.disk.order.Namespace, w.disk.order.Name, err)
	}
	return nil
}

// mayApply asks whether the user's rules are valid, before their digest enters an order.
func (o orders) mayApply(ctx context.Context, p *v1alpha1.Prototype) error {
	found, err := o.rules.validate(ctx, p)
	if err != nil || found.Missing { // the reader of the digest reports missing rules
		return err
	}
	return denied(admission.RulesOf(&admission.Case{Prototype: p, Process: admission.Process{Namespace: o.podNamespace}, Rules: admission.Found(found)}))
}

// readUnproven reads the pod's report that there is no proof. The report precedes the container's status, which comes
// later and has only the exit. The report also revokes a proof whose write was not confirmed.
func (o orders) readUnproven(w *pass) {
	u := w.p.Status.Unproven
	if !w.record.Answers(u, w.p.UID) {
		return
	}
	w.facts.Disk.Proven, w.disk.proof = false, nil
	if w.facts.Copy.Wanted && u.AnotherCopyHelps() {
		w.facts.Copy.Unusable = true
		return
	}
	w.disk.noProofReason = u.Message
	if f := w.facts; w.disk.pod != nil || !f.Failed && !f.Deleting && !f.Hold.Returning {
		w.facts.Disk.Pod = plan.PodFailed // even if another client deleted the pod: no second pod may run
	}
}

// lookOrphanOrder finds the pod's NodeOrder, which the API server may have deleted with the Prototype.
func (o orders) lookOrphanOrder(ctx context.Context, w *pass) error {
	if err := o.readOrder(ctx, w); err != nil || w.disk.order == nil {
		return err
	}
	if w.disk.order.Spec.Holder.UID != w.p.UID {
		w.disk.order, w.facts.Disk.Order = nil, false
	}
	return nil
}

// proofLife is the validity of a proof. Another client that starts and stops the donor takes longer. After a longer
// pause of the capture, the proof is outdated.
const proofLife = 10 * time.Minute

// powerOffGrace is the time for the donor to power itself off after its proof. Later the cloud stops the instance.
const powerOffGrace = 30 * time.Second
