package capture

import (
	"context"
	"errors"
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
	return unconfirmed(id, "the cloud answers that "+what+" does not exist, but "+why)
}

func unconfirmed(id, message string) error {
	return &cloud.Error{Kind: cloud.Unavailable, Op: "read", Resource: id, Code: NotFoundDoubtful, RetryAfter: doubtDelay, Message: message}
}

// IsDoubtful returns the error of an answer NotFound that Kamino does not believe yet; nil for all others.
func IsDoubtful(err error) *cloud.Error {
	var e *cloud.Error
	if errors.As(err, &e) && e.Code == NotFoundDoubtful {
		return e
	}
	return nil
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

// judgeAbsence judges an absence on which the witnesses agree since a recorded time, and returns the time to record: a
// contradiction begins the count again.
func judgeAbsence(absence plan.Absence, agreed *metav1.Time, now metav1.Time) (plan.Doubt, *metav1.Time) {
	if at := notAfter(agreed, now); at != nil {
		absence.Since = now.Sub(at.Time)
	}
	doubt := plan.DoubtOf(absence)
	if doubt != plan.NotAgain {
		return doubt, nil
	}
	return doubt, orNow(agreed, now)
}

// instanceLister has the calls of a cloud.Provider that find an instance in the list of its pool.
type instanceLister interface {
	instanceMatcher
	Instances(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error)
}

// inPoolList looks for an instance in the list of its pool. An instance that is being removed counts as absent.
func inPoolList(ctx context.Context, c instanceLister, pool cloud.PoolID, id cloud.InstanceID) (plan.List, error) {
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

// listAnswer is the answer of lists that have an object or not. A list that is not found is no witness.
func listAnswer(has bool, errs ...error) (plan.List, error) {
	if has {
		return plan.ListHas, nil
	}
	answer := plan.ListWithout
	for _, err := range errs {
		switch {
		case cloud.Is(err, cloud.NotFound), cloud.Is(err, cloud.Unsupported):
			answer = plan.ListMissing
		case err != nil:
			return plan.ListMissing, err
		}
	}
	return answer, nil
}

// witness asks a second time before a capture believes that one of its objects does not exist.
type witness struct {
	cloud instanceLister
	store store
	now   clock
}

// objects of a capture besides the donor, as in the record of a missing object.
const (
	poolObject     = "pool"
	versionObject  = "version"
	trialObject    = "trial"
	workshopObject = "workshop"
	copyObject     = "copy"
	powerOff       = "power-off"
)

// confirmMissing returns an error unless the cloud's answer is believed that an object of the capture does not exist. list is
// the answer of another read that would find the object. The first answer is recorded.
func (e witness) confirmMissing(ctx context.Context, w *pass, object string, list plan.List) error {
	doubt, err := e.ask(ctx, w, object, list)
	if err != nil || doubt == plan.NoDoubt {
		return err
	}
	why := doubts[doubt]
	if doubt == plan.IsListed {
		why = "a list of the cloud shows that it exists"
	}
	what := map[string]string{
		poolObject: "pool " + w.p.Spec.Pool, versionObject: "version " + w.p.Spec.Version + " with its snapshot", trialObject: "the trial of version " + w.p.Spec.Version,
		workshopObject: "the workshop of pool " + w.p.Spec.Pool, copyObject: "the copy of the disk of node " + w.p.Spec.Donor.NodeName,
	}
	return doubtful(what[object], string(w.pool), why)
}

// confirmStarted is confirmMissing for the power-off of a donor whose disk was copied while it was off.
func (e witness) confirmStarted(ctx context.Context, w *pass) error {
	f := w.facts
	isCopied := f.Image.Snapshot != plan.Absent && f.Image.Snapshot != plan.Foreign
	if !w.isHeld() || !isCopied || f.Copy.Wanted || f.Hold.Returning || w.ends() || w.isOrphan || f.Donor.Rebooted {
		return nil
	}
	if f.Donor.Power != plan.On && f.Donor.Power != plan.Changing {
		return e.endConfirm(ctx, w, powerOff)
	}
	doubt, err := e.ask(ctx, w, powerOff, plan.ListWithout)
	if err != nil || doubt == plan.NoDoubt {
		return err
	}
	return unconfirmed(string(w.id), "the cloud answers that node "+w.p.Spec.Donor.NodeName+" runs, whose disk was copied while it was off, but "+doubts[doubt])
}

// ask judges and records an answer.
func (e witness) ask(ctx context.Context, w *pass, object string, list plan.List) (plan.Doubt, error) {
	now := metav1.NewTime(e.now())
	noted := v1alpha1.MissingRecord{Object: object, Since: now}
	if i := missingAt(w.record, object); i >= 0 && now.Sub(w.record.Missing[i].Last.Time).Abs() < consecutive {
		noted = w.record.Missing[i]
	}
	doubt, agreed := judgeAbsence(plan.Absence{List: list}, noted.AgreedSince, now)
	if doubt == plan.NoDoubt || now.Sub(noted.Last.Time) < lastEvery && noted.AgreedSince.Equal(agreed) {
		return doubt, nil
	}
	noted.Last, noted.AgreedSince = now, agreed
	return doubt, e.store.record(ctx, w, func(r *v1alpha1.Record) { r.Missing = append(withoutMissing(r.Missing, object), noted) })
}

// endConfirm ends the record of a missing object: the object exists.
func (e witness) endConfirm(ctx context.Context, w *pass, object string) error {
	if missingAt(w.record, object) < 0 {
		return nil
	}
	return e.store.record(ctx, w, func(r *v1alpha1.Record) { r.Missing = withoutMissing(r.Missing, object) })
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
func (e witness) confirmPoolGone(ctx context.Context, w *pass) error {
	_, err := e.cloud.Instances(ctx, w.pool)
	switch {
	case err == nil:
		return e.confirmMissing(ctx, w, poolObject, plan.ListHas)
	case cloud.Is(err, cloud.NotFound), cloud.Is(err, cloud.Unsupported):
		return e.confirmMissing(ctx, w, poolObject, plan.ListMissing)
	}
	return err
}
