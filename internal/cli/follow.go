package cli

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/runner"
)

// follower builds the view of the capture, for a terminal or as lines.
func (s *session) follower(p *v1alpha1.Prototype) *runner.Follower {
	fl := &runner.Follower{
		Cluster: s.cluster, Engine: s.engine, Namespace: s.options.Namespace, Prototype: p, Now: s.Now,
	}
	if !s.terminal() {
		fl.View = view{print.NewLines(s.Err)}
		return fl
	}
	terminal := print.NewTerminal(s.Err, s.Window)
	s.options.LogOutput.Redirect(terminal)
	fl.View, fl.Live = view{print.NewLive(terminal, s.style())}, true
	return fl
}

// view turns the progress of a capture into words.
type view struct{ on print.View }

// Show implements runner.View.
func (v view) Show(p runner.Progress, now time.Time) { v.on.Show(inWords(p), now) }

// Close implements runner.View.
func (v view) Close(p runner.Progress, now time.Time) { v.on.Close(inWords(p), now) }

// inWords names the process that does the work, and the worst current problem.
func inWords(p runner.Progress) print.Progress {
	said := print.Progress{Prototype: p.Prototype}
	if p.Driving != nil {
		said.Driver = whoDrives(*p.Driving)
	}
	stalled := meta.FindStatusCondition(p.Prototype.Status.Conditions, v1alpha1.ConditionStalled)
	switch {
	case p.Away != nil:
		said.Trouble = fmt.Sprintf("no answer from the API server since %s; retrying until %s (%s)", clockTime(p.Since), clockTime(p.Until), p.Away)
	case p.Driving != nil && p.Driving.Trouble != nil:
		said.Trouble = explain(p.Driving.Trouble) + "; retrying"
	case stalled != nil && stalled.Status == metav1.ConditionTrue && !p.Prototype.Status.Terminal():
		said.Trouble = stalled.Message
	}
	return said
}

func clockTime(at time.Time) string { return at.UTC().Format("15:04:05 MST") }

// whoDrives names the process that does the work, for the waiting user.
func whoDrives(d runner.ProcessName) string {
	switch {
	case d.Mine:
		return "this command does the work; interrupting it loses nothing"
	case d.Holder.Role == runner.RoleController:
		return fmt.Sprintf("%s does the work", d.Holder)
	case d.Holder.Role != "":
		return fmt.Sprintf("%s does the work now; this command continues afterwards", d.Holder)
	default:
		return "no controller and no command does the work yet"
	}
}
