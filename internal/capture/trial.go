package capture

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/trial"
)

// TrialNotRemoved is the reason of an event: a Node of the trial still reports Ready long after the removal of its instance.
// Or the cloud denies the list of trials, and an instance without a record may still run.
const TrialNotRemoved = "TrialNotRemoved"

// trialReaderCloud has the calls of a cloud.Provider that read trials and the instances beside them.
type trialReaderCloud interface {
	Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error)
	Trials(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error)
	Instance(ctx context.Context, id cloud.InstanceID) (cloud.Instance, error)
	Instances(ctx context.Context, pool cloud.PoolID) ([]cloud.Instance, error)
}

// trialReader reads the trial of a version, and judges the version.
type trialReader struct {
	cloud    trialReaderCloud
	observer TrialObserver // nil: trials are refused
	witness  witness
	events   recorder
	now      clock
}

// lookGate reads the verdict, the mode of the promotion, and the age of the version since its trial or its creation. A
// tag can keep a version from its promotion, but only the record says that the version passed.
func (t trialReader) lookGate(_ context.Context, w *pass) error {
	f, settings := &w.facts, w.p.Spec.Settings.Defaulted()
	result, since := trial.Read(w.image.version.Tags[cloud.TagTrial])
	_, blamed := trial.Blamed(w.image.version.Tags[cloud.TagQuarantined])
	switch {
	case f.Image.Quarantined && blamed:
		f.Trial.Verdict = plan.VerdictFailed
	case passedAt(w) != nil:
		f.Trial.Verdict = plan.VerdictPassed
	}
	age := t.now().Sub(since)
	isYoung := age < settings.Trial.KeepFailed.Duration && age > -trial.ObservationGap
	f.Trial.KeepsFailed = f.Trial.Verdict == plan.VerdictFailed && result == trial.Failed && isYoung
	f.Promotion.Manual = settings.Promotion.Mode == v1alpha1.PromotionManual
	switch at := passedAt(w); {
	case !f.Trial.Needed:
		since = history.BuiltAt(w.image.version)
	case at != nil:
		since = at.Time
	default:
		since = time.Time{}
	}
	f.Promotion.Stale = !since.IsZero() && t.now().Sub(since) > settings.Promotion.Timeout.Duration
	return nil
}

// lookTrial reads the recorded trial in all states of the capture, because its instance must be removed.
func (t trialReader) lookTrial(ctx context.Context, w *pass) error {
	f, r := &w.facts, w.record.Trial
	f.Trial.Needed = !w.isOrphan && w.p.HasTrial()
	if r == nil || w.isOrphan {
		return nil
	}
	now := t.now()
	timeout := w.p.Spec.Settings.Defaulted().Trial.Timeout.Duration
	f.Trial.MoreTypes = int(r.TypesPassed) < len(w.p.Spec.Settings.Trial.MachineTypes)
	f.Trial.Over = now.Sub(r.StartedAt.Time)-trial.UnobservedTime(r, now) > timeout
	if r.Name == "" {
		attempts := r.Attempt - r.EarlierAttempts
		f.Trial.Paused = attempts > 0 && r.CleanedUpAt != nil && now.Sub(r.CleanedUpAt.Time) < trial.PauseAfter(attempts, timeout)
		return nil
	}
	err := t.supported()
	if err == nil {
		w.trial.cloud, err = t.cloud.Trial(ctx, trialSpec(w))
	}
	if err == nil {
		err = t.confirmTrialGone(ctx, w)
	}
	if err != nil {
		return err
	}
	f.Trial.Progress = trialProgressOf(w.trial.cloud, r)
	return nil
}

func trialProgressOf(seen cloud.Trial, r *v1alpha1.TrialRecord) plan.Trial {
	switch {
	case r.CleaningUp:
		return plan.TrialEnding
	case len(seen.Instances) > 0, r.RunningSince != nil:
		return plan.TrialBuilt
	case seen.State == cloud.Absent:
		return plan.TrialDecided
	case seen.State == cloud.Pending:
		return plan.TrialMaking
	}
	return plan.TrialBuilt // the instance exists, or its creation failed
}

// judgeAttempt judges an open attempt, unless a verdict exists or the capture ends.
func (t trialReader) judgeAttempt(ctx context.Context, w *pass) error {
	f := &w.facts
	open := f.Trial.Progress == plan.TrialDecided || f.Trial.Progress == plan.TrialMaking || f.Trial.Progress == plan.TrialBuilt
	if !open || f.Failed || f.Deleting || f.Image.Version != plan.Complete || f.Trial.Verdict != plan.NoVerdict || f.Image.Quarantined ||
		f.Promotion.Recipe == plan.RecipeHere ||
		w.isHeld() {
		return nil
	}
	w.trial.subject = subjectOf(w, t.now())
	w.trial.subject.PoolInstances = func() ([]cloud.Instance, error) { return t.cloud.Instances(ctx, w.pool) }
	verdict := t.observeNode(ctx, w)
	if kind := machineType(w); kind != "" {
		verdict.Message = "on machine type " + kind + ": " + verdict.Message
	}
	w.trial.verdict = &verdict
	f.Trial.RebootDue = verdict.RebootDue
	switch verdict.Result {
	case trial.Passed:
		f.Trial.AttemptVerdict = plan.VerdictPassed
	case trial.Failed:
		f.Trial.AttemptVerdict = plan.VerdictFailed
	case trial.Inconclusive:
		f.Trial.AttemptVerdict = plan.VerdictInconclusive
	case trial.Pending, trial.Skipped:
	}
	return nil
}

// observeNode observes the trial node, if the attempt has an instance.
func (t trialReader) observeNode(ctx context.Context, w *pass) trial.Verdict {
	subject := w.trial.subject
	if len(subject.Instances) == 0 || subject.Facts.Instance.Gone {
		return trial.Judge(subject.Facts)
	}
	observation, err := t.observer.Observe(ctx, subject)
	w.trial.known = observation.Known
	if err == nil {
		err = t.verifyTwins(ctx, &observation)
	}
	if err != nil {
		w.trial.isUnobserved = true
		return trial.Unseen(w.record.Trial.FailedReads+1, err.Error())
	}
	w.trial.observation = observation
	return trial.Judge(observation.Facts)
}

// subjectOf returns the facts of the attempt from the cloud and the record.
func subjectOf(w *pass, now time.Time) trial.Subject {
	p, r, seen := w.p.DeepCopy(), w.record.Trial, trial.WithRecordedTrouble(w.trial.cloud, w.record.Trial)
	p.Spec.Settings = p.Spec.Settings.Defaulted()
	f := trial.Facts{Now: now, Begun: r.AttemptStartedAt.Time, Unobserved: trial.UnobservedTime(r, now)}
	f.Limits = trial.Within(p.Spec.Settings.Trial.Timeout.Duration, p.Spec.Settings.Trial.Soak.Duration)
	if w.disk.proof != nil {
		f.Proven = w.disk.proof.ManifestDigest
		f.Certificate = trial.FirstToEnd(w.disk.proof.Credentials, p.Spec.Settings.Trial.IgnoreDifferences, p.Spec.Settings.Keep)
	}
	for _, e := range p.Spec.Settings.Trial.Expect {
		f.Expectations = append(f.Expectations, trial.Expectation{Name: trial.CheckName(e.Name)})
	}
	f.Instance = trial.InstanceOf(r, seen, now)
	f.Reboot = trial.RebootOf(r, *p.Spec.Settings.Trial.Reboot)
	return trial.Subject{
		Prototype: p,
		Pool:      w.pool,
		Spec:      trialSpec(w),
		Attempt:   r.Attempt - r.EarlierAttempts,
		Instances: seen.Instances,
		Known:     r.Nodes,
		Restart:   r.Reboot,
		Image:     w.image.version,
		Facts:     f,
	}
}

// machineType is the machine type of the next or current attempt; empty for that of the pool. During the end of an attempt that passed, it is
// that of the next.
func machineType(w *pass) string {
	types := w.p.Spec.Settings.Trial.MachineTypes
	if r := w.record.Trial; r != nil && r.TypesPassed > 0 && int(r.TypesPassed) <= len(types) {
		return types[r.TypesPassed-1]
	}
	return ""
}

func trialSpec(w *pass) cloud.TrialSpec {
	spec := cloud.TrialSpec{
		ImageRef: w.ref(), RemoveBootstrap: removesBootstrap(w.p), MachineType: machineType(w),
		Tags: map[string]string{cloud.TagPrototype: w.p.Name, cloud.TagUID: string(w.p.UID)},
	}
	if r := w.record.Trial; r != nil {
		spec.Name = r.Name
	}
	return spec
}

// supported returns an error with a refusal unless a TrialObserver is configured.
func (t trialReader) supported() error {
	if t.observer != nil {
		return nil
	}
	return errNoObserver()
}

// passedAt is the recorded time at which the version passed its trial; nil before.
func passedAt(w *pass) *metav1.Time {
	if w.record.Trial == nil {
		return nil
	}
	return w.record.Trial.PassedAt
}

// confirmTrialGone asks the list of trials for a trial whose instance has run, if a read has not found the trial.
func (t trialReader) confirmTrialGone(ctx context.Context, w *pass) error {
	r, f := w.record.Trial, &w.facts
	if r.RunningSince == nil || r.CleaningUp || f.Failed || f.Deleting {
		return nil
	}
	if w.trial.cloud.State != cloud.Absent {
		return t.witness.endConfirm(ctx, w, trialObject)
	}
	specs, err := t.cloud.Trials(ctx, w.pool)
	list := plan.ListWithout
	switch {
	case cloud.Is(err, cloud.NotFound), cloud.Is(err, cloud.Denied):
		list = plan.ListMissing
	case err != nil:
		return err
	case slices.ContainsFunc(specs, func(s cloud.TrialSpec) bool { return s.Name == r.Name }):
		list = plan.ListHas
	}
	return t.witness.confirmMissing(ctx, w, trialObject, list)
}

// findLostTrial asks the cloud for trials with the capture's UID, before a new trial and before the end of the capture.
// Any client may have removed or overwritten the record.
func (t trialReader) findLostTrial(ctx context.Context, w *pass) error {
	f := &w.facts
	if t.observer == nil || w.isOrphan || !f.Trial.Needed || f.Trial.Progress != plan.NoTrial {
		return nil
	}
	switch plan.Next(*f).Do {
	case plan.BeginTrial, plan.Succeed, plan.Close:
	default:
		return nil
	}
	specs, err := t.cloud.Trials(ctx, w.pool)
	switch {
	case cloud.Is(err, cloud.NotFound): // with the pool, its trials are gone
		return t.witness.confirmPoolGone(ctx, w)
	case cloud.Is(err, cloud.Denied): // trials work without the permission to list trials
		t.events.log.Error(err, "cannot list the trials of this capture", "prototype", w.p.Name)
		t.events.ofVersion(w, corev1.EventTypeWarning, TrialNotRemoved,
			"the cloud does not let Kamino list trials: %v; look in the cloud for instances with the tag %s=%s", err, cloud.TagUID, w.p.UID)
		return nil
	case err != nil:
		return err
	}
	for _, spec := range specs {
		if spec.Tags[cloud.TagUID] != string(w.p.UID) {
			continue
		}
		seen, err := t.cloud.Trial(ctx, spec)
		if err != nil {
			return err
		}
		if seen.State != cloud.Absent { // the list may be older
			w.trial.lost, w.trial.cloud, f.Trial.Progress = &spec, seen, plan.TrialEnding
			return nil
		}
	}
	return nil
}

// verifyTwins asks the cloud for the instances of the node's twins. A Node without an existing instance proves nothing.
func (t trialReader) verifyTwins(ctx context.Context, observation *trial.Observation) error {
	f := &observation.Facts
	var proven []string
	for _, name := range f.Twins {
		id, asked := observation.TwinInstances[name]
		if !asked {
			proven = append(proven, name)
			continue
		}
		_, err := t.cloud.Instance(ctx, id)
		switch {
		case err == nil:
			proven = append(proven, name)
		case cloud.Is(err, cloud.NotFound), cloud.Is(err, cloud.Unsupported), cloud.Is(err, cloud.Invalid):
			f.DoubtfulTwins = append(f.DoubtfulTwins, "node "+name+", whose instance the cloud does not have")
		default:
			return err
		}
	}
	f.Twins = proven
	return nil
}

// errNoObserver refuses trials and workshops without a TrialObserver.
func errNoObserver() error {
	r := cloud.Refuse(admission.SettingUnsupported, "Kamino cannot run machines beside a pool here",
		`set settings.trial.mode: "Off", and settings.donor.method: InPlace`)
	return &cloud.Error{Kind: cloud.Unsupported, Op: "run a machine beside the pool", Message: r.Message, Refusal: &r}
}

// TrialObserver observes trial nodes in the cluster. Facts from the cloud are part of the subject.
type TrialObserver interface {
	// Check returns the obstacles in the settings: a Job that cannot run on a trial node, or an expression that does not
	// compile. Nil without an obstacle.
	Check(ctx context.Context, settings v1alpha1.Settings) ([]cloud.Refusal, error)

	// Observe completes the subject's facts from the cluster, cordons the trial's instances and keeps measuring pods on the
	// node. Callers repeat Observe until a verdict, from any process: all state is in the observation, also with an error.
	Observe(ctx context.Context, subject trial.Subject) (trial.Observation, error)

	// Hold keeps users' pods away from the Nodes of the subject's instances, and finds the Node of the oldest, as Observe does. It
	// measures nothing. The result has what to record, also with an error.
	Hold(ctx context.Context, subject trial.Subject) (trial.Held, error)

	// Evidence returns the Warning events of the node and of its pods, as the end of a sentence; empty without events. An
	// unread event is no reason to wait, so that an error is part of the text.
	Evidence(ctx context.Context, node string) string

	// Clean starts the removal of all objects of Observe, and of the Nodes of removed instances. left names existing objects.
	// Callers begin once the instances are being removed, and repeat Clean until nothing is left.
	Clean(ctx context.Context, subject trial.Subject) (left []string, err error)
}
