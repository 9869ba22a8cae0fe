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
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/child"
)

// controller is a process of `kamino controller`.
type controller struct {
	*child.Process
	began          time.Time
	metrics, pprof string
}

func startController(p child.Programs, log string) (*controller, error) {
	c := &controller{}
	var err error
	if c.metrics, err = freeAddress(); err != nil {
		return nil, err
	}
	if c.pprof, err = freeAddress(); err != nil {
		return nil, err
	}
	c.began = time.Now()
	c.Process, err = child.Start(p.Command(context.Background(), p.Kamino, "controller", "--log-format", "json", "--health-probe-bind-address", "0",
		"--metrics-bind-address", c.metrics, "--pprof-bind-address", c.pprof), log)
	return c, err
}

// freeAddress is an address with a free port.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
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
			return p.Trouble(err)
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
