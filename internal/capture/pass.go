package capture

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/kured"
	"github.com/kamino-dev/kamino/internal/trial"
)

// pass is one pass over a capture: its Prototype, the objects as each room has read them, and the facts for package plan.
type pass struct {
	p *v1alpha1.Prototype
	// written is the status as the API server has it.
	written *v1alpha1.PrototypeStatus
	record  v1alpha1.Record
	// isOrphan: the Prototype is gone, and p is made from the reservation.
	isOrphan bool
	id       cloud.InstanceID
	pool     cloud.PoolID
	// noPoolReason is the reason why the donor belongs to no pool.
	noPoolReason string

	preflight admissionObjects
	donor     donorObjects
	disk      diskObjects
	copy      copyObjects
	image     imageObjects
	trial     trialObjects
	promotion promotionObjects

	facts plan.Facts
}

// admissionObjects are the result of the preflight, and what a capture waits for before its turn.
type admissionObjects struct {
	// admission has the facts for the admission, refusals the result, and admissionErr the error of an incomplete case.
	admission    *admission.Case
	refusals     []cloud.Refusal
	admissionErr error
	// instanceErr is the error of reading the instance.
	instanceErr       error
	kured             kured.Lock           // holder of kured's lock
	imageLimitWarning string               // warning about the number of the pool's images
	activeCaptures    []v1alpha1.Prototype // captures that hold donors
}

// donorObjects are the donor with its reservation.
type donorObjects struct {
	node          *corev1.Node          // nil if the Node is gone, or belongs to another instance now
	namedNode     *corev1.Node          // the Node of the donor's name, of any instance
	otherHolder   string                // description of a reservation in place of ours
	lease         *v1alpha1.Reservation // in the Lease of the node, as read or written in this pass; nil if unread or absent
	reservation   *v1alpha1.Reservation // ours, from the Node or the record; nil if the donor is not held
	remainingPods node.Remaining
	arePodsListed bool // remainingPods has all pods of the donor
	blockedPods   []node.BlockedPod
	instance      cloud.Instance
	protection    cloud.Protection // scale-in protection of the instance, if read
}

// diskObjects are the pod on the donor with its NodeOrder and its results.
type diskObjects struct {
	pod   *corev1.Pod
	order *v1alpha1.NodeOrder
	// reported is the signed report that the Prototype does not carry yet; nil without such a report. ignoredReport is the
	// reason to ignore a report on the NodeOrder.
	reported      *v1alpha1.Report
	ignoredReport string
	// proof is the valid proof on the Prototype, noProofReason the pod's reason for a missing proof.
	proof         *v1alpha1.Proof
	noProofReason string
	obstacle      string // found by the inspection
	summary       string // the files of unknown origin of another node, for the comparison
	comparison    string // result of the comparison; empty without a result
}

// imageObjects are the copy of the disk, and the version made from the copy.
type imageObjects struct {
	snapshot cloud.Snapshot
	version  cloud.Image
}

// promotionObjects are the pool's recipe, and its change by the promotion.
type promotionObjects struct {
	recipe          cloud.Pool
	isPoolDeleted   bool // the pool is deleted, and has no recipe
	change          cloud.RecipeChange
	contentsChange  string // difference from the contents of the version in the recipe, in one line
	retire          []string
	heldBack        string // why the version waits for other pools
	savedRecipeName string // the Secret with the saved parts of the recipe
	frozenBy        string // the quarantined version that the version descends from, without a person's clearance
	// customData is the user's copy for the saved recipe; nil without one.
	customData []byte
}

// trialObjects is the observation of a trial.
type trialObjects struct {
	// cloud is the trial in the cloud.
	cloud cloud.Trial
	// subject is the input of the TrialObserver, and observation its result.
	subject     trial.Subject
	observation trial.Observation
	// known is the input of the next observation; nil if this pass did not observe the node.
	known []v1alpha1.TrialNodeRecord
	// lost is an attempt in the cloud that the record does not have; nil without such an attempt.
	lost *cloud.TrialSpec
	// verdict on this attempt; nil without a judgement.
	verdict *trial.Verdict
	// isUnobserved: the trial node could not be observed.
	isUnobserved bool
}

// clock returns the present time.
type clock = func() time.Time

// fromPrototype is the state from the Prototype alone.
func fromPrototype(p *v1alpha1.Prototype, record v1alpha1.Record) *pass {
	w := &pass{p: p, written: p.Status.DeepCopy(), record: record, id: cloud.InstanceID(p.Spec.Donor.ProviderID)}
	w.facts.Deleting = p.DeletionTimestamp != nil
	w.facts.Failed = p.Status.Failure != nil
	w.facts.Copy.Wanted = p.Spec.Settings.CopiesDonor()
	return w
}

// unseen is the state from the Prototype alone, with a newer record.
func (w *pass) unseen(record v1alpha1.Record) *pass {
	again := fromPrototype(w.p, record)
	again.written = w.written
	return again
}

func (w *pass) isHeld() bool { return w.facts.Hold.Lock == plan.Ours || w.facts.Hold.Recorded }

// ends reports whether the capture has failed, or is being cancelled.
func (w *pass) ends() bool { return w.facts.Failed || w.facts.Deleting }

func (w *pass) ref() cloud.ImageRef {
	return cloud.ImageRef{Pool: w.pool, Version: w.p.Spec.Version}
}

// remember records the reservation, the image of the donor, and the image in the recipe before the capture. The
// instance may be gone when its image is published.
func (w *pass) remember(reservation *v1alpha1.Reservation) func(*v1alpha1.Record) {
	return func(r *v1alpha1.Record) {
		r.Reservation, r.BuiltFrom = reservation, w.donor.instance.BuiltFrom
		if w.facts.Copy.Wanted && r.Copy == nil {
			r.Copy = &v1alpha1.CopyRecord{}
		}
		if image := w.promotion.recipe.Recipe.Image; image != "" {
			r.Recipe = image
		}
	}
}

// leaseIsOurs reports whether the Lease of the node, as read, names this capture.
func (w *pass) leaseIsOurs() bool { return w.donor.lease != nil && w.donor.lease.UID == w.p.UID }

// holderOf is the capture as the holder of a reservation.
func holderOf(p *v1alpha1.Prototype) v1alpha1.Holder {
	return v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: p.Name, UID: p.UID}
}

// isMarked reports whether a capture of this very object has begun.
func isMarked(p *v1alpha1.Prototype) bool {
	return p.UID != "" && p.Annotations[v1alpha1.BegunAnnotation] == string(p.UID)
}

// recordLost reports whether the capture had a record, and has no readable record now.
func recordLost(p *v1alpha1.Prototype) bool {
	_, err := v1alpha1.RecordOf(p)
	return isMarked(p) && (err != nil || p.Status.Record == nil)
}

// removesBootstrap reports whether the image replaces the bootstrap data of the recipe.
func removesBootstrap(p *v1alpha1.Prototype) bool {
	return p.Spec.Settings.Profile().Traits().RemovesBootstrap
}

// tokenOf is the cloud's token for the restoration of the protection.
func tokenOf(r *v1alpha1.Reservation) string {
	return cmp.Or(r.Protection, cloud.TokenUnprotected)
}
