// Command kamino-bench captures a node in a sandbox, runs the controller in a cluster of 15,000 nodes, and prints the
// measurements.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
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
	if missed := report.Missed(); len(missed) > 0 {
		return fmt.Errorf("over the limit: %s", strings.Join(missed, ", "))
	}
	return nil
}

// parts of the measurement, in order. The processes of scale end with scale.
var parts = []struct {
	name string
	run  func(context.Context, bench.Options) (bench.Report, error)
}{{"scale", bench.RunScale}, {"verbs", bench.RunVerbs}, {"tree", bench.RunTree}, {"methods", bench.RunMethods}, {"capture", bench.RunCapture}}

func names() (all []string) {
	for _, part := range parts {
		all = append(all, part.name)
	}
	return all
}

// measure runs the named part, or all parts. The figures of the capture are the first of the report.
func measure(ctx context.Context, o bench.Options, only string) (r bench.Report, err error) {
	if only != "" && !slices.Contains(names(), only) {
		return r, fmt.Errorf("--only %s: there is %s", only, strings.Join(names(), " and "))
	}
	for _, part := range parts {
		if only != "" && part.name != only {
			continue
		}
		figures, err := part.run(ctx, o)
		if err != nil {
			return r, fmt.Errorf("%s: %w", part.name, err)
		}
		if part.name == "capture" {
			figures, r = append(figures, r...), nil
		}
		r = append(r, figures...)
	}
	return r, nil
}
