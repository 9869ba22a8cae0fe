package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kamino-dev/kamino/internal/agent/generalize/disk"
	"github.com/kamino-dev/kamino/internal/agent/quiesce"
	"github.com/kamino-dev/kamino/internal/cli/exit"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/process"
)

// newQuiesceCommand is the command of the pod on a donor whose disk is copied while the donor serves.
func newQuiesceCommand(e Environment) *cobra.Command {
	d := quiesce.Donor{Kernel: e.Running, Now: e.Now, Sleep: process.Wait}
	var order momentOrder
	cmd := &cobra.Command{
		Use:   "quiesce --root DIR --nonce-name UID --nonce HEX",
		Short: "Freeze the disk of a running host for the moment of a copy",
		Long: `Make a running host ready for a copy of its disk, while it goes on serving. The command waits until no program
changes packages and no image is pulled, writes the nonce file, flushes the root file system, and freezes it.

Each line of the output is a JSON object. After the state Now, take the copy, and write a line to the input: accepted,
or refused. The root file system is thawed at the line, and after a second at the latest. Use the copy only if the
last line says "inTime": true, and if the copy has the nonce file.

The exit code is 3 if the host is not copied while it runs, or did not become quiet; nothing was changed.`,
		Example: `  # On a node, as root: freeze for the moment of a copy
  kamino-node quiesce --root / --nonce-name 0bde4000-0000-4000-8000-000000000003 --nonce "$(openssl rand -hex 32)"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if order.isOn() {
				err := order.carryOut(cmd.Context(), e, d)
				disk.LeaveError(disk.TerminationLog, err)
				return exit.Classed(err)
			}
			return exit.Classed(e.quiesce(cmd.Context(), d))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&d.Root, "root", "", "root directory of the running host")
	flags.StringVar(&d.Name, "nonce-name", "", "name of the nonce file in /"+quiesce.NonceDir+": a UID")
	flags.StringVar(&d.Nonce, "nonce", "", "content of the nonce file: 64 hexadecimal digits")
	flags.StringVar((*string)(&d.Freeze), "freeze", string(quiesce.Auto), "Auto: freeze if systemd of the host can guard the freeze; Never: only flush")
	flags.DurationVar(&d.Wait, "wait", quiesce.DefaultWait, "how long to wait until the host is quiet")
	order.bind(flags)
	output.Complete(cmd, "freeze", string(quiesce.Auto), string(quiesce.Never))
	return cmd
}

// quiesce checks the flags, passes on the answer, and prints each state.
func (e Environment) quiesce(ctx context.Context, d quiesce.Donor) error {
	if d.Root == "" {
		return exit.Usagef("--root must name the root directory of a running host")
	}
	if err := quiesce.CheckNonce(d.Name, d.Nonce); err != nil {
		return exit.Usagef("--nonce-name, --nonce: %w", err)
	}
	if d.Freeze != quiesce.Auto && d.Freeze != quiesce.Never {
		return exit.Usagef("--freeze must be Auto or Never, not %q", d.Freeze)
	}
	if d.Wait <= 0 {
		return exit.Usagef("--wait must be longer than 0, not %v", d.Wait)
	}
	lines := json.NewEncoder(e.Out)
	result, err := d.Run(ctx, e.answers(), func(s quiesce.State) { _ = lines.Encode(stateLine(s)) })
	if err != nil {
		return err
	}
	return lines.Encode(resultLine(result))
}

// answers reads the line accepted or refused. The end of the input is no answer.
func (e Environment) answers() <-chan bool {
	answers := make(chan bool, 1)
	go func() {
		for lines := bufio.NewScanner(e.In); lines.Scan(); {
			if word := strings.TrimSpace(lines.Text()); word == "accepted" || word == "refused" {
				answers <- word == "accepted"
				return
			}
		}
	}()
	return answers
}

type waitingLine struct {
	State string `json:"state"`
	For   string `json:"for"`
}

type nowLine struct {
	State     string `json:"state"`
	Frozen    bool   `json:"rootFrozen"`
	NotFrozen string `json:"notFrozen,omitempty"`
}

type thawedLine struct {
	State      string `json:"state"`
	Frozen     bool   `json:"rootFrozen"`
	NotFrozen  string `json:"notFrozen,omitempty"`
	FrozenFor  string `json:"frozenFor"`
	InTime     bool   `json:"inTime"`
	Late       string `json:"late,omitempty"`
	BootID     string `json:"bootID"`
	MachineID  string `json:"machineID"`
	RootUUID   string `json:"rootUUID"`
	FileSystem string `json:"filesystem"`
	RootDevice string `json:"rootDevice"`
}

func stateLine(s quiesce.State) any {
	if s.Waiting != "" {
		return waitingLine{"Waiting", s.Waiting}
	}
	return nowLine{"Now", s.Frozen, s.NotFrozen}
}

func resultLine(r quiesce.Result) any {
	return thawedLine{
		State: "Thawed", Frozen: r.Frozen, NotFrozen: r.NotFrozen, InTime: r.InTime, Late: r.Late,
		FrozenFor: fmt.Sprintf("%.2fs", r.FrozenFor.Round(10*time.Millisecond).Seconds()),
		BootID:    r.BootID, MachineID: r.MachineID, RootUUID: r.RootUUID, FileSystem: r.FileSystem, RootDevice: r.RootDevice,
	}
}

// newFreezeCommand is the helper that quiesce starts as a unit of the host. People do not call it.
func newFreezeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "freeze DIR", Short: "Freeze a file system as the helper of quiesce", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return quiesce.Freeze(args[0], 0) },
	}
}
