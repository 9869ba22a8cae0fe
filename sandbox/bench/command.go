package bench

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/child"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

// CommandCost is the cost of a run of the command.
type CommandCost struct {
	// Wall is from start to end, CPU is user and system time.
	Wall time.Duration
	CPU  time.Duration
	// PeakMemory is the highest anonymous resident size, in bytes. The mapped pages of the program file do not count:
	// their number depends on the page cache of the machine.
	PeakMemory int64
	// Page is the size of the page that the command served, in bytes; 0 if none.
	Page int
}

// programs run with the variables of a sandbox, but without the host's own certificate authorities, which are as many as a
// host has: reading them takes a program longer than ten requests.
func (o Options) programs(variables []sandboxdir.Variable) child.Programs {
	env := slices.DeleteFunc(child.With(variables), func(v string) bool { // users have none of these
		return strings.HasPrefix(v, "GOGC=") || strings.HasPrefix(v, "GOMEMLIMIT=") || strings.HasPrefix(v, "GOMAXPROCS=")
	})
	return child.Programs{Kamino: o.Kamino, Sandbox: o.Sandbox, Env: append(env, "SSL_CERT_DIR=/nonexistent")}
}

// yardstickEvery is the time between two runs of the yardstick.
const yardstickEvery = 10 * time.Second

// yardstick returns the CPU of one `kubectl get nodes`, the median of runs that are repeated until done is closed. The runs are apart,
// because work after a pause costs more CPU than work without one, and a capture mostly waits.
func yardstick(ctx context.Context, p child.Programs, done <-chan struct{}) (time.Duration, error) {
	var took []time.Duration
	tick := time.NewTicker(yardstickEvery)
	defer tick.Stop()
	for {
		cost, err := measured(ctx, p, p.Sandbox, "kubectl", "--", "get", "nodes")
		if err != nil {
			return 0, err
		}
		took = append(took, cost.CPU)
		select {
		case <-done:
			slices.Sort(took)
			return took[len(took)/2], nil
		case <-tick.C:
		}
	}
}

// measured runs a program to its end.
func measured(ctx context.Context, p child.Programs, binary string, args ...string) (CommandCost, error) {
	cmd := p.Command(ctx, binary, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return CommandCost{}, err
	}
	peak := child.WatchMemory(cmd.Process.Pid)
	err := cmd.Wait()
	c := CommandCost{Wall: time.Since(began), PeakMemory: peak()}
	if c.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", filepath.Base(binary), strings.Join(args, " "), err, &out)
	}
	return c, err
}
