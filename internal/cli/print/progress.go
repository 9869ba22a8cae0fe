package print

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Progress is the known state of a capture.
type Progress struct {
	// Prototype is the last state of the Prototype; nil before the first look.
	Prototype *v1alpha1.Prototype
	// Driver names the process that does the work, in a sentence; empty if unknown.
	Driver string
	// Trouble describes a current problem, such as an API server that does not answer; empty without a problem.
	Trouble string
}

// View shows a running capture.
type View interface {
	// Show shows the progress as of now. A repeated call with the same progress is harmless.
	Show(progress Progress, now time.Time)
	// Close shows the progress for the last time and leaves the output on the screen.
	Close(progress Progress, now time.Time)
}

// countEvery is the interval between two lines about a changing number. A replication takes up to hours.
const countEvery = 10 * time.Second

// Lines is the view without a terminal: a line with a time for each change, without repetitions. The times of steps come
// from the capture, so that late followers read the same lines.
type Lines struct {
	out io.Writer

	steps     []v1alpha1.Step // as written before
	progress  string
	printedAt time.Time // the time of the last written progress
	driver    string
	trouble   string
	released  bool
	checks    map[string]v1alpha1.TrialResult // of a trial, as written before

	pending []line
}

// line is a message with its time.
type line struct {
	at   time.Time
	text string
}

// NewLines is a view that writes lines.
func NewLines(out io.Writer) *Lines { return &Lines{out: out} }

// Show writes the changes since the last call in chronological order.
func (l *Lines) Show(progress Progress, now time.Time) {
	if progress.Driver != l.driver {
		l.driver = progress.Driver
		l.writeLine(now, progress.Driver)
	}
	if progress.Trouble != l.trouble {
		if progress.Trouble != "" {
			l.writeLine(now, "trouble: "+progress.Trouble)
		} else if p := progress.Prototype; p == nil || p.Status.Failure == nil {
			l.writeLine(now, "the trouble is over")
		}
		l.trouble = progress.Trouble
	}
	if progress.Prototype != nil {
		l.showSteps(progress.Prototype.Status.Steps)
		l.showTrial(progress.Prototype.Status.Trial)
		l.showPhase(progress.Prototype, now)
	}
	slices.SortStableFunc(l.pending, func(a, b line) int { return a.at.Compare(b.at) })
	for _, line := range l.pending {
		_, _ = fmt.Fprintf(l.out, "%s  %s\n", line.at.UTC().Format(time.RFC3339), line.text)
	}
	l.pending = l.pending[:0]
}

// Close writes the last changes; lines need no end.
func (l *Lines) Close(progress Progress, now time.Time) { l.Show(progress, now) }

func (l *Lines) showSteps(steps []v1alpha1.Step) {
	if len(steps) < len(l.steps) {
		l.steps = nil // the status was lost and is written again
	}
	for i, step := range steps {
		if i == len(l.steps) {
			l.steps = append(l.steps, v1alpha1.Step{Phase: step.Phase})
			l.progress = ""
			l.writeLine(step.StartedAt.Time, string(step.Phase))
		}
		if step.FinishedAt != nil && l.steps[i].FinishedAt == nil {
			l.steps[i].FinishedAt = step.FinishedAt
			l.writeLine(step.FinishedAt.Time, fmt.Sprintf("%s took %s", step.Phase, wording.Duration(step.FinishedAt.Sub(step.StartedAt.Time))))
		}
	}
}

func (l *Lines) showPhase(p *v1alpha1.Prototype, now time.Time) {
	if next := p.Status.Progress; next != l.progress && (withoutDigits(next) != withoutDigits(l.progress) || now.Sub(l.printedAt) >= countEvery) {
		l.progress, l.printedAt = next, now
		if next != "" {
			l.writeLine(now, fmt.Sprintf("%s: %s", p.Status.Phase, next))
		}
	}
	if d := p.Status.Donor; d != nil && d.ReleasedAt != nil && !l.released {
		l.released = true
		away, _ := OutOfService(p, now)
		if p.Spec.Settings.CopiesDonor() {
			l.writeLine(d.ReleasedAt.Time,
				fmt.Sprintf("node %s is no longer reserved, and stayed in service%s", p.Spec.Donor.NodeName, frozenClause(p)))
			return
		}
		l.writeLine(d.ReleasedAt.Time, fmt.Sprintf("node %s %s after %s%s", p.Spec.Donor.NodeName, donorIs(p), away, DonorFound(p)))
	}
}

// withoutDigits is the constant part of a message with a number.
func withoutDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

func (l *Lines) writeLine(at time.Time, text string) {
	if text != "" {
		l.pending = append(l.pending, line{at, text})
	}
}
