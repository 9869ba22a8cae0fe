package print

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/wording"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// Success writes the result of a successful capture.
func Success(w io.Writer, p *v1alpha1.Prototype, now time.Time) error {
	lines := []string{fmt.Sprintf("Pool %s now builds new nodes from version %s.", p.Spec.Pool, p.Spec.Version)}
	if away, _ := OutOfService(p, now); away != "" {
		message := "was out of service for " + away
		if p.Status.Donor != nil && p.Status.Donor.State == v1alpha1.DonorRemoved {
			message = fmt.Sprintf("was removed %s after the drain", away)
		}
		if p.Spec.Settings.CopiesDonor() {
			message = servedThrough(p) + frozenClause(p)
		}
		lines = append(lines, fmt.Sprintf("Node %s %s; the whole capture took %s.", p.Spec.Donor.NodeName, message, wording.Duration(WholeTime(p))))
	}
	if len(p.Status.Retired) > 0 {
		lines = append(lines, "Retired: "+strings.Join(p.Status.Retired, ", ")+".")
	}
	if p.Status.SavedRecipe != "" {
		lines = append(lines, fmt.Sprintf("Secret %s keeps the recipe as it was before.", p.Status.SavedRecipe))
	}
	return output.Prose(w, strings.Join(lines, "\n")+"\n")
}

// servedThrough says what a capture by copy did to its donor.
func servedThrough(p *v1alpha1.Prototype) string {
	s := p.Status.Patch
	switch {
	case p.Spec.StaysInService():
		return "stayed in service"
	case s == nil || s.FinishedAt.IsZero() || s.Failure != "":
		return "was released"
	}
	return "was patched, and then stayed in service"
}

// frozenClause says how long the disk of a donor in service stood still, as the end of a clause; empty if unknown.
func frozenClause(p *v1alpha1.Prototype) string {
	frozen := Frozen(p)
	if frozen == "" {
		return ""
	}
	if !p.Spec.StaysInService() {
		return fmt.Sprintf(" (frozen for %s)", frozen)
	}
	return fmt.Sprintf(" (frozen for %s, out of service for 0s)", frozen)
}

// WholeTime is the time from the first step's begin to the last step's end; zero before the end.
func WholeTime(p *v1alpha1.Prototype) time.Duration {
	steps := p.Status.Steps
	if len(steps) == 0 || steps[len(steps)-1].FinishedAt == nil {
		return 0
	}
	return steps[len(steps)-1].FinishedAt.Sub(steps[0].StartedAt.Time)
}

// Failure describes a capture without a new recipe: the reason and, if the capture changed the node, the node's state.
func Failure(p *v1alpha1.Prototype, touched bool, now time.Time) string {
	failure := p.Status.Failure
	if failure == nil {
		failure = &v1alpha1.Failure{Reason: "Unknown", Message: "the status of the Prototype has no reason"}
	}
	text := fmt.Sprintf("%s: %s", failure.Reason, failure.Message)
	if failure.CloudError != "" && !strings.Contains(failure.Message, failure.CloudError) {
		text += fmt.Sprintf(" (cloud error: %s)", failure.CloudError)
	}
	text += "\n  see " + page.Reason(failure.Reason)
	if !touched {
		return fmt.Sprintf("cannot capture %s; nothing was changed (see Prototype %s):\n  %s", p.Spec.DonorName(), p.Name, text)
	}
	where := "the node was " + letGo(p)
	if away, still := OutOfService(p, now); still {
		where = "the node is still out of service"
	} else if p.Spec.Settings.CopiesDonor() {
		where = "the node " + servedThrough(p)
	} else if away != "" {
		where += ", out of service for " + away
	}
	return fmt.Sprintf("the capture of node %s failed; %s (see Prototype %s):\n  %s", p.Spec.Donor.NodeName, where, p.Name, text)
}

// GoOn describes how to continue or stop a capture that no command follows.
func GoOn(p *v1alpha1.Prototype, now time.Time) string {
	message := fmt.Sprintf("Nothing is lost: Prototype %s is in phase %s.\n"+
		"  to continue:  %s (or let a controller continue)\n"+
		"  to stop:      kamino cancel %s (%s)",
		p.Name, Phase(p), CaptureCommand(p), p.Name, stopWords(p))
	if _, still := OutOfService(p, now); still {
		message += fmt.Sprintf("\nNode %s stays out of service until you run a command above.", p.Spec.Donor.NodeName)
	}
	return message
}

// CaptureCommand is the command that begins or continues the capture.
func CaptureCommand(p *v1alpha1.Prototype) string {
	return "kamino capture " + p.Spec.Donor.NodeName
}

func stopWords(p *v1alpha1.Prototype) string {
	if p.Spec.StaysInService() {
		return "the node stays in service"
	}
	return "returns the node to service first"
}

// Phase is the Prototype's phase; Pending before the first phase.
func Phase(p *v1alpha1.Prototype) v1alpha1.Phase {
	if p.Status.Phase == "" {
		return v1alpha1.PhasePending
	}
	return p.Status.Phase
}
