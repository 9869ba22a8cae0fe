package capture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// Serving is the reason of condition DonorInService, and of an event: the donor takes pods again, but stays reserved
// until the cloud answers.
const Serving = "Serving"

// actWithoutCloud acts with the cluster alone after a failed pass, because the donor must not wait for an unreachable cloud.
// The error is only of this action. A conflict is no outage.
func (r rooms) actWithoutCloud(ctx context.Context, w *pass, trouble error) error {
	if apierrors.IsConflict(trouble) || w.p.Spec.StaysInService() { // the donor serves anyway
		return nil
	}
	if err := r.donors.lookNode(ctx, w); err != nil || !w.isHeld() {
		return nil
	}
	d := plan.WithoutCloud(w.facts)
	r.events.log.V(1).Info("decided without the cloud", "node", w.p.Spec.Donor.NodeName, "holder", w.p.Name, "decision", d.String())
	switch d.Do {
	case plan.Fail:
		r.failures.fail(w, failure(w, d))
	case plan.Serve:
		if err := r.act(ctx, w, d); err != nil {
			return err
		}
		r.hold.reportServing(w, trouble)
	case plan.PatchDonor:
		if c := (*cloud.Error)(nil); errors.As(trouble, &c) { // after another error the next pass makes the step
			return r.act(ctx, w, d)
		}
	default:
	}
	return nil
}

// cloudWaits say how the cloud fails, for errors that end without a person.
var cloudWaits = map[cloud.Kind]string{
	cloud.Throttled: "gets too many requests", cloud.Unavailable: "fails, or cannot be reached",
	cloud.Conflict: "refuses, because another request or object is in the way",
}

// How long the cloud may fail in each pass before a person hears of it: heldPatience while the donor is out of service.
const (
	cloudPatience = 5 * time.Minute
	heldPatience  = time.Minute
)

func patience(p *v1alpha1.Prototype) time.Duration {
	if d := p.Status.Donor; d != nil && d.ReservedAt != nil && d.ReleasedAt == nil && !p.Spec.Settings.CopiesDonor() {
		return heldPatience
	}
	return cloudPatience
}

// reportCloudWait reports as progress that the cloud has failed since an earlier pass, and why. A first error, with zero since, is
// no news. The text is stable while the cause lasts. A long failure is condition Stalled, too.
func reportCloudWait(p *v1alpha1.Prototype, err error, since, now time.Time) {
	var e *cloud.Error
	if since.IsZero() || !errors.As(err, &e) || cloudWaits[e.Kind] == "" || IsDoubtful(err) != nil {
		return
	}
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
	isSaid := c != nil && c.Status == metav1.ConditionTrue && c.Reason == string(e.Kind) // with the words of an earlier error
	if now.Sub(since) >= patience(p) && p.Status.Failure == nil && !isSaid {
		setCondition(p, now, v1alpha1.ConditionStalled, metav1.ConditionTrue, string(e.Kind), e.Error())
	}
	if isServing(p) {
		return
	}
	code := ""
	if e.Code != "" {
		code = ", " + e.Code
	}
	says := fmt.Sprintf("waiting for the cloud since %s: it %s (%s%s)", clock24(since), cloudWaits[e.Kind], e.Op, code)
	if !strings.HasPrefix(p.Status.Progress, says) { // later messages may differ in the ID of their request only
		if e.Message != "" {
			says += ": " + e.Message
		}
		p.Status.Progress = says
	}
}

// isServing reports whether the donor takes pods until the cloud answers, which is the more important progress.
func isServing(p *v1alpha1.Prototype) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDonorInService)
	return c != nil && c.Reason == Serving
}

// reportServing reports a donor that takes pods again while the cloud does not answer.
func (h hold) reportServing(w *pass, trouble error) {
	served := fmt.Sprintf("node %s takes pods again, but stays reserved until the cloud answers", w.p.Spec.Donor.NodeName)
	h.events.event(w, corev1.EventTypeWarning, Serving, "%s: %v", served, trouble)
	w.p.Status.Progress = served
	setCondition(w.p, h.now(), v1alpha1.ConditionDonorInService, metav1.ConditionTrue, Serving,
		"the donor takes pods, but stays reserved until the cloud answers")
}
