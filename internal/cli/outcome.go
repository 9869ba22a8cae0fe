package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/drive"
	"github.com/kamino-dev/kamino/internal/wording"
)

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("interrupted")

// follow shows the capture until it ends, says how it ended, and turns that into an exit code.
func (s *session) follow(ctx context.Context, p *v1alpha1.Prototype, timeout time.Duration, format print.Format) error {
	fl := s.follower(p, timeout)
	last, err := fl.Run(ctx)
	if err != nil {
		return s.stopped(last, err)
	}
	if format != print.Text {
		if err := print.Prototype(s.Out, format, last, s.Now()); err != nil {
			return err
		}
	}
	if !drive.Succeeded(last) {
		return s.failed(last)
	}
	if format != print.Text {
		return nil
	}
	return s.printSuccess(last)
}

func (s *session) printSuccess(p *v1alpha1.Prototype) error {
	lines := []string{fmt.Sprintf("Pool %s builds its next nodes from version %s now.", p.Spec.Pool, p.Spec.Version)}
	if away, _ := print.OutOfService(p, s.Now()); away != "" {
		lines = append(lines, fmt.Sprintf("Node %s was out of service for %s; the whole capture took %s.",
			p.Spec.Donor.NodeName, away, wording.Duration(wholeTime(p))))
	}
	if len(p.Status.Retired) > 0 {
		lines = append(lines, "Retired: "+strings.Join(p.Status.Retired, ", ")+".")
	}
	if p.Status.SavedRecipe != "" {
		lines = append(lines, fmt.Sprintf("What the recipe lost is kept in Secret %s.", p.Status.SavedRecipe))
	}
	_, err := fmt.Fprintln(s.Out, strings.Join(lines, "\n"))
	return err
}

// wholeTime is from the first step's beginning to the last one's end.
func wholeTime(p *v1alpha1.Prototype) time.Duration {
	steps := p.Status.Steps
	if len(steps) == 0 || steps[len(steps)-1].FinishedAt == nil {
		return 0
	}
	return steps[len(steps)-1].FinishedAt.Sub(steps[0].StartedAt.Time)
}

// failed is the error of a capture that ended without a new recipe. One that was refused before it touched
// anything is a refusal, whoever found the reason.
func (s *session) failed(p *v1alpha1.Prototype) error {
	failure := p.Status.Failure
	if failure == nil {
		failure = &v1alpha1.Failure{Reason: "Unknown", Message: "the Prototype's status does not say why"}
	}
	node := p.Spec.Donor.NodeName
	text := fmt.Sprintf("%s: %s", failure.Reason, failure.Message)
	if failure.CloudError != "" && !strings.Contains(failure.Message, failure.CloudError) {
		text += fmt.Sprintf(" (the cloud says: %s)", failure.CloudError)
	}
	if !drive.Touched(p) {
		code := ExitRefused
		if permissionReason(failure.Reason) {
			code = ExitNotAllowed
		}
		return &ending{code, fmt.Errorf("node %s can't be captured, and nothing was changed (see Prototype %s):\n  %s", node, p.Name, text)}
	}
	where := fmt.Sprintf("node %s was given back", node) + print.DonorFound(p)
	if away, still := print.OutOfService(p, s.Now()); still {
		where = fmt.Sprintf("node %s is still out of service", node)
	} else if away != "" {
		where += ", out of service for " + away
	}
	return &ending{ExitFailed, fmt.Errorf("the capture of node %s failed; %s (see Prototype %s):\n  %s", node, where, p.Name, text)}
}

// stopped is the error of a command that stopped following before the capture ended.
func (s *session) stopped(p *v1alpha1.Prototype, cause error) error {
	goOn := fmt.Sprintf("Nothing is lost: Prototype %s stands at %s.\n"+
		"  to go on:  kamino capture %s (or let a controller do it)\n"+
		"  to stop:   kamino cancel %s (it gives the node back first)",
		p.Name, phase(p), p.Spec.Donor.NodeName, p.Name)
	if _, still := print.OutOfService(p, s.Now()); still {
		goOn += fmt.Sprintf("\nNode %s is out of service until somebody does one of the two.", p.Spec.Donor.NodeName)
	}
	switch {
	case errors.Is(cause, drive.ErrGone):
		return &ending{ExitFailed, fmt.Errorf("prototype %s was deleted by somebody while node %s was being captured: "+
			"the node %s, and no image was promoted", p.Name, p.Spec.Donor.NodeName, s.nodeNow(context.Background(), p.Spec.Donor.NodeName))}
	case errors.Is(cause, errInterrupted):
		return &ending{ExitInterrupted, fmt.Errorf("interrupted. %s", goOn)}
	case errors.Is(cause, drive.ErrTimeout):
		return &ending{ExitInterrupted, fmt.Errorf("%w. %s", cause, goOn)}
	case errors.Is(cause, drive.ErrAway):
		return &ending{ExitUnreachable, fmt.Errorf("%w.\n%s", cause, goOn)}
	default:
		return &ending{exitCode(cause), fmt.Errorf("%s.\n%s", explain(cause), goOn)}
	}
}

func phase(p *v1alpha1.Prototype) v1alpha1.Phase {
	if p.Status.Phase == "" {
		return v1alpha1.PhasePending
	}
	return p.Status.Phase
}

// find is the Prototype of that name, or nil.
func find(all []v1alpha1.Prototype, name string) *v1alpha1.Prototype {
	i := slices.IndexFunc(all, func(p v1alpha1.Prototype) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func asCloudError(err error, to **cloud.Error) bool { return errors.As(err, to) }

// capital makes the beginning of a sentence.
func capital(text string) string {
	r, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[size:]
}
