// Package week lets Kamino run lights out for seven days of a sandbox's cluster: real control plane, real SDK
// against the simulated clouds, machines with files. Nodes are patched and rebooted in kured's way, pools grow and
// shrink, donors vanish, one day's patch is bad and is rolled back, the cloud throttles and fails, requests are
// lost on their way there or back, and the controller is killed with SIGKILL again and again. In the end the
// cluster must be as if nothing had happened, and each pool's newest node must carry the newest good patch.
//
// Nobody waits for nights: the test puts the sandbox's calendar forward. The controller is a process of its own,
// this test binary once more, whose clock follows that calendar; it reaches the API server and Resource Manager
// through gates, which show it the API server's time stamps by the same calendar, and are where requests get lost
// and kills strike. internal/policy/week plays more weeks, on a virtual clock and in memory.
//
// Where KAMINO_CLUSTERAPI_BIN is set, the pools are MachineDeployments, and the management cluster is behind a gate as well. Cluster API's
// own controllers take their own time, so that there are fewer days; and they know of no calendar: what they give out for minutes, such as
// a machine's token, is good for minutes of the wall's.
package week

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cli"
	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

var (
	sandbox  *sandboxtest.Sandbox
	calendar = &clock.Calendar{}
)

// played is the ground of this process.
var played ground

func TestMain(m *testing.M) {
	if file := os.Getenv(clockVariable); file != "" {
		os.Exit(kamino(file))
	}
	o := world.Options{
		TimeScale: 200, Calendar: calendar, Pools: []pool.Spec{},
		// Azure's half an hour for a version, and five minutes for a patch, would test nothing more.
		// A node that is called lost because this computer is busy would not have been Ready for an hour.
		NodeGrace: time.Minute,
		Azure:     region.AzureOptions{Latencies: azure.Latencies{Version: 10 * time.Minute}},
		Machines:  machine.Latencies{Patch: time.Minute},
	}
	dir, err := os.MkdirTemp("", "kamino-week-")
	if err == nil {
		err = installKamino(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	run := sandboxtest.EachCloud
	if played = ofClouds(); os.Getenv(binariesVariable) != "" {
		played, run = ofClusterAPI(os.Getenv(binariesVariable)), sandboxtest.Main
	}
	played.options(&o)
	code := run(m, o, &sandbox)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

const (
	// clockVariable names the file that says how far the time is ahead of the wall's. A process that has it in
	// its environment is a kamino by that time.
	clockVariable = "KAMINO_WEEK_CLOCK"
	// kaminoVariable names the binary that package sandboxtest tests.
	kaminoVariable = "KAMINO_BIN"
	// binariesVariable names the directory of Cluster API's binaries, where that builds the nodes.
	binariesVariable = "KAMINO_CLUSTERAPI_BIN"
)

// clockFile is that file.
var clockFile string

// installKamino makes a program of this test binary, for commands and for the sandbox's nodes, whose pods say by
// the same time that a disk is generalized. A variable would not reach them, so a script sets it.
func installKamino(dir string) error {
	clockFile = filepath.Join(dir, "clock")
	me, err := os.Executable()
	if err != nil {
		return err
	}
	program := filepath.Join(dir, "kamino")
	script := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", clockVariable, clockFile, me)
	return errors.Join(putForward(0), os.WriteFile(program, []byte(script), 0o700), os.Setenv(kaminoVariable, program))
}

func kamino(file string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	factory := cli.NewFactory()
	factory.Now = func() time.Time {
		text, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		ahead, err := time.ParseDuration(string(text))
		if err != nil {
			panic(err)
		}
		return time.Now().Add(ahead)
	}
	return factory.Run(ctx, os.Args[1:])
}

// skip puts the time forward, everybody's at once.
func (w *week) skip(by time.Duration) {
	w.Helper()
	w.must(putForward(by))
}

func putForward(by time.Duration) error {
	calendar.Skip(by)
	draft := clockFile + ".draft"
	if err := os.WriteFile(draft, []byte(calendar.Ahead().String()), 0o600); err != nil {
		return err
	}
	return os.Rename(draft, clockFile)
}

// skipTo puts the time forward to an hour of a day of the week, the first of which is 1.
func (w *week) skipTo(day, hour int) {
	w.Helper()
	to := w.first.AddDate(0, 0, day-1).Add(time.Duration(hour) * time.Hour)
	by := time.Until(to) - calendar.Ahead()
	if by < 0 {
		w.Fatalf("day %d, %d:00 is over already", day, hour)
	}
	w.skip(by)
}

func now() time.Time { return sandbox.Clock().Now() }

// dayName is the version that a capture of the day has.
func (w *week) dayName(day int) string {
	d := w.first.AddDate(0, 0, day-1)
	return fmt.Sprintf("%04d.%02d.%02d", d.Year(), d.Month(), d.Day())
}
