// Command kamino-bench captures a node in a sandbox and prints what it took.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

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
	scale := flag.Float64("time-scale", 1, "how many seconds of a cloud pass in one; more than 1 makes our own share look larger")
	out := flag.String("json", "", "`file` for the report as JSON")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	options := bench.Options{TimeScale: *scale, Say: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}}
	var err error
	if options.Kamino, err = filepath.Abs(*kamino); err != nil {
		return err
	}
	if options.Sandbox, err = filepath.Abs(*sandbox); err != nil {
		return err
	}
	report, err := bench.Run(ctx, options)
	if err != nil {
		return err
	}
	if err := report.Markdown(os.Stdout); err != nil {
		return err
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
		return fmt.Errorf("beyond its limit: %s", strings.Join(missed, ", "))
	}
	return nil
}
