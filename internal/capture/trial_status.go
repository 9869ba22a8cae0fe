package capture

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/internal/wording"
)

const (
	// TrialPassed is the reason of condition TrialPassed, and of an event: the version has passed.
	TrialPassed = "TrialPassed"
	// AwaitingPromotion is the reason of conditions Ready and Reconciling, and of an event: a person must promote the
	// version.
	AwaitingPromotion = "AwaitingPromotion"
	// HandedOver is the same for a promotion with another tool that writes the pool's recipe.
	HandedOver = "HandedOver"
)

// reportTrial writes the trial's status. Earlier results stay, so that the status of an ended trial keeps its findings.
func reportTrial(w *pass, now time.Time) {
	f, r := &w.facts, w.record.Trial
	if !f.Trial.Needed || r == nil && f.Trial.Verdict == plan.NoVerdict || f.Image.Version != plan.Complete {
		return
	}
	s := w.p.Status.Trial
	if s == nil {
		s = &v1alpha1.TrialStatus{Result: v1alpha1.TrialPending}
	}
	if r != nil {
		started := metav1.NewMicroTime(r.StartedAt.Time)
		if s.Attempt != r.Attempt {
			s = &v1alpha1.TrialStatus{Result: v1alpha1.TrialPending}
		}
		s.Attempt, s.StartedAt = r.Attempt, &started
	}
	w.p.Status.Trial = s
	if w.trial.verdict != nil {
		copyObservation(s, w, now)
	}
	reportVerdict(s, w)
}

// reportVerdict writes the verdict on the version, or the end of an attempt without a verdict.
func reportVerdict(s *v1alpha1.TrialStatus, w *pass) {
	f, r := &w.facts, w.record.Trial
	result, at := trial.Read(w.image.version.Tags[cloud.TagTrial])
	blamed, isBlamed := trial.Blamed(w.image.version.Tags[cloud.TagQuarantined])
	switch {
	case f.Trial.Verdict == plan.VerdictFailed && isBlamed:
		s.Result, s.Message = v1alpha1.TrialFailed, wholeFailure(w, blamed)
	case f.Trial.Verdict == plan.VerdictPassed:
		result, at = trial.Passed, passedAt(w).Time
		s.Result = v1alpha1.TrialPassed
		s.Message = "every check has passed"
		if types := w.p.Spec.Settings.Trial.MachineTypes; len(types) > 0 {
			s.Message += ", on the machine type of the pool and on " + wording.Names(types)
		}
		if proof := w.disk.proof; proof != nil {
			s.Message += trial.FirstToEnd(proof.Credentials, nil, 0).String()
		}
	case r != nil && passedType(r) && !f.Failed && !f.Deleting:
		s.Result, s.Message = v1alpha1.TrialPending, "every check has passed on this machine type, and a trial on "+machineType(w)+" follows"
		return
	case r != nil && (r.Name == "" || r.CleaningUp) && !f.Failed && !f.Deleting:
		s.Result = v1alpha1.TrialInconclusive
		return
	default:
		return
	}
	if finished := metav1.NewMicroTime(at); result != "" {
		s.FinishedAt = &finished
	}
}

// passedType reports whether the last attempt passed on its machine type, and the next one has not begun.
func passedType(r *v1alpha1.TrialRecord) bool {
	return r.TypesPassed > 0 && r.EarlierAttempts == r.Attempt
}

// wholeFailure is the recorded message of a failed version. The tag has the beginning.
func wholeFailure(w *pass, blamed string) string {
	if r := w.record.Trial; r != nil {
		return trial.Whole(blamed, r.Failure)
	}
	return blamed
}

// copyObservation copies the observation of an attempt. Passed and failed are written only after the tag on the image.
func copyObservation(s *v1alpha1.TrialStatus, w *pass, now time.Time) {
	verdict, observation := w.trial.verdict, w.trial.observation
	s.Result, s.Message = v1alpha1.TrialPending, verdict.Message
	if verdict.Result == trial.Inconclusive {
		s.Result = v1alpha1.TrialInconclusive
	}
	if len(w.trial.cloud.Instances) > 0 {
		s.Instance = string(w.trial.cloud.Instances[0].ID)
	}
	if observation.Facts.Node != "" {
		s.Node, s.NodeUID = observation.Facts.Node, types.UID(observation.Facts.NodeUID)
	}
	if observation.Node != nil {
		s.NodeInfo = observation.Node
	}
	if len(verdict.Checks) > 0 {
		s.Checks = trial.ChecksSince(s.Checks, verdict.Checks, now)
	}
}

// inconclusiveReason is the reason for the missing verdict, with the cloud's message.
func inconclusiveReason(w *pass) string {
	text := attemptReason(w)
	if message := trial.CloudMessage(w.record.Trial); message != "" && !strings.Contains(text, message) {
		text += "; the cloud created no instance: " + message
	}
	return text
}

func attemptReason(w *pass) string {
	switch {
	case w.trial.verdict != nil && w.trial.verdict.Result == trial.Inconclusive:
		return w.trial.verdict.Message
	case w.trial.verdict != nil:
		return fmt.Sprintf("the timeout is exceeded: %s", w.trial.verdict.Message)
	case w.p.Status.Trial != nil && w.p.Status.Trial.Message != "":
		return w.p.Status.Trial.Message
	}
	return "no reason is recorded"
}

// trialProgress is the progress of a trial, or of a promotion by a person.
func trialProgress(w *pass, d plan.Decision) string {
	switch {
	case d.Do == plan.BeginTrial && w.facts.Trial.Progress == plan.NoTrial:
		return "beginning a trial"
	case d.Do == plan.BeginTrial:
		return "requesting the trial node"
	case (d.Do == plan.WatchTrial || d.Do == plan.RebootTrial) && w.trial.verdict != nil:
		return w.trial.verdict.Message
	case d.Do == plan.EndTrial:
		return "removing the trial node"
	case d.Why == plan.ForTrial && w.facts.Trial.KeepsFailed:
		return "keeping the instance of the failed trial (settings.trial.keepFailed)"
	case d.Why == plan.ForTrial:
		return "the last attempt has no verdict, and another attempt follows: " + inconclusiveReason(w)
	case d.Why == plan.ForPromotion:
		return promotionProgress(w)
	}
	return ""
}

func promotionProgress(w *pass) string {
	switch {
	case w.promotion.change.HandOver != "":
		return "handed over: " + w.promotion.change.HandOver
	case w.promotion.heldBack != "":
		return w.promotion.heldBack
	case w.promotion.frozenBy != "":
		return frozenMessage(w)
	}
	return fmt.Sprintf("waiting for `kamino promote %s %s`", w.p.Spec.Pool, w.p.Spec.Version)
}

func reportTrialPassed(w *pass, d plan.Decision, now time.Time) {
	p, f := w.p, &w.facts
	of := fmt.Sprintf("version %s of pool %s", p.Spec.Version, p.Spec.Pool)
	switch {
	case p.Status.Trial == nil:
	case f.Trial.Verdict == plan.VerdictPassed:
		setCondition(p, now, v1alpha1.ConditionTrialPassed, metav1.ConditionTrue, TrialPassed, of+" has passed its trial")
	case f.Trial.Verdict == plan.VerdictFailed:
		setCondition(p, now, v1alpha1.ConditionTrialPassed, metav1.ConditionFalse, string(plan.TrialFailed),
			of+" has failed its trial: "+p.Status.Trial.Message)
	case d.Why == plan.ForTrial, d.Why == plan.TrialInconclusive:
		setCondition(p, now, v1alpha1.ConditionTrialPassed, metav1.ConditionUnknown, string(plan.TrialInconclusive), "no verdict yet on "+of)
	case !f.Failed && !f.Deleting && d.Do != plan.Fail:
		setCondition(p, now, v1alpha1.ConditionTrialPassed, metav1.ConditionUnknown, string(v1alpha1.PhaseRunningTrial), "the trial of "+of+" is in progress")
	}
}

// frozenMessage is what a version waits for that descends from a quarantined version.
func frozenMessage(w *pass) string {
	return fmt.Sprintf("descends from the quarantined version %s: waiting for `kamino unquarantine %s %s`, or for its quarantine",
		w.promotion.frozenBy, w.p.Spec.Pool, w.p.Spec.Version)
}

// promotionWait is the reason and the message of the wait for a person, or for other pools.
func promotionWait(w *pass) (reason, message string) {
	p := w.p
	if w.promotion.heldBack != "" {
		return v1alpha1.HeldBackReason, fmt.Sprintf("version %s of pool %s is complete, and held back: %s. To promote it now, run `kamino promote %s %s`",
			p.Spec.Version, p.Spec.Pool, w.promotion.heldBack, p.Spec.Pool, p.Spec.Version)
	}
	if over := p.Status.HandsOver(); over != "" {
		return HandedOver, fmt.Sprintf("version %s of pool %s is complete and handed over: %s%s", p.Spec.Version, p.Spec.Pool, over, compared(p.Status.Recipe))
	}
	if w.promotion.frozenBy != "" {
		return AwaitingPromotion, fmt.Sprintf("version %s of pool %s is complete, and %s%s",
			p.Spec.Version, p.Spec.Pool, frozenMessage(w), compared(p.Status.Recipe))
	}
	return AwaitingPromotion, fmt.Sprintf("version %s of pool %s is complete, and waits for `kamino promote %s %s`%s",
		p.Spec.Version, p.Spec.Pool, p.Spec.Pool, p.Spec.Version, compared(p.Status.Recipe))
}

// trialFailureMessage explains why a complete version is not used.
func trialFailureMessage(w *pass, why plan.Reason) string {
	version, pool, settings := w.p.Spec.Version, w.p.Spec.Pool, w.p.Spec.Settings.Defaulted()
	later := fmt.Sprintf("run `kamino promote %s %s`", pool, version)
	if w.promotion.change.HandOver != "" {
		later = w.promotion.change.HandOver
	}
	switch why {
	case plan.TrialFailed:
		blamed, _ := trial.Blamed(w.image.version.Tags[cloud.TagQuarantined])
		return fmt.Sprintf(
			"version %s of pool %s has failed its trial and is quarantined; the pool is unchanged: %s. Fix the cause on the nodes, then capture again",
			version, pool, wholeFailure(w, blamed))
	case plan.TrialInconclusive:
		text := fmt.Sprintf("the trial of version %s of pool %s has no verdict after %s; the pool is unchanged: %s. ",
			version, pool, settings.Trial.Timeout.Duration, inconclusiveReason(w))
		switch {
		case trial.IsRefused(w.record.Trial):
			return text + "Fix the cause and capture again"
		case trial.LacksRoom(w.record.Trial):
			never := "the pool never has an instance to spare, set settings.trial.mode to Off: join tracking then watches its first nodes"
			if kind := machineType(w); kind != "" {
				never = "there never is an instance of that type, remove " + kind + " from settings.trial.machineTypes"
			}
			return text + "Raise the quota or free an instance and capture again, or use the version without a trial: " + later + ". If " + never
		}
		return text + "Fix the cause and capture again, or use the version without a trial: " + later
	default: // plan.PromotionStale
		return fmt.Sprintf("version %s of pool %s was not promoted within %s; the version is kept: %s",
			version, pool, settings.Promotion.Timeout.Duration, later)
	}
}

// compared is the comparison as the end of a message; empty without a comparison.
func compared(r *v1alpha1.RecipeStatus) string {
	if r == nil || r.Contents == "" {
		return ""
	}
	return "; " + r.Contents
}
