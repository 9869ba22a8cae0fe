package capture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/trial"
)

const (
	// firstPause is the pause after the first inconclusive attempt. Each further pause is twice as long, up to the
	// trial's timeout divided by pauseShare.
	firstPause, pauseShare = 5 * time.Minute, 8
	// observationInterval is the interval of records of a successful observation. A gap longer than observationGap
	// counts as time without observation.
	observationInterval, observationGap = 2 * time.Minute, 3 * time.Minute
)

// TrialUnsupported is the reason of a refusal: the provider cannot build trial nodes, or no TrialObserver is configured.
const TrialUnsupported = "TrialUnsupported"

// observedTrial is the observation of a trial.
type observedTrial struct {
	// cloud is the trial in the cloud, read at cloudAt. endedAt is the time of the latest request to remove the trial.
	cloud            cloud.Trial
	cloudAt, endedAt time.Time
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

// lookGate reads the verdict, the mode of the promotion, and the age of the version since its trial or its creation. A
// tag can keep a version from its promotion, but only the record says that the version passed.
func (t trials) lookGate(_ context.Context, w *observed) error {
	f, settings := &w.facts, w.p.Spec.Settings.Defaulted()
	result, since := trial.Read(w.image.Tags[cloud.TagTrial])
	_, blamed := trial.Blamed(w.image.Tags[cloud.TagQuarantined])
	switch {
	case f.Quarantined && blamed:
		f.VersionVerdict = plan.VerdictFailed
	case passedAt(w) != nil:
		f.VersionVerdict = plan.VerdictPassed
	}
	age := t.now().Sub(since)
	f.KeepsFailed = f.VersionVerdict == plan.VerdictFailed && result == trial.Failed && age < settings.Trial.KeepFailed.Duration && age > -observationGap
	f.Manual = settings.Promotion.Mode == v1alpha1.PromotionManual
	switch at := passedAt(w); {
	case !f.NeedsTrial:
		since = history.BuiltAt(w.image)
	case at != nil:
		since = at.Time
	default:
		since = time.Time{}
	}
	f.Stale = !since.IsZero() && t.now().Sub(since) > settings.Promotion.Timeout.Duration
	return nil
}

// lookTrial reads the recorded trial in all states of the capture, because its instance must be removed.
func (t trials) lookTrial(ctx context.Context, w *observed) error {
	f, r := &w.facts, w.record.Trial
	f.NeedsTrial = w.p.Spec.Settings.HasTrial()
	if r == nil || w.isOrphan {
		return nil
	}
	now := t.now()
	timeout := w.p.Spec.Settings.Defaulted().Trial.Timeout.Duration
	f.TrialOver = now.Sub(r.StartedAt.Time)-unobservedTime(r, now) > timeout
	if r.Name == "" {
		f.Paused = r.CleanedUpAt != nil && now.Sub(r.CleanedUpAt.Time) < pauseAfter(r.Attempt, timeout)
		return nil
	}
	runner, err := t.trialRunner()
	if err != nil {
		return err
	}
	if w.reads != nil && w.reads.stillHolds(r, now) {
		w.trial.cloud, w.trial.cloudAt = w.reads.trial, w.reads.trialAt
	} else {
		if w.reads != nil {
			ctx = cloud.WithReadCache(ctx)
		}
		w.trial.cloudAt = now
		if w.trial.cloud, err = runner.Trial(ctx, trialSpec(w)); err != nil {
			return err
		}
	}
	if err := t.confirmTrialGone(ctx, w); err != nil {
		return err
	}
	f.Trial = trialProgressOf(w.trial.cloud, r)
	return nil
}

// pauseAfter is the pause after the given number of attempts.
func pauseAfter(attempts int32, timeout time.Duration) time.Duration {
	return min(firstPause<<min(max(attempts-1, 0), 8), timeout/pauseShare)
}

// unobservedTime is the time without observation since the attempt began.
func unobservedTime(r *v1alpha1.TrialRecord, now time.Time) time.Duration {
	if r.ObservedAt == nil || r.Name == "" {
		return 0
	}
	if gap := now.Sub(r.ObservedAt.Time); gap > observationGap {
		return r.Unobserved.Duration + gap
	}
	return r.Unobserved.Duration
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
func (t trials) judgeAttempt(ctx context.Context, w *observed) error {
	f := &w.facts
	open := f.Trial == plan.TrialDecided || f.Trial == plan.TrialMaking || f.Trial == plan.TrialBuilt
	if !open || f.Failed || f.Deleting || f.Image != plan.Complete || f.VersionVerdict != plan.NoVerdict || f.Quarantined || f.Recipe == plan.RecipeHere || w.isHeld() {
		return nil
	}
	w.trial.subject = subjectOf(w, t.now())
	w.trial.subject.PoolInstances = func() ([]cloud.Instance, error) { return t.Cloud.Instances(ctx, w.pool) }
	verdict := t.observeNode(ctx, w)
	w.trial.verdict = &verdict
	switch verdict.Result {
	case trial.Passed:
		f.AttemptVerdict = plan.VerdictPassed
	case trial.Failed:
		f.AttemptVerdict = plan.VerdictFailed
	case trial.Inconclusive:
		f.AttemptVerdict = plan.VerdictInconclusive
	case trial.Pending, trial.Skipped:
	}
	return nil
}

// observeNode observes the trial node, if the attempt has an instance.
func (t trials) observeNode(ctx context.Context, w *observed) trial.Verdict {
	subject := w.trial.subject
	if len(subject.Instances) == 0 || subject.Facts.Instance.Gone {
		return trial.Judge(subject.Facts)
	}
	observation, err := t.TrialObserver.Observe(ctx, subject)
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
func subjectOf(w *observed, now time.Time) trial.Subject {
	p, r, seen := w.p.DeepCopy(), w.record.Trial, withRecordedTrouble(w.trial.cloud, w.record.Trial)
	p.Spec.Settings = p.Spec.Settings.Defaulted()
	f := trial.Facts{Now: now, Begun: r.AttemptStartedAt.Time, Unobserved: unobservedTime(r, now)}
	f.Limits = trial.Within(p.Spec.Settings.Trial.Timeout.Duration, p.Spec.Settings.Trial.Soak.Duration)
	if w.proof != nil {
		f.Proven = w.proof.ManifestDigest
		f.Certificate = trial.FirstToEnd(w.proof.Credentials, p.Spec.Settings.Trial.IgnoreDifferences)
	}
	for _, e := range p.Spec.Settings.Trial.Expect {
		f.Expectations = append(f.Expectations, trial.Expectation{Name: trial.CheckName(e.Name)})
	}
	f.Instance = instanceOf(r, seen, now)
	return trial.Subject{Prototype: p, Pool: w.pool, Spec: trialSpec(w), Attempt: r.Attempt, Instances: seen.Instances, Known: r.Nodes, Image: w.image, Facts: f}
}

// instanceOf returns the facts of the attempt's instance.
func instanceOf(r *v1alpha1.TrialRecord, seen cloud.Trial, now time.Time) (i trial.Instance) {
	none := len(seen.Instances) == 0
	switch failed := seen.State == cloud.Failed; {
	case seen.LacksCapacity:
		i.Refused = orNothing(seen.Trouble)
	case none && failed && seen.Trouble != "": // without an instance, a message that blames the image is not trusted
		i.Unclear = seen.Trouble
	case none && (failed || seen.State == cloud.Absent && r.RunningSince != nil), seen.State == cloud.Deleting:
		i.Gone = true
	case failed && seen.BlamesImage:
		i.Broken = orNothing(seen.Trouble)
	case failed:
		i.Unclear = orNothing(seen.Trouble)
	case none && seen.State == cloud.Pending:
		i.Error = seen.Trouble
	case r.RunningSince != nil:
		i.Running = r.RunningSince.Time
	case seen.State == cloud.Complete:
		i.Running = now
	}
	return i
}

func trialSpec(w *observed) cloud.TrialSpec {
	spec := cloud.TrialSpec{
		ImageRef: w.ref(), RemoveBootstrap: removesBootstrap(w.p),
		Tags: map[string]string{cloud.TagPrototype: w.p.Name, cloud.TagUID: string(w.p.UID)},
	}
	if r := w.record.Trial; r != nil {
		spec.Name = r.Name
	}
	return spec
}

// specWithCustomData adds the copy of customData from the settings to the spec, if the trial node needs customData.
func (t trials) specWithCustomData(ctx context.Context, w *observed) (spec cloud.TrialSpec, err error) {
	spec = trialSpec(w)
	if !spec.RemoveBootstrap {
		spec.CustomData, err = promotion(t).customData(ctx, w.p)
	}
	return spec, err
}

// trialRunner returns the provider, if a TrialObserver is configured.
func (t trials) trialRunner() (cloud.TrialBuilder, error) {
	if t.TrialObserver == nil {
		r := trialUnsupported()
		return nil, &cloud.Error{Kind: cloud.Unsupported, Op: "try a version", Message: r.Message, Refusal: &r}
	}
	return t.Cloud, nil
}

func trialUnsupported() cloud.Refusal {
	return cloud.Refuse(TrialUnsupported, "Kamino cannot run trial nodes here", "set settings.trial.mode: Off")
}

// preflight returns the obstacles to the trial in the settings.
func (t trials) preflight(ctx context.Context, w *observed) ([]cloud.Refusal, error) {
	if !w.p.Spec.Settings.HasTrial() {
		return nil, nil
	}
	runner, err := t.trialRunner()
	if err != nil {
		return []cloud.Refusal{trialUnsupported()}, nil
	}
	spec, err := t.specWithCustomData(ctx, w)
	var c *cloud.Error
	switch {
	case errors.As(err, &c) && c.Refusal != nil:
		return []cloud.Refusal{*c.Refusal}, nil
	case err != nil:
		return nil, err
	}
	if spec.CustomData == nil {
		spec.CustomData = t.GivenCustomData
	}
	spec.Name = trialName(w.p, 1)
	refusals, err := runner.PreflightTrial(ctx, spec)
	if err != nil {
		return refusals, err
	}
	unsuitable, err := t.TrialObserver.Check(ctx, w.p.Spec.Settings)
	return append(refusals, unsuitable...), err
}

func trialName(p *v1alpha1.Prototype, attempt int32) string {
	return fmt.Sprintf("%s-trial-%d", p.Name, attempt)
}

// note changes the trial's record.
func (t trials) note(ctx context.Context, w *observed, change func(*v1alpha1.TrialRecord)) error {
	var r v1alpha1.TrialRecord
	if w.record.Trial != nil {
		r = *w.record.Trial
	}
	change(&r)
	return t.record(ctx, w, func(record *v1alpha1.Record) { record.Trial = &r })
}

// begin records an attempt. In the next call the cloud builds the instance.
func (t trials) begin(ctx context.Context, w *observed) error {
	if w.record.Trial == nil || w.record.Trial.Name == "" {
		return t.decide(ctx, w)
	}
	runner, err := t.trialRunner()
	if err != nil {
		return err
	}
	if err := t.watch(ctx, w); err != nil { // time with refusals of the cloud is no time without observation
		return err
	}
	spec, err := t.specWithCustomData(ctx, w)
	if err != nil {
		return err
	}
	_, err = runner.EnsureTrial(ctx, spec)
	if cloud.Is(err, cloud.QuotaExceeded) {
		return t.noteRefused(ctx, w, err)
	}
	return err
}

func (t trials) decide(ctx context.Context, w *observed) error {
	now := metav1.NewTime(t.now())
	err := t.note(ctx, w, func(r *v1alpha1.TrialRecord) {
		started := r.StartedAt
		if started.IsZero() {
			started = now
		}
		*r = v1alpha1.TrialRecord{
			Attempt: r.Attempt + 1, Name: trialName(w.p, r.Attempt+1), StartedAt: started, AttemptStartedAt: now, ObservedAt: &now, CloudError: r.CloudError,
		}
	})
	if err == nil {
		eventRecorder(t).begins(w)
	}
	return err
}

// watch records the observations that later passes need.
func (t trials) watch(ctx context.Context, w *observed) error {
	r, now := w.record.Trial, t.now()
	running := w.trial.subject.Facts.Instance.Running
	newNodes, nodes := nodeChanges(w)
	isNew := newNodes || r.RunningSince == nil && !running.IsZero() || w.trial.isUnobserved || r.FailedReads > 0 || r.ObservedAt == nil || now.Sub(r.ObservedAt.Time) >= observationInterval
	if !isNew {
		return nil
	}
	return t.note(ctx, w, func(r *v1alpha1.TrialRecord) {
		r.Nodes = nodes
		if r.RunningSince == nil && !running.IsZero() {
			since := metav1.NewTime(running)
			r.RunningSince, r.CloudError = &since, nil
		}
		if w.trial.isUnobserved {
			r.FailedReads++
			return
		}
		seen := metav1.NewTime(now)
		r.Unobserved.Duration, r.ObservedAt, r.FailedReads = unobservedTime(r, now), &seen, 0
	})
}

// pass records that the version passed, and copies the verdict to the image.
func (t trials) pass(ctx context.Context, w *observed) error {
	if passedAt(w) == nil {
		now := metav1.NewTime(t.now().Truncate(time.Second)) // as the API server keeps it
		if err := t.note(ctx, w, func(r *v1alpha1.TrialRecord) { r.PassedAt = &now }); err != nil {
			return err
		}
	}
	if err := t.copyVerdict(ctx, w); err != nil {
		return err
	}
	eventRecorder(t).passed(w)
	return nil
}

// passedAt is the recorded time at which the version passed its trial; nil before.
func passedAt(w *observed) *metav1.Time {
	if w.record.Trial == nil {
		return nil
	}
	return w.record.Trial.PassedAt
}

// copyVerdict tags the image of a passed version, unless it has the tag.
func (t trials) copyVerdict(ctx context.Context, w *observed) error {
	at := passedAt(w)
	if result, _ := trial.Read(w.image.Tags[cloud.TagTrial]); at == nil || result == trial.Passed {
		return nil
	}
	mark := map[string]string{cloud.TagTrial: trial.Mark(trial.Passed, at.Time)}
	if err := t.Cloud.TagImage(ctx, w.ref(), mark); err != nil {
		return err
	}
	w.image.Tags = maps.Clone(w.image.Tags)
	if w.image.Tags == nil {
		w.image.Tags = map[string]string{}
	}
	maps.Copy(w.image.Tags, mark)
	return nil
}

// console returns what the serial console of the trial's instance says about the failure, as the end of a sentence.
func (t trials) console(ctx context.Context, w *observed) string {
	if len(w.trial.cloud.Instances) == 0 {
		return ""
	}
	text, err := t.Cloud.ConsoleOutput(ctx, w.trial.cloud.Instances[0].ID)
	return trial.Console(text, err, w.trial.observation.Facts.Ready)
}

// quarantine records the whole cause, and tags the image as failed. Console and events are read first, because they end
// with the instance.
func (t trials) quarantine(ctx context.Context, w *observed) error {
	failure := w.trial.verdict.Message + t.console(ctx, w) + t.TrialObserver.Evidence(ctx, w.trial.observation.Facts.Node)
	if err := t.note(ctx, w, func(r *v1alpha1.TrialRecord) { r.Failure = failure }); err != nil {
		return err
	}
	return t.Cloud.TagImage(ctx, w.ref(), map[string]string{
		cloud.TagQuarantined: trial.Blame(w.trial.verdict.Message), cloud.TagTrial: trial.Mark(trial.Failed, t.now()),
	})
}
