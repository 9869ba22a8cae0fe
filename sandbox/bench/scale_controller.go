package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// controller is a process of `kamino controller`.
type controller struct {
	command        *exec.Cmd
	began          time.Time
	log            *os.File
	metrics, pprof string
	// ended is closed when the process has, for which err is the reason.
	ended chan struct{}
	err   error
}

func startController(o Options, env []string) (*controller, error) {
	p := &controller{ended: make(chan struct{})}
	var err error
	if p.metrics, err = freeAddress(); err != nil {
		return nil, err
	}
	if p.pprof, err = freeAddress(); err != nil {
		return nil, err
	}
	if p.log, err = os.CreateTemp("", "kamino-controller-*.log"); err != nil {
		return nil, err
	}
	p.command = exec.Command(o.Kamino, "controller", "--log-format", "json", "--health-probe-bind-address", "0",
		"--metrics-bind-address", p.metrics, "--pprof-bind-address", p.pprof)
	p.command.Env, p.command.Stdout, p.command.Stderr = env, p.log, p.log
	p.began = time.Now()
	if err := p.command.Start(); err != nil {
		return nil, errors.Join(err, p.log.Close(), os.Remove(p.log.Name()))
	}
	go func() {
		defer close(p.ended)
		p.err = p.command.Wait()
	}()
	return p, nil
}

// freeAddress is an address with a free port.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// stop stops the process cleanly. The process releases its Lease, so the next process need not wait.
func (p *controller) stop() error {
	err := p.command.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-p.ended
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		err = errors.Join(err, p.err)
	}
	return errors.Join(err, p.log.Close(), os.Remove(p.log.Name()))
}

// trouble adds the end of the log to an error.
func (p *controller) trouble(err error) error {
	text, _ := os.ReadFile(p.log.Name())
	const tail = 4000
	return fmt.Errorf("kamino controller: %w\n%s", err, text[max(0, len(text)-tail):])
}

// memory reads a size of the process, in bytes; 0 if the process is gone. Source: proc_pid_status(5).
func (p *controller) memory(field string) int64 { return statusOf(p.command.Process.Pid, field) }

// forgetPeak makes the kernel count VmHWM from now on. Source: proc(5), /proc/pid/clear_refs.
func (p *controller) forgetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.command.Process.Pid), []byte("5"), 0)
}

// reconciled is controller-runtime's counter of passes, by result.
const reconciled = `controller_runtime_reconcile_total{controller="policy"`

// counted is how many passes over the policies have ended.
func (p *controller) counted(ctx context.Context) (int, error) {
	body, err := get(ctx, "http://"+p.metrics+"/metrics")
	if err != nil {
		return 0, err
	}
	defer func() { _ = body.Close() }()
	total := 0.0
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		name, value, found := strings.Cut(lines.Text(), "} ")
		if !found || !strings.HasPrefix(name, reconciled) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s}: %w", name, err)
		}
		total += n
	}
	return int(total), lines.Err()
}

// passes waits until as many passes have ended.
func (p *controller) passes(ctx context.Context, wanted int) error {
	ctx, cancel := context.WithTimeout(ctx, decisionWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := p.counted(ctx)
		if err != nil {
			return p.trouble(err)
		}
		if n >= wanted {
			return nil
		}
		<-tick.C
	}
}

// profile writes a heap profile into a directory, created if missing; without a directory, profile does nothing.
func (p *controller) profile(ctx context.Context, dir, name string) (err error) {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	body, err := get(ctx, "http://"+p.pprof+"/debug/pprof/heap")
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	file, err := os.Create(filepath.Join(dir, name+".pb.gz"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = io.Copy(file, body)
	return err
}

func get(ctx context.Context, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: %s", url, response.Status), response.Body.Close())
	}
	return response.Body, nil
}
