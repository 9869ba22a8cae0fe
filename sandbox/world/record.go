package world

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kamino-dev/kamino/sandbox/controlplane"
	"github.com/kamino-dev/kamino/sandbox/judge"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

// record is the directory with the logs of one start: the API server's audit log, the requests to the cloud, and at the end a file
// with the number of lines of each. Without this file the logs are incomplete.
type record struct {
	dir   string
	cloud *requestlog.Record
}

// Names of the files in a record. Package judge reads them, and imports no name of the sandbox.
const (
	cloudFile    = "cloud.log.gz"
	completeFile = "complete.json"
)

// openRecord creates the directory of the next start.
func openRecord(dir string) (*record, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	starts, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	r := &record{dir: filepath.Join(dir, fmt.Sprintf("%04d", len(starts)+1))}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return nil, err
	}
	r.cloud, err = requestlog.OpenRecord(filepath.Join(r.dir, cloudFile))
	return r, err
}

// close writes the numbers. Control plane and cloud must have stopped.
func (r *record) close() error {
	requests, failed := r.cloud.Close()
	events, err := controlplane.AuditEvents()
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	text, err := json.Marshal(map[string]int{"events": events, "requests": requests})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, completeFile), append(text, '\n'), 0o600)
}

// recordsVariable names a directory that keeps the logs of judged sandboxes.
const recordsVariable = "KAMINO_RECORDS"

// Judge checks Kamino's promises against the logs of the stopped sandbox, and writes the report. most is how many nodes captures may
// reserve at once, if no policy allows more. A broken promise is an error, and so is a Kamino with a foreign account.
func Judge(w *World, out io.Writer, most int, foreign ...string) error {
	if to := os.Getenv(recordsVariable); to != "" {
		if err := keepRecord(w, filepath.Join(to, fmt.Sprintf("%s-%d", filepath.Base(os.Args[0]), os.Getpid()))); err != nil {
			return err
		}
	}
	report, err := judge.Run(w.Dir(), most)
	if err != nil {
		return err
	}
	err = report.Print(out)
	for _, account := range foreign {
		if line := report.Accounts[account]; line != "" {
			err = errors.Join(err, fmt.Errorf("kamino acted as %s, not with the rights that its users give: %s", account, line))
		}
	}
	return err
}

func keepRecord(w *World, to string) error {
	if err := os.CopyFS(filepath.Join(to, sandboxdir.RecordDir), os.DirFS(filepath.Join(w.Dir(), sandboxdir.RecordDir))); err != nil {
		return err
	}
	facts, err := json.Marshal(map[string]any{"cloud": w.directory.Cloud})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "sandbox.json"), facts, 0o600)
}
