package print

import (
	"fmt"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/wording"
)

// trialOf describes the trial of a version: the verdict, the node, and each check with a result.
func trialOf(p *v1alpha1.Prototype) [][2]string {
	t := p.Status.Trial
	if t == nil {
		return nil
	}
	rows := [][2]string{{"Result", result(t.Result, t.Message)}}
	if t.Attempt > 1 {
		rows = append(rows, [2]string{"Attempt", fmt.Sprint(t.Attempt)})
	}
	if t.StartedAt != nil {
		took := "began at " + stamp(t.StartedAt.Time)
		if t.FinishedAt != nil {
			took += ", took " + wording.Duration(t.FinishedAt.Sub(t.StartedAt.Time))
		}
		rows = append(rows, [2]string{"Time", took})
	}
	if node := strings.Join(slicesOf(t.Node, t.Instance), ", "); node != "" {
		rows = append(rows, [2]string{"Node", node})
	}
	if s := t.NodeInfo; s != nil {
		if software := strings.Join(slicesOf(s.OSImage, s.Kernel, s.Kubelet, s.Runtime), ", "); software != "" {
			rows = append(rows, [2]string{"Runs", software})
		}
		if s.ReadyAfter != nil {
			rows = append(rows, [2]string{"Ready after", wording.Duration(s.ReadyAfter.Duration)})
		}
		if s.Images > 0 {
			rows = append(rows, [2]string{"Images", fmt.Sprintf("%d on the disk when the node was first Ready", s.Images)})
		}
	}
	for _, c := range t.Checks {
		rows = append(rows, [2]string{c.Name, result(c.Result, c.Message)})
	}
	return rows
}

// result of a trial or of a check, with its message.
func result(r v1alpha1.TrialResult, message string) string {
	if message == "" {
		return string(r)
	}
	return string(r) + ": " + message
}

// slicesOf are the words that are not empty.
func slicesOf(words ...string) []string {
	var there []string
	for _, word := range words {
		if word != "" {
			there = append(there, word)
		}
	}
	return there
}

// checks are the lines below the step of a trial, one for each check with a result.
func (v *Live) checks(t *v1alpha1.TrialStatus) []string {
	if t == nil {
		return nil
	}
	done, failed, running := v.style.signs()
	var lines []string
	for _, c := range t.Checks {
		sign := v.style.paint(yellow, "?")
		switch c.Result {
		case v1alpha1.TrialPassed:
			sign = v.style.paint(green, done)
		case v1alpha1.TrialFailed:
			sign = v.style.paint(red, failed)
		case v1alpha1.TrialPending:
			if sign = running[v.frame%len(running)]; c.Message == v1alpha1.TrialWaiting {
				sign = "."
			}
		case v1alpha1.TrialSkipped:
			sign = "-"
		case v1alpha1.TrialInconclusive:
		}
		lines = append(lines, fmt.Sprintf("      %s %-12s %s", sign, c.Name, ofTrialNode(t, c.Message)))
	}
	return lines
}

// ofTrialNode shortens the name of the trial node, which is known, so that a narrow terminal shows the fact.
func ofTrialNode(t *v1alpha1.TrialStatus, text string) string {
	if t == nil || t.Node == "" {
		return text
	}
	return strings.ReplaceAll(text, "node "+t.Node+" ", "the node ")
}

// showTrial writes each check with a new or changed result.
func (l *Lines) showTrial(t *v1alpha1.TrialStatus) {
	if t == nil {
		return
	}
	if l.checks == nil {
		l.checks = map[string]v1alpha1.TrialResult{}
	}
	for _, c := range t.Checks {
		if c.At == nil || c.Result == v1alpha1.TrialPending || l.checks[c.Name] == c.Result {
			continue
		}
		l.checks[c.Name] = c.Result
		l.writeLine(c.At.Time, fmt.Sprintf("%s: %s: %s", v1alpha1.PhaseRunningTrial, c.Name, result(c.Result, c.Message)))
	}
}
