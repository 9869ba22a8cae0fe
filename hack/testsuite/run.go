package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// packageRun is `go test` for some tests of one package.
type packageRun struct {
	Package
	tests []string
	// seconds that it is expected to take.
	seconds float64
}

// runsOf groups tests by their packages: those that need the machine alone last, the others longest first.
func runsOf(all []Package, part []Weighed) []packageRun {
	var runs []packageRun
	for _, p := range all {
		r := packageRun{Package: p}
		for _, t := range part {
			if t.Package == p.Name {
				r.tests = append(r.tests, t.Name)
				r.seconds += t.Seconds
			}
		}
		if len(r.tests) > 0 {
			runs = append(runs, r)
		}
	}
	sortRuns(runs)
	return runs
}

func sortRuns(runs []packageRun) {
	slices.SortStableFunc(runs, func(a, b packageRun) int {
		switch {
		case a.Alone != b.Alone && b.Alone:
			return -1
		case a.Alone != b.Alone:
			return 1
		}
		return int(b.seconds - a.seconds)
	})
}

// command is the run as a command, with more flags of `go test`.
func (r packageRun) command(ctx context.Context, sandboxFlags string, more ...string) *exec.Cmd {
	args := slices.Concat([]string{"test", "-vet=off", "-count=1", "-timeout=40m"}, more, []string{"-run", pattern(r.tests), "./" + r.path()})
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir, command.Env = r.module, os.Environ()
	if r.module == sandboxModule && sandboxFlags != "" {
		command.Env = append(command.Env, "GOFLAGS="+sandboxFlags)
	}
	// The processes of a sandbox end with their own cleanup: interrupt, and kill only what stays.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = time.Minute
	return command
}

// path of the package within its module.
func (p Package) path() string {
	if p.module == sandboxModule {
		return strings.TrimPrefix(p.Name, sandboxModule+"/")
	}
	return p.Name
}

// long runs the tests of a part of the long suite, as many packages at once as there are processors. Tests wait more than
// they work.
func long(ctx context.Context, all []Package, part []Weighed, o options) (int, error) {
	runs := runsOf(all, part)
	fmt.Printf("long suite, shard %s: %d tests of %d packages, %.0f s in sequence\n",
		&o.shard, len(part), len(runs), Expected(part))
	fmt.Printf("repeat with: make test-long SHARD=%s\n", &o.shard)
	var (
		printing sync.Mutex
		failed   []string
	)
	each(runs, runtime.NumCPU(), func(r packageRun) {
		var out bytes.Buffer
		command := r.command(ctx, o.flags)
		command.Stdout, command.Stderr = &out, &out
		err := command.Run()
		printing.Lock()
		defer printing.Unlock()
		_, _ = io.Copy(os.Stdout, &out)
		if err != nil {
			failed = append(failed, r.Name)
		}
	})
	if len(failed) > 0 {
		return 1, fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return 0, ctx.Err()
}

// each calls do for all runs, several at once, but for those that need the machine alone.
func each(runs []packageRun, atOnce int, do func(packageRun)) {
	var (
		group sync.WaitGroup
		slots = make(chan struct{}, atOnce)
	)
	for _, r := range runs {
		if r.Alone {
			group.Wait()
			do(r)
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			do(r)
		})
	}
	group.Wait()
}

// needs succeeds if a test file of a package in the part names a variable of the environment.
func needs(all []Package, part []Weighed, variables []string) (int, error) {
	for _, r := range runsOf(all, part) {
		for _, path := range r.files {
			text, err := os.ReadFile(path)
			if err != nil {
				return 2, err
			}
			for _, variable := range variables {
				if bytes.Contains(text, []byte(variable)) {
					return 0, nil
				}
			}
		}
	}
	return 1, nil
}
