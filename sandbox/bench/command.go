package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/child"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

// CommandCost is the cost of a run of the command.
type CommandCost struct {
	// Wall is from start to end, CPU is user and system time.
	Wall time.Duration `json:"wall"`
	CPU  time.Duration `json:"cpu"`
	// PeakRSS is the highest resident size, in bytes.
	PeakRSS int64 `json:"peakRSS"`
}

// programs run with the variables of a sandbox, but without the host's own certificate authorities, which are as many as a
// host has: reading them takes a program longer than ten requests.
func (o Options) programs(variables []sandboxdir.Variable) child.Programs {
	return child.Programs{Kamino: o.Kamino, Sandbox: o.Sandbox, Env: append(child.With(variables), "SSL_CERT_DIR=/nonexistent")}
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

// peakEvery is the interval between readings of the peak. The peak only grows: the last reading misses only the last
// moments.
const peakEvery = 20 * time.Millisecond

// measured runs a program to its end. The peak is the kernel's high-water mark of the process. The resource usage
// would also include the larger parent before the fork.
func measured(ctx context.Context, p child.Programs, binary string, args ...string) (CommandCost, error) {
	cmd := p.Command(ctx, binary, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return CommandCost{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(peakEvery)
	defer tick.Stop()
	var c CommandCost
	for {
		select {
		case <-tick.C:
			c.PeakRSS = max(c.PeakRSS, statusOf(cmd.Process.Pid, "VmHWM"))
		case err := <-ended:
			if err != nil {
				return CommandCost{}, fmt.Errorf("%s %s: %w\n%s", filepath.Base(binary), strings.Join(args, " "), err, &out)
			}
			c.Wall = time.Since(began)
			c.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			return c, nil
		}
	}
}

// statusOf reads a size of a process, in bytes; 0 if the process is gone. Source: proc_pid_status(5).
func statusOf(pid int, field string) int64 {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == field+":" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib * 1024
		}
	}
	return 0
}
