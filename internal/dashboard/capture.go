package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/wording"
)

// capturesOf are the running captures, and the last ended capture, newest first.
func capturesOf(all []v1alpha1.Prototype, items []attention.Item, now time.Time) (shown []Capture) {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b v1alpha1.Prototype) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	ended := false
	for i := range sorted {
		p := &sorted[i]
		if p.Status.Terminal() && ended {
			continue
		}
		ended = ended || p.Status.Terminal()
		shown = append(shown, captureOf(p, items, now))
	}
	return shown
}

func captureOf(p *v1alpha1.Prototype, items []attention.Item, now time.Time) Capture {
	c := Capture{
		Name: p.Name, Version: p.Spec.Version, Donor: p.Spec.Donor.NodeName, Phase: cmp.Or(string(p.Status.Phase), string(v1alpha1.PhasePending)),
		Progress: attention.Progress(p, items), Running: !p.Status.Terminal(), Since: ago(p.CreationTimestamp.Time, now),
	}
	if f := p.Status.Failure; f != nil {
		c.Failure = f.Reason + ": " + f.Message
	} else if is := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled); is != nil && is.Status == metav1.ConditionTrue {
		c.Waits = is.Message
	}
	if p.Status.Phase == v1alpha1.PhaseAwaitingPromotion && c.Waits == "" && !p.Status.HeldBack() {
		c.Waits = cmp.Or(p.Status.HandsOver(),
			fmt.Sprintf("version %s waits for approval: run `kamino promote %s %s`", p.Spec.Version, p.Spec.Pool, p.Spec.Version))
	}
	for i, step := range p.Status.Steps {
		end, last := now, i == len(p.Status.Steps)-1
		if step.FinishedAt != nil {
			end = step.FinishedAt.Time
		}
		s := Step{Phase: string(step.Phase), Took: wording.Duration(end.Sub(step.StartedAt.Time)), Done: step.FinishedAt != nil}
		if last && !c.Running {
			s.Done, s.Failed = true, p.Status.Failure != nil
		}
		if !s.Done {
			s.Took += " so far"
		}
		if step.Phase == v1alpha1.PhaseSucceeded || step.Phase == v1alpha1.PhaseFailed {
			s.Took = ""
		}
		c.Steps = append(c.Steps, s)
	}
	if trial := p.Status.Trial; trial != nil {
		for _, check := range trial.Checks {
			c.Checks = append(c.Checks, Check{
				Name: check.Name, Result: string(check.Result), Message: check.Message,
				Passed: check.Result == v1alpha1.TrialPassed, Failed: check.Result == v1alpha1.TrialFailed,
			})
		}
	}
	return c
}

// policiesOf are the decisions of the policies about the pool.
func policiesOf(all []v1alpha1.PrototypePolicy, h history.History, now time.Time) (shown []Policy) {
	for i := range all {
		for _, s := range all[i].Status.Pools {
			if s.ID != string(h.PoolID) {
				continue
			}
			p := Policy{Name: all[i].Name}
			if d := s.Decision; d != nil {
				p.Reason, p.Message, p.Remedy = d.Reason, d.Message, d.Remedy
			}
			if s.NextRun != nil {
				p.Next = "in " + wording.Duration(s.NextRun.Sub(now))
			}
			if s.JoinHealth != nil {
				p.JoinHealth = strings.TrimSuffix(s.JoinHealth.State+": "+s.JoinHealth.Message, ": ")
				if s.JoinHealth.Cohorts != "" {
					p.JoinHealth += "; " + s.JoinHealth.Version + ": " + s.JoinHealth.Cohorts
				}
			}
			shown = append(shown, p)
		}
	}
	return shown
}
