package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

// Client sends orders to the sandbox in a directory.
type Client struct {
	dir  string
	http *http.Client
}

// NotRunningError reports that no sandbox runs in a directory.
type NotRunningError struct{ Dir string }

func (e *NotRunningError) Error() string {
	return fmt.Sprintf("no sandbox runs in %s: start one with `kamino-sandbox up --dir %s`, or pass another --dir", e.Dir, e.Dir)
}

// Dial finds the sandbox in a directory. The first order opens the connection.
func Dial(dir string) (*Client, error) {
	raw, err := os.ReadFile(sandboxdir.SocketFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &NotRunningError{dir}
	}
	if err != nil {
		return nil, err
	}
	socket := strings.TrimSpace(string(raw))
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &Client{dir: dir, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}, nil
}

// Status describes the sandbox.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return order[Status](ctx, c, "GET", "/status", nil, nil)
}

// Machines lists the machines.
func (c *Client) Machines(ctx context.Context) ([]Machine, error) {
	return order[[]Machine](ctx, c, "GET", "/machines", nil, nil)
}

// Pools lists the pools.
func (c *Client) Pools(ctx context.Context) ([]Pool, error) {
	return order[[]Pool](ctx, c, "GET", "/pools", nil, nil)
}

// Patch patches a machine the way step 1 would and returns when its node is Ready again.
func (c *Client) Patch(ctx context.Context, node string, p Patch, report func(Event)) error {
	_, err := order[any](ctx, c, "POST", machinePath(node, "patch"), p, report)
	return err
}

// Reboot reboots a machine and returns when the Node is Ready again.
func (c *Client) Reboot(ctx context.Context, node string, report func(Event)) error {
	_, err := order[any](ctx, c, "POST", machinePath(node, "reboot"), nil, report)
	return err
}

// Age makes a node look as if nothing had happened to it for so much longer.
func (c *Client) Age(ctx context.Context, node string, by time.Duration, report func(Event)) error {
	_, err := order[any](ctx, c, "POST", machinePath(node, "age"), by, report)
	return err
}

// Trouble sends "crash", "hang" or "unhang" to a machine.
func (c *Client) Trouble(ctx context.Context, node, what string) error {
	_, err := order[any](ctx, c, "POST", machinePath(node, what), nil, nil)
	return err
}

// Scale changes the size of a pool and returns how the new nodes joined.
func (c *Client) Scale(ctx context.Context, pool string, s Scale, report func(Event)) ([]Join, error) {
	return order[[]Join](ctx, c, "POST", "/pools/"+url.PathEscape(pool)+"/scale", s, report)
}

// Workload applies the demonstration workload and returns when all of it is ready.
func (c *Client) Workload(ctx context.Context, report func(Event)) error {
	_, err := order[any](ctx, c, "POST", "/workload", nil, report)
	return err
}

// Spoil makes a version of a pool bad, and returns a sentence that names the version.
func (c *Client) Spoil(ctx context.Context, pool string, s Spoil) (string, error) {
	return order[string](ctx, c, "POST", "/pools/"+url.PathEscape(pool)+"/spoil", s, nil)
}

// Outage starts or ends an outage of the pod network.
func (c *Client) Outage(ctx context.Context, o Outage) error {
	_, err := order[any](ctx, c, "POST", "/outage", o, nil)
	return err
}

// AddFault adds a fault and returns its name.
func (c *Client) AddFault(ctx context.Context, f fault.Fault) (string, error) {
	return order[string](ctx, c, "POST", "/faults", f, nil)
}

// Faults lists the faults that can still strike.
func (c *Client) Faults(ctx context.Context) ([]fault.Fault, error) {
	return order[[]fault.Fault](ctx, c, "GET", "/faults", nil, nil)
}

// ClearFaults takes trouble back: the named, or all.
func (c *Client) ClearFaults(ctx context.Context, names ...string) error {
	_, err := order[any](ctx, c, "DELETE", "/faults?"+url.Values{"name": names}.Encode(), nil, nil)
	return err
}

// Requests lists the requests to the simulated cloud.
func (c *Client) Requests(ctx context.Context) ([]requestlog.Request, error) {
	return order[[]requestlog.Request](ctx, c, "GET", "/requests", nil, nil)
}

// Stats counts the requests to the simulated cloud.
func (c *Client) Stats(ctx context.Context) (requestlog.Stats, error) {
	return order[requestlog.Stats](ctx, c, "GET", "/stats", nil, nil)
}

// ResetStats sets the counters to zero.
func (c *Client) ResetStats(ctx context.Context) error {
	_, err := order[any](ctx, c, "DELETE", "/requests", nil, nil)
	return err
}

// Stop orders the sandbox to stop, and does not wait.
func (c *Client) Stop(ctx context.Context) error {
	_, err := order[any](ctx, c, "POST", "/stop", nil, nil)
	return err
}

func machinePath(node, what string) string { return "/machines/" + url.PathEscape(node) + "/" + what }

// order sends a request and reads the answer to its last line.
func order[T any](ctx context.Context, c *Client, method, path string, payload any, report func(Event)) (T, error) {
	var result T
	raw, err := json.Marshal(payload)
	if err != nil {
		return result, err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://sandbox"+path, bytes.NewReader(raw))
	if err != nil {
		return result, err
	}
	response, err := c.http.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return result, &NotRunningError{c.dir}
	}
	if err != nil {
		return result, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return result, fmt.Errorf("the sandbox in %s refuses the request (%s): its version differs from this command's version; restart the sandbox",
			c.dir, response.Status)
	}
	lines := json.NewDecoder(response.Body)
	for {
		var m message
		if err := lines.Decode(&m); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = errors.New("the sandbox ended before the request was completed")
			}
			return result, fmt.Errorf("the sandbox in %s: %w", c.dir, err)
		}
		switch {
		case m.Event != nil && report != nil:
			report(*m.Event)
		case m.Done && m.Error != "":
			return result, errors.New(m.Error)
		case m.Done:
			return result, json.Unmarshal(m.Result, &result)
		}
	}
}
