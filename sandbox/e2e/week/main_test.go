// Package week runs Kamino without people for seven days of a sandbox's cluster: real control plane, real SDK
// against the simulated clouds, machines with files. Nodes are patched and rebooted by kured, pools grow and
// shrink, donors vanish, and one day's patch is bad and is rolled back. The cloud throttles and fails, requests are
// lost before or after their effect, and the controller is killed again and again. In the end the cluster must be
// undisturbed, and each pool's newest node must have the newest good patch.
//
// Nights take no time: the test puts the sandbox's calendar forward. The controller is a separate process of this
// test binary, whose clock follows the calendar. Proxies in front of all servers translate the API server's time
// stamps, and lose requests or kill the controller. internal/policy/week plays more weeks, with a virtual clock and
// in memory.
//
// Each kind of pool has its own test and process. Controllers of Cluster API do not follow the calendar:
// short-lived objects, such as a machine's token, are valid for minutes of real time.
package week

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/agent"
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

// played is the setup of this process.
var played setup

func TestMain(m *testing.M) {
	if file := os.Getenv(clockVariable); file != "" {
		os.Exit(kamino(file))
	}
	sandboxtest.RunAsProgram()
	if os.Getenv(testVariable) == "" {
		os.Exit(runEach(m))
	}
	o := world.Options{
		TimeScale: 200, Calendar: calendar, Pools: []pool.Spec{},
		// Azure needs half an hour for a version, and five minutes for a patch. The real latencies would test
		// nothing more. On a busy computer, a node that wrongly looks lost would not have been Ready for an hour.
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
	played = setups[os.Getenv(testVariable)]()
	played.options(&o)
	code := sandboxtest.Main(m, o, &sandbox)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// setups has the kinds of pools, by the name of their test.
var setups = map[string]func() setup{
	"TestDaysOnAzure":              azureSetup,
	"TestDaysOnAWS":                awsSetup,
	"TestDaysOfMachineDeployments": clusterAPISetup,
}

// runEach runs the selected tests: each week in a process with its own sandbox, and then all other tests.
func runEach(m *testing.M) int {
	flag.Parse()
	selected := flag.Lookup("test.run").Value.String()
	code := 0
	for _, test := range slices.Sorted(maps.Keys(setups)) {
		if ok, err := regexp.MatchString(selected, test); err != nil || !ok {
			continue // m.Run reports an invalid expression
		}
		if test == "TestDaysOfMachineDeployments" && os.Getenv(binariesVariable) == "" {
			fmt.Printf("%s is skipped: %s is not set; `make test-long` sets it\n", test, binariesVariable)
			continue
		}
		command := exec.Command(os.Args[0], append(slices.Clone(os.Args[1:]), "-test.run=^"+test+"$")...)
		command.Env, command.Stdout, command.Stderr = append(os.Environ(), testVariable+"="+test), os.Stdout, os.Stderr
		if err := command.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", test, err)
			code = 1
		}
	}
	if err := flag.Set("test.skip", "^TestDays"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return max(code, m.Run())
}

const (
	// clockVariable names the file with the calendar's lead over real time. A process with this variable is a
	// kamino whose clock is the calendar.
	clockVariable = "KAMINO_WEEK_CLOCK"
	// programVariable says which program the process is.
	programVariable = "KAMINO_WEEK_PROGRAM"
	// kaminoVariable names the binary for package sandboxtest.
	kaminoVariable = "KAMINO_BIN"
	// testVariable names the only test of a process that runEach has started.
	testVariable = "KAMINO_WEEK_TEST"
	// binariesVariable names the directory of Cluster API's binaries, for MachineDeployments.
	binariesVariable = "KAMINO_CLUSTERAPI_BIN"
)

// clockFile is the file of clockVariable.
var clockFile string

// installKamino makes both programs of this test binary, for commands and for pods on the sandbox's nodes. Pods do not
// get the variable, so a script sets the variable.
func installKamino(dir string) error {
	clockFile = filepath.Join(dir, "clock")
	me, err := os.Executable()
	if err != nil {
		return err
	}
	err = errors.Join(putForward(0), os.Setenv(kaminoVariable, filepath.Join(dir, "kamino")))
	for _, program := range []string{"kamino", "kamino-node"} {
		script := fmt.Sprintf("#!/bin/sh\n%s='%s' %s=%s exec '%s' \"$@\"\n", clockVariable, clockFile, programVariable, program, me)
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, program), []byte(script), 0o700))
	}
	return err
}

// kamino runs kamino or kamino-node.
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
	if os.Getenv(programVariable) == "kamino-node" {
		return agent.Environment{Out: factory.Out, Err: factory.Err, Getenv: factory.Getenv, Now: factory.Now}.Run(ctx, os.Args[1:])
	}
	return factory.Run(ctx, os.Args[1:])
}

// skip puts the calendar forward.
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

// skipTo puts the calendar forward to an hour of a day of the week. The first day is 1.
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

// dayName returns the version of a capture on this day.
func (w *week) dayName(day int) string {
	d := w.first.AddDate(0, 0, day-1)
	return fmt.Sprintf("%04d.%02d.%02d", d.Year(), d.Month(), d.Day())
}
