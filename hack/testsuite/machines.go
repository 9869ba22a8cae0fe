package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// machines runs each test of a part in a process of its own, as many at once as there are processors. Each process has its own
// mounts, because a machine keeps every disk busy that was mounted at the machine's start.
func machines(ctx context.Context, all []Package, part []Weighed, o options) (int, error) {
	dir, err := os.MkdirTemp("", "testsuite-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "machines.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-tags", machinesTag, "-o", binary, "./"+Package{Name: machinesPackage, module: sandboxModule}.path())
	build.Dir, build.Env = sandboxModule, append(os.Environ(), "GOFLAGS="+o.flags)
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return 1, fmt.Errorf("%s: %w", strings.Join(build.Args, " "), err)
	}
	var (
		mu     sync.Mutex
		failed []string
		got    = &figures{tests: map[string]float64{}}
	)
	each(perTest(all, part), runtime.NumCPU(), func(r packageRun) {
		name, begun := r.tests[0], time.Now()
		fmt.Println("run ", name)
		out, err := onMachines(ctx, binary, r, o)
		wall := time.Since(begun).Seconds()
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = append(failed, name)
			fmt.Printf("%sFAIL %s: %v\n", out, name, err)
			return
		}
		if os.Getenv("CI") == "" {
			fmt.Print(out)
		}
		if strings.Contains(out, "\n--- SKIP: "+name+" ") {
			fmt.Println("skip", name)
			return
		}
		fmt.Printf("ok   %s  %.1f s\n", name, wall)
		got.tests[name] = wall
		got.wall += wall
	})
	if len(failed) > 0 {
		return 1, fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	if o.write {
		return 0, writeTimes(all, map[string]*figures{machinesPackage: got})
	}
	return 0, ctx.Err()
}

// perTest are the tests of a part, each as a run of its own, longest first.
func perTest(all []Package, part []Weighed) (runs []packageRun) {
	for _, t := range part {
		runs = append(runs, runsOf(all, []Weighed{t})...)
	}
	sortRuns(runs)
	return runs
}

// onMachines runs one test with mounts of its own, and returns the output.
func onMachines(ctx context.Context, binary string, r packageRun, o options) (string, error) {
	args := []string{"-test.timeout=40m", "-test.v", "-test.run", pattern(r.tests)}
	if o.short {
		args = append(args, "-test.short")
	}
	command := exec.CommandContext(ctx, binary, args...)
	command.Dir = r.dir
	command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	return out.String(), err
}
