package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

const (
	// timesFile has the wall seconds of each test of the long suite and on real machines, by which both are split.
	timesFile = "hack/testsuite/times.tsv"
	// pageFile has a table with a row for each package.
	pageFile = "docs/contribute/tests.md"
	// usageVariable names the file that measured appends to.
	usageVariable = "TESTSUITE_USAGE"
)

func readTimes() (map[testKey]float64, error) {
	text, err := os.ReadFile(timesFile)
	if err != nil {
		return nil, err
	}
	out := map[testKey]float64{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("%s: %q has not three fields", timesFile, line)
		}
		seconds, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", timesFile, err)
		}
		out[testKey{fields[0], fields[1]}] = seconds
	}
	return out, nil
}

// usage is one line of the file at usageVariable: what the test binary of a package and all of its children took.
type usage struct {
	Dir string
	CPU float64
	// MiB of the process that took most memory.
	MiB int64
}

// measured runs a test binary for `go test -exec` and appends its usage.
func measured(args []string) (int, error) {
	command := exec.Command(args[0], args[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	_ = command.Run() // the exit code says it
	if command.ProcessState == nil {
		return 1, fmt.Errorf("%s did not start", args[0])
	}
	dir, err := os.Getwd()
	if err != nil {
		return 1, err
	}
	u := usage{Dir: dir, CPU: (command.ProcessState.UserTime() + command.ProcessState.SystemTime()).Seconds()}
	if rusage, ok := command.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.MiB = rusage.Maxrss / 1024
	}
	line, err := json.Marshal(u)
	if err != nil {
		return 1, err
	}
	file, err := os.OpenFile(os.Getenv(usageVariable), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return 1, err
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		return 1, err
	}
	return command.ProcessState.ExitCode(), file.Close()
}

// figures of one package in one suite.
type figures struct {
	cpu, wall float64
	mib       int64
	tests     map[string]float64
}

// times runs a suite, prints its figures, and writes them down.
func times(ctx context.Context, all []Package, o options) (int, error) {
	var part []Weighed
	more := []string{"-json"}
	if o.long {
		part = Weigh(LongTests(all), nil)
	} else {
		more = append(more, "-short")
		for _, p := range all {
			if !p.LongOnly() && !p.OnMachines() {
				for _, t := range p.Tests {
					part = append(part, Weighed{Test: t})
				}
			}
		}
	}
	record, err := os.CreateTemp("", "testsuite-*.jsonl")
	if err != nil {
		return 1, err
	}
	defer os.Remove(record.Name())
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	if err := os.Setenv(usageVariable, record.Name()); err != nil {
		return 1, err
	}
	more = append(more, "-exec", self+" exec")
	runs := runsOf(all, part)
	if len(o.rest) > 0 {
		runs = slices.DeleteFunc(runs, func(r packageRun) bool { return !slices.Contains(o.rest, r.Name) })
	}
	got, failed := measure(ctx, runs, o.flags, more)
	if err := addUsage(record.Name(), all, got); err != nil {
		return 1, err
	}
	for _, name := range failed {
		delete(got, name)
	}
	show(got)
	if o.long {
		if err := writeTimes(all, got); err != nil {
			return 1, err
		}
	}
	if err := updatePage(got, o.long, len(o.rest) == 0 && len(failed) == 0); err != nil {
		return 1, err
	}
	return failedPackages(failed)
}

func failedPackages(failed []string) (int, error) {
	if len(failed) > 0 {
		return 1, fmt.Errorf("the figures of these packages stay, because their tests failed: %s", strings.Join(failed, ", "))
	}
	return 0, nil
}

// measure runs packages and returns their wall times by package, and those that failed.
func measure(ctx context.Context, runs []packageRun, flags string, more []string) (map[string]*figures, []string) {
	var (
		mu     sync.Mutex
		failed []string
		got    = map[string]*figures{}
	)
	each(runs, runtime.NumCPU(), func(r packageRun) {
		var out, stderr bytes.Buffer
		command := r.command(ctx, flags, more...)
		command.Stdout, command.Stderr = &out, &stderr
		err := command.Run()
		f, said := readEvents(&out)
		mu.Lock()
		defer mu.Unlock()
		got[r.Name] = f
		if err != nil {
			failed = append(failed, r.Name)
			fmt.Printf("%s: %v\n%s%s", r.Name, err, said, &stderr)
			return
		}
		fmt.Printf("ok  %s  %.1f s\n", r.Name, f.wall)
	})
	return got, failed
}

// readEvents of `go test -json`. A package whose tests run once for each cloud names a test several times.
func readEvents(from *bytes.Buffer) (f *figures, said string) {
	f = &figures{tests: map[string]float64{}}
	var text strings.Builder
	for scanner := bufio.NewScanner(from); scanner.Scan(); {
		var event struct {
			Action, Test, Output string
			Elapsed              float64
		}
		if json.Unmarshal(scanner.Bytes(), &event) != nil {
			continue
		}
		text.WriteString(event.Output)
		switch {
		case event.Action != "pass" && event.Action != "fail" && event.Action != "skip":
		case event.Test == "":
			f.wall = event.Elapsed
		case !strings.Contains(event.Test, "/"):
			f.tests[event.Test] += event.Elapsed
		}
	}
	return f, text.String()
}

func addUsage(path string, all []Package, to map[string]*figures) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		var u usage
		if err := json.Unmarshal([]byte(line), &u); err != nil {
			return err
		}
		for _, p := range all {
			if f := to[p.Name]; f != nil && filepath.Clean(p.dir) == filepath.Clean(u.Dir) {
				f.cpu += u.CPU
				f.mib = max(f.mib, u.MiB)
			}
		}
	}
	return nil
}

func names(of map[string]*figures) []string {
	var out []string
	for name := range of {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func show(got map[string]*figures) {
	fmt.Printf("%-40s %8s %8s %8s\n", "package", "CPU s", "wall s", "MiB")
	var cpu, wall float64
	for _, name := range names(got) {
		f := got[name]
		fmt.Printf("%-40s %8.1f %8.1f %8d\n", name, f.cpu, f.wall, f.mib)
		cpu, wall = cpu+f.cpu, wall+f.wall
	}
	fmt.Printf("%-40s %8.1f %8.1f\n", "in all", cpu, wall)
}

// writeTimes divides the wall time of each measured package among its tests, which run next to each other. The times of other tests
// stay, and those of tests that are gone do not.
func writeTimes(all []Package, got map[string]*figures) error {
	times, err := readTimes()
	if err != nil {
		return err
	}
	for name, f := range got {
		sum := 0.0
		for _, seconds := range f.tests {
			sum += seconds
		}
		for test, seconds := range f.tests {
			times[testKey{name, test}] = seconds * f.wall / max(sum, f.wall, 0.01)
		}
	}
	var lines []string
	for _, t := range slices.Concat(LongTests(all), MachineTests(all)) {
		if seconds, known := times[testKey{t.Package, t.Name}]; known {
			lines = append(lines, fmt.Sprintf("%s\t%s\t%.1f\n", t.Package, t.Name, seconds))
		}
	}
	slices.Sort(lines)
	return os.WriteFile(timesFile, []byte(strings.Join(lines, "")), 0o644)
}

// row is a line of the page's table: package, CPU and wall seconds in the short suite, the same in the long one, and text.
var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*) \\| ([^|]*) \\| ([^|]*) \\| ([^|]*) \\|")

const (
	// othersRow sums up the packages without a row of their own, each of which takes less than othersCPU seconds.
	othersRow = "others"
	othersCPU = 2
)

// updatePage writes the figures into the rows of their packages. If only some packages were measured, the other rows stay.
func updatePage(got map[string]*figures, isLong, whole bool) error {
	page, err := os.ReadFile(pageFile)
	if err != nil {
		return err
	}
	next, missing := updateRows(string(page), got, isLong, whole)
	if err := os.WriteFile(pageFile, []byte(next), 0o644); err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s has no row for: %s", pageFile, strings.Join(missing, ", "))
	}
	return nil
}

// updateRows returns the page with the figures, and the packages that need a row of their own.
func updateRows(page string, got map[string]*figures, isLong, whole bool) (next string, missing []string) {
	listed := map[string]bool{}
	for _, cells := range row.FindAllStringSubmatch(page, -1) {
		listed[cells[1]] = true
	}
	others := &figures{}
	for _, name := range names(got) {
		if listed[name] {
			continue
		}
		others.cpu, others.wall = others.cpu+got[name].cpu, others.wall+got[name].wall
		if got[name].cpu >= othersCPU {
			missing = append(missing, name)
		}
	}
	return row.ReplaceAllStringFunc(page, func(line string) string {
		cells := row.FindStringSubmatch(line)
		f := got[cells[1]]
		switch {
		case !whole && f == nil:
			return line
		case cells[1] == othersRow:
			f = others
		}
		cpu, wall := "-", "-"
		if f != nil && f.wall > 0 {
			cpu, wall = fmt.Sprintf("%.1f", f.cpu), fmt.Sprintf("%.1f", f.wall)
		}
		if isLong {
			cells[4], cells[5] = cpu, wall
		} else {
			cells[2], cells[3] = cpu, wall
		}
		return fmt.Sprintf("| `%s` | %s | %s | %s | %s |", cells[1], cells[2], cells[3], cells[4], cells[5])
	}), missing
}
