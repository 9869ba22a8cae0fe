// Command kamino-bench captures a node in a sandbox, runs the controller in a cluster of 15,000 nodes, and prints the
// measurements.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kamino-dev/kamino/sandbox/bench"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kamino-bench:", err)
		os.Exit(1)
	}
}

func run() error {
	kamino := flag.String("kamino", "bin/kamino", "the kamino `binary`")
	sandbox := flag.String("sandbox", "bin/kamino-sandbox", "the kamino-sandbox `binary`")
	scale := flag.Float64("time-scale", 1, "seconds of a cloud per second; more than 1 makes Kamino's own share look larger")
	only := flag.String("only", "", "measure one `part`: "+strings.Join(names(), " or "))
	profiles := flag.String("profiles", "", "`directory` for heap profiles of the controller in a large cluster")
	page := flag.String("page", "", "documentation `file` for the report")
	out := flag.String("json", "", "`file` for the report as JSON")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetLogger(logr.Discard()) // envtest logs; without a logger it prints a stack
	began := time.Now()
	options := bench.Options{TimeScale: *scale, Profiles: *profiles, Say: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}}
	var err error
	if options.Kamino, err = filepath.Abs(*kamino); err != nil {
		return err
	}
	if options.Sandbox, err = filepath.Abs(*sandbox); err != nil {
		return err
	}
	report, err := measure(ctx, options, *only)
	if err != nil {
		return err
	}
	if err := report.Markdown(os.Stdout); err != nil {
		return err
	}
	if *page != "" {
		if err := report.WritePage(*page); err != nil {
			return err
		}
	}
	if *out != "" {
		text, err := json.MarshalIndent(report, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(*out, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	if missed := report.Missed(); len(missed) > 0 {
		return fmt.Errorf("over the limit: %s", strings.Join(missed, ", "))
	}
	return nil
}

// parts of the measurement, in order. The processes of scale end with scale. A process can run a single control
// plane, so a second capture needs a process of its own.
var parts = []struct {
	name string
	run  func(ctx context.Context, o bench.Options, r *bench.Report) error
}{
	{"scale", func(ctx context.Context, o bench.Options, r *bench.Report) error {
		measured, err := bench.RunScale(ctx, o)
		r.Scale = &measured
		return err
	}},
	{"verbs", func(ctx context.Context, o bench.Options, r *bench.Report) error {
		measured, err := bench.RunVerbs(ctx, o)
		r.Verbs = &measured
		return err
	}},
	{"tree", func(ctx context.Context, o bench.Options, r *bench.Report) error {
		measured, err := bench.RunTree(ctx, o)
		r.Tree = &measured
		return err
	}},
	{"defaults", func(ctx context.Context, o bench.Options, r *bench.Report) error {
		o.Defaults = true
		measured, err := bench.RunCapture(ctx, o)
		r.Defaults = &measured
		return err
	}},
	{"capture", func(ctx context.Context, o bench.Options, r *bench.Report) error {
		measured, err := bench.RunCapture(ctx, o)
		r.Capture = &measured
		return err
	}},
}

// apart measures a capture at the sandbox's own latencies in a process of its own.
func apart(ctx context.Context, o bench.Options, r *bench.Report) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kamino-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "report.json")
	child := exec.CommandContext(ctx, self, "--only", "defaults", "--kamino", o.Kamino, "--sandbox", o.Sandbox,
		"--time-scale", strconv.FormatFloat(o.TimeScale, 'g', -1, 64), "--json", out)
	child.Stderr = os.Stderr
	failed := child.Run()
	text, err := os.ReadFile(out)
	if err != nil {
		return errors.Join(failed, err) // A report that only misses a limit is still written
	}
	var measured bench.Report
	err = json.Unmarshal(text, &measured)
	r.Defaults = measured.Defaults
	return err
}

func names() (all []string) {
	for _, part := range parts {
		all = append(all, part.name)
	}
	return all
}

// measure runs the named part, or all parts.
func measure(ctx context.Context, o bench.Options, only string) (r bench.Report, err error) {
	if only != "" && !slices.Contains(names(), only) {
		return r, fmt.Errorf("--only %s: there is %s", only, strings.Join(names(), " and "))
	}
	for _, part := range parts {
		if only != "" && part.name != only {
			continue
		}
		run := part.run
		if part.name == "defaults" && only == "" {
			run = apart
		}
		if err := run(ctx, o, &r); err != nil {
			return r, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return r, nil
}
