// Package logging makes the only logger of the process, and holds the destination of logs.
package logging

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// New returns the logger of the flags --log-level and --log-format: slog writes, and Kubernetes libraries use logr. An
// error is an error of usage.
func New(w io.Writer, level, format string) (logr.Logger, error) {
	var threshold slog.Level
	if err := threshold.UnmarshalText([]byte(strings.ToUpper(level))); err != nil {
		return logr.Logger{}, fmt.Errorf("unknown --log-level %q: use debug, info, warn or error", level)
	}
	o := &slog.HandlerOptions{Level: threshold}
	switch format {
	case "text":
		return logr.FromSlogHandler(slog.NewTextHandler(w, o)), nil
	case "json":
		return logr.FromSlogHandler(slog.NewJSONHandler(w, o)), nil
	default:
		return logr.Logger{}, fmt.Errorf("unknown --log-format %q: use text or json", format)
	}
}

// Adopt sets the logger of the libraries: controller-runtime informs at debug level. client-go logs every transient watch
// error at error level. The command reports such errors itself, so Adopt drops these logs unless the level is debug.
func Adopt(log logr.Logger, level string) {
	ctrllog.SetLogger(logr.New(quiet{log.GetSink()})) // the library drops the level of a logger, not of a sink
	if strings.EqualFold(level, "debug") {
		klog.SetLogger(log.WithName("client-go"))
		return
	}
	klog.SetLogger(logr.Discard())
}

// quiet is a sink for a framework: information is written at debug level, and errors always. The loss of the Lease after an
// interrupt is information.
type quiet struct{ logr.LogSink }

func (q quiet) Enabled(level int) bool { return q.LogSink.Enabled(level + 1) }

func (q quiet) Info(level int, message string, pairs ...any) {
	q.LogSink.Info(level+1, message, pairs...)
}

func (q quiet) Error(err error, message string, pairs ...any) {
	if err != nil && err.Error() == "leader election lost" && strings.Contains(message, "after stop sequence") {
		if q.Enabled(0) {
			q.Info(0, message, pairs...)
		}
		return
	}
	q.LogSink.Error(err, message, pairs...)
}

func (q quiet) WithValues(pairs ...any) logr.LogSink { return quiet{q.LogSink.WithValues(pairs...)} }

func (q quiet) WithName(name string) logr.LogSink { return quiet{q.LogSink.WithName(name)} }

// Output is the destination of logs: standard error, or a terminal that prints logs above a progress block.
type Output struct {
	mu sync.Mutex
	to io.Writer
}

// NewOutput returns the destination of logs at the start.
func NewOutput(to io.Writer) *Output { return &Output{to: to} }

// Write implements io.Writer.
func (s *Output) Write(text []byte) (int, error) {
	s.mu.Lock()
	to := s.to
	s.mu.Unlock()
	return to.Write(text)
}

// Redirect sends further logs to another writer.
func (s *Output) Redirect(to io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = to
}
