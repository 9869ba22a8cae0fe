package capture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/trial"
)

// The end of a trial. The instance is removed first, because it costs money and runs an untried version. Trials without
// a record are found in the cloud by the capture's UID.

const (
	// endTimeout limits the wait for a Node, and for the end of an error. Then the trial ends without the Node, and
	// the error is reported.
	endTimeout = 5 * time.Minute
)

// end removes all objects of an attempt. The start of the removal is recorded first. The completion is recorded after
// an observation without objects in the cloud and the cluster.
func (t trials) end(ctx context.Context, w *pass) error {
	if w.trial.lost != nil {
		return t.adoptLost(ctx, w)
	}
	if !w.record.Trial.CleaningUp {
		if err := t.copyVerdict(ctx, w); err != nil {
			return err
		}
		now := metav1.NewTime(t.now())
		_, nodes := nodeChanges(w)
		err := t.note(ctx, w, func(r *v1alpha1.TrialRecord) {
			r.CloudError, r.Nodes = trial.TroubleOf(w.trial.cloud, w.record.Trial), trial.WithInstances(nodes, w.trial.cloud.Instances)
			r.CleaningUp, r.CleanupStartedAt = true, &now
		})
		if err == nil {
			t.events.ends(w)
		}
		return err
	}
	if err := t.reader.supported(); err != nil {
		return err
	}
	spec, subject := trialSpec(w), subjectOf(w, t.now())
	state, err := t.cloud.EndTrial(ctx, spec)
	left, cleanErr := t.clean(ctx, w, subject)
	if err := errors.Join(err, cleanErr); err != nil || left || state != cloud.Absent || w.trial.cloud.State != cloud.Absent {
		return err
	}
	now := metav1.NewTime(t.now())
	return t.note(ctx, w, func(r *v1alpha1.TrialRecord) {
		r.Name, r.CleaningUp, r.CleanupStartedAt, r.RunningSince, r.Nodes, r.CleanedUpAt = "", false, nil, nil, nil, &now
	})
}

// clean removes the objects in the cluster. After endTimeout, a Node that another client keeps Ready is left alone,
// and a lasting error is reported.
func (t trials) clean(ctx context.Context, w *pass, subject trial.Subject) (left bool, err error) {
	overdue := w.record.Trial.CleanupStartedAt != nil && t.now().Sub(w.record.Trial.CleanupStartedAt.Time) > endTimeout
	still, err := t.reader.observer.Clean(ctx, subject)
	if len(still) > 0 && overdue && err == nil {
		t.events.ofVersion(w, corev1.EventTypeWarning, TrialNotRemoved,
			"%s; the capture continues, and the node returns to service. Find the client that writes its status, and delete the Node if no kubelet runs there",
			strings.Join(still, "; "))
		subject.Overdue = true
		still, err = t.reader.observer.Clean(ctx, subject)
	}
	if err != nil && overdue {
		err = &cloud.Error{Kind: cloud.Refused, Op: "remove the cluster's objects of", Resource: "trial " + subject.Spec.Name, Err: err,
			Message: err.Error() + "; the trial's instance is removed from the cloud anyway. Fix the refusal of the API server, or delete the named objects"}
	}
	return len(still) > 0, err
}

// nodeChanges reports whether the observed Nodes of the trial differ from the record, and returns the current Nodes.
func nodeChanges(w *pass) (isNew bool, nodes []v1alpha1.TrialNodeRecord) {
	before := w.record.Trial.Nodes
	if w.trial.known == nil || equality.Semantic.DeepEqual(before, w.trial.known) {
		return false, before
	}
	return true, w.trial.known
}

// adoptLost records a lost attempt as ending. The attempt keeps its number, so that its name is not reused.
func (t trials) adoptLost(ctx context.Context, w *pass) error {
	spec, now := *w.trial.lost, metav1.NewTime(t.now())
	number, _ := strconv.ParseInt(spec.Name[strings.LastIndex(spec.Name, "-")+1:], 10, 32)
	return t.note(ctx, w, func(r *v1alpha1.TrialRecord) {
		if r.StartedAt.IsZero() {
			r.StartedAt, r.AttemptStartedAt = now, now
		}
		r.Attempt, r.Name = max(r.Attempt, int32(number)), spec.Name
		r.Nodes, r.CleaningUp, r.CleanupStartedAt, r.RunningSince = trial.WithInstances(nil, w.trial.cloud.Instances), true, &now, nil
	})
}

// trialCloud has the calls of a cloud.Provider that change trials, and the tags of the tried version.
type trialCloud interface {
	PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error)
	EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error)
	EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error)
	Restart(ctx context.Context, id cloud.InstanceID) error
	ConsoleOutput(ctx context.Context, id cloud.InstanceID) (string, error)
	TagImage(ctx context.Context, ref cloud.ImageRef, tags map[string]string) error
	AllowLaunches(ctx context.Context, ref cloud.ImageRef, allow bool) error
}

// trials builds nodes from a version, and records the verdict.
type trials struct {
	cloud      trialCloud
	reader     trialReader
	customData customDataReader
	given      []byte // a copy of customData that is not saved yet
	store      store
	events     recorder
	now        clock
}

// specWithCustomData adds the copy of customData from the settings to the spec, if the trial node needs customData.
func (t trials) specWithCustomData(ctx context.Context, w *pass) (spec cloud.TrialSpec, err error) {
	spec = trialSpec(w)
	if !spec.RemoveBootstrap {
		spec.CustomData, err = t.customData.read(ctx, w.p)
	}
	return spec, err
}

// preflight returns the obstacles to the trial in the settings.
func (t trials) preflight(ctx context.Context, w *pass) ([]cloud.Refusal, error) {
	if !w.p.HasTrial() {
		return nil, nil
	}
	var spec cloud.TrialSpec
	err := t.reader.supported()
	if err == nil {
		spec, err = t.specWithCustomData(ctx, w)
	}
	var c *cloud.Error
	switch {
	case errors.As(err, &c) && c.Refusal != nil:
		return []cloud.Refusal{*c.Refusal}, nil
	case err != nil:
		return nil, err
	}
	if spec.CustomData == nil {
		spec.CustomData = t.given
	}
	spec.Name = trialName(w.p, 1)
	refusals, err := t.cloud.PreflightTrial(ctx, spec)
	for _, spec.MachineType = range w.p.Spec.Settings.Trial.MachineTypes {
		if err != nil || len(refusals) > 0 {
			break
		}
		refusals, err = t.cloud.PreflightTrial(ctx, spec)
	}
	if err != nil {
		return refusals, err
	}
	unsuitable, err := t.reader.observer.Check(ctx, w.p.Spec.Settings)
	return append(refusals, unsuitable...), err
}

func trialName(p *v1alpha1.Prototype, attempt int32) string {
	return fmt.Sprintf("%s-trial-%d", p.Name, attempt)
}

// note changes the trial's record.
func (t trials) note(ctx context.Context, w *pass, change func(*v1alpha1.TrialRecord)) error {
	var r v1alpha1.TrialRecord
	if w.record.Trial != nil {
		r = *w.record.Trial
	}
	change(&r)
	return t.store.record(ctx, w, func(record *v1alpha1.Record) { record.Trial = &r })
}

// begin records an attempt. In the next call the cloud builds the instance.
func (t trials) begin(ctx context.Context, w *pass) error {
	if w.record.Trial == nil || w.record.Trial.Name == "" {
		return t.decide(ctx, w)
	}
	if err := t.reader.supported(); err != nil {
		return err
	}
	if err := t.watch(ctx, w); err != nil { // time with refusals of the cloud is no time without observation
		return err
	}
	spec, err := t.specWithCustomData(ctx, w)
	if err != nil {
		return err
	}
	_, err = t.cloud.EnsureTrial(ctx, spec)
	if cloud.Is(err, cloud.QuotaExceeded) {
		return t.noteRefused(ctx, w, err)
	}
	return err
}

func (t trials) decide(ctx context.Context, w *pass) error {
	now := metav1.NewTime(t.now())
	err := t.note(ctx, w, func(r *v1alpha1.TrialRecord) {
		started := r.StartedAt
		if started.IsZero() {
			started = now
		}
		*r = v1alpha1.TrialRecord{
			Attempt: r.Attempt + 1, Name: trialName(w.p, r.Attempt+1), StartedAt: started, AttemptStartedAt: now, ObservedAt: &now, CloudError: r.CloudError,
			TypesPassed: r.TypesPassed, EarlierAttempts: r.EarlierAttempts,
		}
	})
	if err == nil {
		of := "a node"
		if kind := machineType(w); kind != "" {
			of += " of machine type " + kind
		}
		t.events.ofVersion(w, corev1.EventTypeNormal, "TrialStarted", "trial of version %s: %s is built outside pool %s", w.p.Spec.Version, of, w.p.Spec.Pool)
	}
	return err
}

// watch records the observations that later passes need.
func (t trials) watch(ctx context.Context, w *pass) error {
	r, now := w.record.Trial, t.now()
	running := w.trial.subject.Facts.Instance.Running
	newNodes, nodes := nodeChanges(w)
	isNew := newNodes || r.RunningSince == nil && !running.IsZero() || w.trial.isUnobserved || r.FailedReads > 0 || r.ObservedAt == nil ||
		now.Sub(r.ObservedAt.Time) >= trial.ObservationInterval
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
		r.Unobserved.Duration, r.ObservedAt, r.FailedReads = trial.UnobservedTime(r, now), &seen, 0
	})
}

// passType records that the version has passed on the attempt's machine type, and that the attempt ends. The next type has the timeout and the
// attempts for itself.
func (t trials) passType(ctx context.Context, w *pass) error {
	now := metav1.NewTime(t.now())
	_, nodes := nodeChanges(w)
	return t.note(ctx, w, func(r *v1alpha1.TrialRecord) {
		r.TypesPassed, r.EarlierAttempts, r.StartedAt, r.CloudError = r.TypesPassed+1, r.Attempt, now, nil
		r.Nodes, r.CleaningUp, r.CleanupStartedAt = trial.WithInstances(nodes, w.trial.cloud.Instances), true, &now
	})
}

// reboot restarts the instance of the trial node once. The record names the boot first. An answer that was lost is asked for again, until the
// node reports another boot, so that no crash restarts the instance for ever.
func (t trials) reboot(ctx context.Context, w *pass) error {
	if err := t.watch(ctx, w); err != nil {
		return err
	}
	facts, decided := w.trial.observation.Facts, w.record.Trial.Reboot
	if decided == nil {
		next := v1alpha1.TrialReboot{Boot: facts.Reboot.Boot}
		if next.Boot == "" {
			next.Skipped = "the node reports no boot ID"
		}
		return t.note(ctx, w, func(r *v1alpha1.TrialRecord) { r.Reboot = &next })
	}
	next := *decided
	if !facts.Reboot.Booted {
		err := t.cloud.Restart(ctx, instanceOf(w, facts.NodeUID))
		switch {
		case cloud.Is(err, cloud.Denied), cloud.Is(err, cloud.Unsupported):
			next.Skipped = err.Error()
		case err != nil:
			return err
		}
	}
	if next.Skipped == "" {
		now := metav1.NewTime(t.now())
		next.AcceptedAt = &now
	}
	return t.note(ctx, w, func(r *v1alpha1.TrialRecord) { r.Reboot = &next })
}

// instanceOf is the instance of a Node of the trial; the first instance if the record does not have the Node.
func instanceOf(w *pass, node string) cloud.InstanceID {
	for _, k := range w.record.Trial.Nodes {
		if string(k.UID) == node && node != "" {
			return cloud.InstanceID(k.Instance)
		}
	}
	return w.trial.cloud.Instances[0].ID
}

// pass records that the version passed, and copies the verdict to the image.
func (t trials) pass(ctx context.Context, w *pass) error {
	if passedAt(w) == nil {
		now := metav1.NewTime(t.now().Truncate(time.Second)) // as the API server keeps it
		if err := t.note(ctx, w, func(r *v1alpha1.TrialRecord) { r.PassedAt = &now }); err != nil {
			return err
		}
	}
	if err := t.copyVerdict(ctx, w); err != nil {
		return err
	}
	t.events.ofVersion(w, corev1.EventTypeNormal, TrialPassed, "version %s of pool %s has passed its trial", w.p.Spec.Version, w.p.Spec.Pool)
	return nil
}

// copyVerdict tags the image of a passed version, unless it has the tag.
func (t trials) copyVerdict(ctx context.Context, w *pass) error {
	at := passedAt(w)
	if result, _ := trial.Read(w.image.version.Tags[cloud.TagTrial]); at == nil || result == trial.Passed {
		return nil
	}
	mark := map[string]string{cloud.TagTrial: trial.Mark(trial.Passed, at.Time)}
	if err := t.cloud.TagImage(ctx, w.ref(), mark); err != nil {
		return err
	}
	w.image.version.Tags = maps.Clone(w.image.version.Tags)
	if w.image.version.Tags == nil {
		w.image.version.Tags = map[string]string{}
	}
	maps.Copy(w.image.version.Tags, mark)
	return nil
}

// console returns what the serial console of the trial's instance says about the failure, as the end of a sentence.
func (t trials) console(ctx context.Context, w *pass) string {
	if len(w.trial.cloud.Instances) == 0 {
		return ""
	}
	text, err := t.cloud.ConsoleOutput(ctx, w.trial.cloud.Instances[0].ID)
	return trial.Console(text, err, w.trial.observation.Facts.Ready)
}

// quarantine records the whole cause, and tags the image as failed. Console and events are read first, because they end
// with the instance.
func (t trials) quarantine(ctx context.Context, w *pass) error {
	failure := w.trial.verdict.Message + t.console(ctx, w) + t.reader.observer.Evidence(ctx, w.trial.observation.Facts.Node)
	if err := t.note(ctx, w, func(r *v1alpha1.TrialRecord) { r.Failure = failure }); err != nil {
		return err
	}
	err := t.cloud.TagImage(ctx, w.ref(), map[string]string{
		cloud.TagQuarantined: trial.Blame(w.trial.verdict.Message), cloud.TagTrial: trial.Mark(trial.Failed, t.now()),
	})
	if err == nil && w.image.version.Launches == cloud.LaunchesAllowed {
		_ = t.cloud.AllowLaunches(ctx, w.ref(), false) // if this fails, the controller does it later
	}
	return err
}

// noteRefused records the cloud's message about missing room, which ends the attempt.
func (t trials) noteRefused(ctx context.Context, w *pass, err error) error {
	text := err.Error()
	if c := (*cloud.Error)(nil); errors.As(err, &c) && c.Message != "" {
		if text = c.Message; c.Code != "" && !strings.Contains(text, c.Code) {
			text = c.Code + ": " + text
		}
	}
	return t.note(ctx, w, func(r *v1alpha1.TrialRecord) {
		r.CloudError = &v1alpha1.TrialCloudError{Attempt: r.Attempt, Message: text, LacksCapacity: true}
	})
}
