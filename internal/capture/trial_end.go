package capture

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/trial"
)

// The end of a trial. The instance is removed first, because it costs money and runs an untried version. Trials without
// a record are found in the cloud by the capture's UID.

const (
	// TrialNodeNotRemoved is the reason of an event: a Node of the trial still reports Ready long after the removal of its
	// instance.
	TrialNodeNotRemoved = "TrialNodeNotRemoved"
	// TrialListFailed is the reason of an event: the cloud denies the list of trials, so an instance without a record may
	// still run.
	TrialListFailed = "TrialListFailed"
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
			r.CloudError, r.Nodes = troubleOf(w), withInstances(nodes, w.trial.cloud.Instances)
			r.CleaningUp, r.CleanupStartedAt = true, &now
		})
		if err == nil {
			eventRecorder(t).ends(w)
		}
		return err
	}
	runner, err := t.trialRunner()
	if err != nil {
		return err
	}
	spec, subject := trialSpec(w), subjectOf(w, t.now())
	state, err := runner.EndTrial(ctx, spec)
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
	still, err := t.TrialObserver.Clean(ctx, subject)
	if len(still) > 0 && overdue && err == nil {
		eventRecorder(t).ofVersion(w, corev1.EventTypeWarning, TrialNodeNotRemoved, "%s; the capture continues, and the node returns to service. Find the client that writes its status, and delete the Node if no kubelet runs there",
			strings.Join(still, "; "))
		subject.Overdue = true
		still, err = t.TrialObserver.Clean(ctx, subject)
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

// withInstances adds the instances without a Node.
func withInstances(nodes []v1alpha1.TrialNodeRecord, instances []cloud.Instance) []v1alpha1.TrialNodeRecord {
	known := map[string]bool{}
	for _, n := range nodes {
		known[strings.ToLower(n.Instance)] = true
	}
	for _, i := range instances {
		if !known[strings.ToLower(string(i.ID))] {
			nodes = append(nodes, v1alpha1.TrialNodeRecord{Instance: string(i.ID)})
		}
	}
	return nodes
}

// findLostTrial asks the cloud for trials with the capture's UID, before a new trial and before the end of the capture.
// Any client may have removed or overwritten the record.
func (t trials) findLostTrial(ctx context.Context, w *pass) error {
	f := &w.facts
	if t.TrialObserver == nil || w.isOrphan || !f.Trial.Needed || f.Trial.Progress != plan.NoTrial {
		return nil
	}
	switch plan.Next(*f).Do {
	case plan.BeginTrial, plan.Succeed, plan.Close:
	default:
		return nil
	}
	specs, err := t.Cloud.Trials(ctx, w.pool)
	switch {
	case cloud.Is(err, cloud.NotFound): // with the pool, its trials are gone
		return confirmPoolGone(ctx, t.Engine, w)
	case cloud.Is(err, cloud.Denied): // trials work without the permission to list trials
		t.Log.Error(err, "cannot list the trials of this capture", "prototype", w.p.Name)
		eventRecorder(t).ofVersion(w, corev1.EventTypeWarning, TrialListFailed, "the cloud does not let Kamino list trials: %v; look in the cloud for instances with the tag %s=%s", err, cloud.TagUID, w.p.UID)
		return nil
	case err != nil:
		return err
	}
	for _, spec := range specs {
		if spec.Tags[cloud.TagUID] != string(w.p.UID) {
			continue
		}
		seen, err := t.Cloud.Trial(ctx, spec)
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

// adoptLost records a lost attempt as ending. The attempt keeps its number, so that its name is not reused.
func (t trials) adoptLost(ctx context.Context, w *pass) error {
	spec, now := *w.trial.lost, metav1.NewTime(t.now())
	number, _ := strconv.ParseInt(spec.Name[strings.LastIndex(spec.Name, "-")+1:], 10, 32)
	return t.note(ctx, w, func(r *v1alpha1.TrialRecord) {
		if r.StartedAt.IsZero() {
			r.StartedAt, r.AttemptStartedAt = now, now
		}
		r.Attempt, r.Name = max(r.Attempt, int32(number)), spec.Name
		r.Nodes, r.CleaningUp, r.CleanupStartedAt, r.RunningSince = withInstances(nil, w.trial.cloud.Instances), true, &now, nil
	})
}

// verifyTwins asks the cloud for the instances of the node's twins. A Node without an existing instance proves nothing.
func (t trials) verifyTwins(ctx context.Context, observation *trial.Observation) error {
	f := &observation.Facts
	var proven []string
	for _, name := range f.Twins {
		id, asked := observation.TwinInstances[name]
		if !asked {
			proven = append(proven, name)
			continue
		}
		_, err := t.Cloud.Instance(ctx, id)
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
