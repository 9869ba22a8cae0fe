package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// NotFoundDoubtful is the code of an answer NotFound that Kamino does not believe yet, and the reason of condition Stalled.
const NotFoundDoubtful = "NotFoundDoubtful"

// doubtDelay is the delay between two looks for an object that may exist.
const doubtDelay = 5 * time.Second

// doubts are the reasons not to believe the cloud's answer that a donor's instance does not exist.
var doubts = map[plan.Doubt]string{
	plan.KubeletReports: "its kubelet reports that the node is Ready",
	plan.IsListed:       "the list of its pool contains the instance. If the instance is gone, remove it from the pool",
	plan.IsUnlisted:     "the list of its pool is not available. If the instance is gone, delete the Node",
	plan.NotAgain:       "one answer proves nothing: Kamino asks again",
}

// doubtful is the error of a pass that does not believe the cloud's answer. The pass acts as if the cloud had not answered.
func doubtful(what, id, why string) error {
	return &cloud.Error{Kind: cloud.Unavailable, Op: "read", Resource: id, Code: NotFoundDoubtful, RetryAfter: doubtDelay,
		Message: "the cloud answers that " + what + " does not exist, but " + why}
}

// IsDoubtful returns the error of an answer NotFound that Kamino does not believe yet; nil for all others.
func IsDoubtful(err error) *cloud.Error {
	var e *cloud.Error
	if errors.As(err, &e) && e.Code == NotFoundDoubtful {
		return e
	}
	return nil
}

// reportDoubt reports an answer that Kamino does not believe as progress. After two minutes, which a second look never takes, the
// condition Stalled reports it too.
func reportDoubt(p *v1alpha1.Prototype, e *cloud.Error, now time.Time) {
	p.Status.Progress = "waiting: " + e.Message
	since := now
	if n := len(p.Status.Steps); n > 0 {
		since = p.Status.Steps[n-1].StartedAt.Time
	}
	switch record, _ := v1alpha1.RecordOf(p); {
	case record.Reservation != nil && record.Reservation.MissingSince != nil:
		since = record.Reservation.MissingSince.Time
	case len(record.Missing) > 0:
		since = record.Missing[0].Since.Time
	}
	if now.Sub(since) > 2*time.Minute {
		setCondition(p, now, v1alpha1.ConditionStalled, metav1.ConditionTrue, NotFoundDoubtful, e.Error())
	}
}

// confirmGone returns an error unless the cloud's answer that the instance does not exist is believed. The time of the first
// answer is recorded before Kamino acts on a later one.
func (h donorReservation) confirmGone(ctx context.Context, w *pass) error {
	f := &w.facts
	if !w.isHeld() || w.donor.reservation == nil {
		return h.confirmGoneBefore(ctx, w)
	}
	if f.Unrecorded && !f.Failed && !f.Deleting {
		f.Donor.Power = plan.Changing // the capture fails first, whatever the instance
		return nil
	}
	absence, now := plan.Absence{Node: f.Donor.Node, Requested: w.isRemoving()}, metav1.NewTime(h.now())
	missing, agreed := orNow(w.donor.reservation.MissingSince, now), notAfter(w.donor.reservation.AgreedSince, now)
	if agreed != nil {
		absence.Since = now.Sub(agreed.Time)
	}
	var err error
	if absence.List, err = inPoolList(ctx, h.Cloud, w.pool, w.id); err != nil {
		return err
	}
	doubt := plan.DoubtOf(absence)
	if doubt == plan.NoDoubt {
		f.Donor.Power = plan.InstanceGone
		return h.readLastingProtection(ctx, w)
	}
	if err := h.recordMissing(ctx, w, missing, agreedAfter(doubt, agreed, now)); err != nil {
		return err
	}
	return doubtful("the instance of node "+w.p.Spec.Donor.NodeName, string(w.id), doubts[doubt])
}

// notAfter returns a recorded time; nil for a time in the future, which a process with another clock has recorded.
func notAfter(at *metav1.Time, now metav1.Time) *metav1.Time {
	if at == nil || at.After(now.Time) {
		return nil
	}
	return at
}

func orNow(at *metav1.Time, now metav1.Time) *metav1.Time {
	if at = notAfter(at, now); at == nil {
		return &now
	}
	return at
}

// agreedAfter is since when the witnesses agree, after a look: a contradiction begins the count again.
func agreedAfter(doubt plan.Doubt, agreed *metav1.Time, now metav1.Time) *metav1.Time {
	if doubt != plan.NotAgain {
		return nil
	}
	return orNow(agreed, now)
}

// confirmGoneBefore is confirmGone before the reservation. A donor in service loses nothing, so the list is asked only once.
func (h donorReservation) confirmGoneBefore(ctx context.Context, w *pass) error {
	list, err := inPoolList(ctx, h.Cloud, w.pool, w.id)
	if err == nil && list == plan.ListHas {
		err = doubtful("the instance of node "+w.p.Spec.Donor.NodeName, string(w.id), doubts[plan.IsListed])
	}
	if err == nil {
		w.facts.Donor.Power = plan.InstanceGone
	}
	return err
}

// inPoolList looks for an instance in the list of its pool. An instance that is being removed counts as absent.
func inPoolList(ctx context.Context, c cloud.Provider, pool cloud.PoolID, id cloud.InstanceID) (plan.List, error) {
	instances, err := c.Instances(ctx, pool)
	switch {
	case cloud.Is(err, cloud.NotFound), cloud.Is(err, cloud.Unsupported):
		return plan.ListMissing, nil
	case err != nil:
		return plan.ListMissing, err
	case slices.ContainsFunc(instances, func(i cloud.Instance) bool { return !i.Removing && c.SameInstance(i.ID, id) }):
		return plan.ListHas, nil
	}
	return plan.ListWithout, nil
}

// recordMissing writes since when the instance is missing, and since when the list agrees, into the record of the reservation; nil
// once the instance is there. An equal record costs nothing.
func (h donorReservation) recordMissing(ctx context.Context, w *pass, since, agreed *metav1.Time) error {
	reservation := *w.donor.reservation
	if reservation.MissingSince.Equal(since) && reservation.AgreedSince.Equal(agreed) {
		return nil
	}
	reservation.MissingSince, reservation.AgreedSince = since, agreed
	if w.isOrphan || !w.facts.Hold.Recorded { // the Lease is the record
		if err := h.reservations().Renew(ctx, w.donor.node, reservation); err != nil {
			return fmt.Errorf("record the missing instance of node %s: %w", w.donor.node.Name, err)
		}
		w.donor.lease = &reservation
	} else if err := h.record(ctx, w, func(r *v1alpha1.Record) { r.Reservation = &reservation }); err != nil {
		return err
	}
	w.donor.reservation, w.record.Reservation = &reservation, &reservation
	return nil
}

// endMissing ends the record of missing answers: the instance exists.
func (h donorReservation) endMissing(ctx context.Context, w *pass) error {
	if !w.isHeld() || w.donor.reservation == nil || w.donor.reservation.MissingSince == nil {
		return nil
	}
	return h.recordMissing(ctx, w, nil, nil)
}

// confirmUnprotected returns an error unless an instance that exists has no protection, because it is in no list of its pool: the
// cloud has not found the protection.
func (h donorReservation) confirmUnprotected(ctx context.Context, w *pass) error {
	list, err := inPoolList(ctx, h.Cloud, w.pool, w.id)
	switch {
	case err != nil:
		return err
	case list == plan.ListHas:
		return doubtful("the scale-in protection of node "+w.p.Spec.Donor.NodeName, string(w.id), doubts[plan.IsListed])
	case list == plan.ListMissing && !w.isOrphan:
		return confirmPoolGone(ctx, h.Engine, w)
	}
	return nil
}

// keepsLease reports whether the Lease of a donor whose instance is gone outlives the capture. As long as the Node exists, the
// instance could exist after all: the sweep then finds and returns the node.
func keepsLease(w *pass) bool {
	return w.facts.Donor.Power == plan.InstanceGone && w.donor.node != nil && !w.isOrphan
}

// ErrInstanceGone is returned for the reserved Node of an instance that the cloud does not have.
var ErrInstanceGone = errors.New("the cloud has no instance for the node, and its reservation stays as long as the Node: if the instance is gone, delete the Node")

// objects of a capture besides the donor, as in the record of a missing object.
const (
	poolObject    = "pool"
	versionObject = "version"
	trialObject   = "trial"
)

// confirmMissing returns an error unless the cloud's answer is believed that an object of the capture does not exist. list is
// the answer of another read that would find the object. The first answer is recorded.
func confirmMissing(ctx context.Context, e *Engine, w *pass, object string, list plan.List) error {
	now := metav1.NewTime(e.now())
	noted := v1alpha1.MissingRecord{Object: object, Since: now}
	if i := missingAt(w.record, object); i >= 0 && now.Sub(w.record.Missing[i].Last.Time).Abs() < consecutive {
		noted = w.record.Missing[i]
	}
	absence, agreed := plan.Absence{List: list}, notAfter(noted.AgreedSince, now)
	if agreed != nil {
		absence.Since = now.Sub(agreed.Time)
	}
	doubt := plan.DoubtOf(absence)
	if doubt == plan.NoDoubt {
		return nil
	}
	agreed = agreedAfter(doubt, agreed, now)
	if now.Sub(noted.Last.Time) >= lastEvery || !noted.AgreedSince.Equal(agreed) {
		noted.Last, noted.AgreedSince = now, agreed
		if err := e.record(ctx, w, func(r *v1alpha1.Record) {
			r.Missing = append(withoutMissing(r.Missing, object), noted)
		}); err != nil {
			return err
		}
	}
	why := doubts[doubt]
	if doubt == plan.IsListed {
		why = "a list of the cloud shows that it exists"
	}
	what := map[string]string{
		poolObject: "pool " + w.p.Spec.Pool, versionObject: "version " + w.p.Spec.Version + " with its snapshot", trialObject: "the trial of version " + w.p.Spec.Version,
	}
	return doubtful(what[object], string(w.pool), why)
}

// endConfirm ends the record of a missing object: the object exists.
func endConfirm(ctx context.Context, e *Engine, w *pass, object string) error {
	if missingAt(w.record, object) < 0 {
		return nil
	}
	return e.record(ctx, w, func(r *v1alpha1.Record) { r.Missing = withoutMissing(r.Missing, object) })
}

const (
	// consecutive is the longest time between two answers of one absence. Looks follow each other much faster.
	consecutive = 5 * time.Minute
	// lastEvery is how often the time of the last answer is recorded.
	lastEvery = time.Minute
)

// missingAt is the index of an object in the record of missing objects; -1 if absent.
func missingAt(r v1alpha1.Record, object string) int {
	return slices.IndexFunc(r.Missing, func(m v1alpha1.MissingRecord) bool { return m.Object == object })
}

func withoutMissing(all []v1alpha1.MissingRecord, object string) []v1alpha1.MissingRecord {
	return slices.DeleteFunc(slices.Clone(all), func(m v1alpha1.MissingRecord) bool { return m.Object == object })
}

// confirmPoolGone is confirmMissing for the pool of the capture. The list of its instances is no witness, but contradicts.
func confirmPoolGone(ctx context.Context, e *Engine, w *pass) error {
	_, err := e.Cloud.Instances(ctx, w.pool)
	switch {
	case err == nil:
		return confirmMissing(ctx, e, w, poolObject, plan.ListHas)
	case cloud.Is(err, cloud.NotFound), cloud.Is(err, cloud.Unsupported):
		return confirmMissing(ctx, e, w, poolObject, plan.ListMissing)
	}
	return err
}

// confirmLost asks the lists of the cloud for the version and the snapshot of a released donor, if reads have found neither. The
// capture would end as interrupted.
func (a artifacts) confirmLost(ctx context.Context, w *pass) error {
	f := &w.facts
	if w.isHeld() || w.isOrphan || !f.Disk.Touched || f.Failed || f.Deleting || f.Unrecorded {
		return nil
	}
	if f.Image.Version != plan.Absent || f.Image.Snapshot != plan.Absent && f.Image.Snapshot != plan.Deleting {
		return endConfirm(ctx, a.Engine, w, versionObject)
	}
	list, err := a.inLists(ctx, w)
	if err != nil {
		return err
	}
	return confirmMissing(ctx, a.Engine, w, versionObject, list)
}

// inLists looks for the version or the snapshot of the capture in the lists of the pool. A list that is not found is no witness.
func (a artifacts) inLists(ctx context.Context, w *pass) (plan.List, error) {
	uid, answer := string(w.p.UID), plan.ListWithout
	images, err := a.Cloud.Images(ctx, w.pool)
	if slices.ContainsFunc(images, func(i cloud.Image) bool { return i.Tags[cloud.TagUID] == uid && i.State != cloud.Deleting }) {
		return plan.ListHas, nil
	}
	snapshots, missing := a.Cloud.Snapshots(ctx, w.pool)
	if slices.ContainsFunc(snapshots, func(s cloud.Snapshot) bool { return s.Tags[cloud.TagUID] == uid && s.State != cloud.Deleting }) {
		return plan.ListHas, nil
	}
	for _, err := range []error{err, missing} {
		if err != nil && !cloud.Is(err, cloud.NotFound) {
			return plan.ListMissing, err
		}
		if err != nil {
			answer = plan.ListMissing
		}
	}
	return answer, nil
}

// confirmTrialGone asks the list of trials for a trial whose instance has run, if a read has not found the trial.
func (t trials) confirmTrialGone(ctx context.Context, w *pass) error {
	r, f := w.record.Trial, &w.facts
	if r.RunningSince == nil || r.CleaningUp || f.Failed || f.Deleting {
		return nil
	}
	if w.trial.cloud.State != cloud.Absent {
		return endConfirm(ctx, t.Engine, w, trialObject)
	}
	specs, err := t.Cloud.Trials(ctx, w.pool)
	list := plan.ListWithout
	switch {
	case cloud.Is(err, cloud.NotFound), cloud.Is(err, cloud.Denied):
		list = plan.ListMissing
	case err != nil:
		return err
	case slices.ContainsFunc(specs, func(s cloud.TrialSpec) bool { return s.Name == r.Name }):
		list = plan.ListHas
	}
	return confirmMissing(ctx, t.Engine, w, trialObject, list)
}
