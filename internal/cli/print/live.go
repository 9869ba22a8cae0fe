package print

import (
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Live is the view for a terminal: one block with redraws.
type Live struct {
	terminal *Terminal
	style    Style
	frame    int
}

// NewLive is a view that draws on the terminal.
func NewLive(terminal *Terminal, style Style) *Live {
	return &Live{terminal: terminal, style: style}
}

// Show draws the block.
func (v *Live) Show(progress Progress, now time.Time) {
	v.frame++
	_ = v.terminal.Draw(v.block(progress, now))
}

// Close draws the block for the last time, without facts about the running process, and leaves the block on the screen.
func (v *Live) Close(progress Progress, now time.Time) {
	progress.Driver, progress.Trouble = "", ""
	_ = v.terminal.Draw(v.block(progress, now))
	v.terminal.Leave()
}

func (v *Live) block(progress Progress, now time.Time) []string {
	var lines []string
	if p := progress.Prototype; p != nil {
		title, donor := fmt.Sprintf("Capturing version %s of pool %s", p.Spec.Version, p.Spec.Pool), "from node "+shortNode(p.Spec.Donor.NodeName, "")
		if len(title)+1+len(donor) > narrow {
			lines = append(lines, v.style.paint(bold, title), "  "+donor)
		} else {
			lines = append(lines, v.style.paint(bold, title+" "+donor))
		}
		for i, step := range p.Status.Steps {
			last := i == len(p.Status.Steps)-1
			lines = append(lines, v.step(p, step, last, now))
			if step.Phase == v1alpha1.PhaseRunningTrial {
				lines = append(lines, v.checks(p.Status.Trial)...)
			}
		}
		if away, still := OutOfService(p, now); still {
			lines = append(lines, v.style.paint(dim, "  the donor has been out of service for "+away))
		} else if away != "" && p.Spec.Settings.CopiesDonor() {
			lines = append(lines, v.style.paint(dim, "  the donor stays in service"+frozenClause(p)))
		} else if away != "" {
			lines = append(lines, v.style.paint(dim, "  the donor "+donorIs(p)+" after "+away+DonorFound(p)))
		}
	}
	if progress.Driver != "" {
		lines = append(lines, v.style.paint(dim, "  "+progress.Driver))
	}
	if progress.Trouble != "" {
		lines = append(lines, v.style.paint(yellow, "  "+orNone(progress.Trouble)))
	}
	return lines
}

func (v *Live) step(p *v1alpha1.Prototype, step v1alpha1.Step, last bool, now time.Time) string {
	done, failed, running := v.style.signs()
	sign, end := v.style.paint(green, done), now
	if step.FinishedAt != nil {
		end = step.FinishedAt.Time
	}
	switch {
	case last && p.Status.Failure != nil:
		sign = v.style.paint(red, failed)
	case step.FinishedAt == nil:
		sign = running[v.frame%len(running)]
	}
	line := fmt.Sprintf("  %s %-17s %7s", sign, step.Phase, wording.Duration(end.Sub(step.StartedAt.Time)))
	if step.FinishedAt == nil && p.Status.Progress != "" {
		line += "  " + ofTrialNode(p.Status.Trial, p.Status.Progress)
	}
	return line
}
