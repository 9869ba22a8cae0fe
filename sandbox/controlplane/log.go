package controlplane

import (
	"errors"
	"flag"
	"os"

	"k8s.io/klog/v2"

	_ "github.com/kamino-dev/kamino/sandbox/controlplane/quiet" // The API server's etcd client.
)

// logFile receives the log of all components, which share klog's package variables. The terminal shows only the
// sandbox's own lines.
type logFile struct {
	path string
	file *os.File
}

func openLog(path string) (*logFile, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	// Into the file alone: by default errors go to standard error as well.
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	klog.SetOutput(file)
	return &logFile{path: path, file: file}, nil
}

// Close flushes and closes the file. Later log lines are dropped on purpose: goroutines of components may outlive
// Run.
func (l *logFile) Close() error {
	if l == nil || l.file == nil {
		return nil
	}
	klog.Flush()
	klog.SetOutput(nowhere{})
	file := l.file
	l.file = nil
	return file.Close()
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
