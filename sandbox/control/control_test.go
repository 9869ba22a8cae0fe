package control

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

// scripted is a World that records calls and returns the values of its fields.
type scripted struct {
	notes  []string
	faults []fault.Fault
}

func (w *scripted) note(words ...string) { w.notes = append(w.notes, strings.Join(words, " ")) }

func (w *scripted) Status(context.Context) (Status, error) { return Status{PID: 7}, nil }
func (w *scripted) Machines(context.Context) ([]Machine, error) {
	return []Machine{{Node: "n", Ready: "True"}}, nil
}
func (w *scripted) Pools(context.Context) ([]Pool, error) {
	return []Pool{{Spec: pool.Spec{Name: "pool1"}, Capacity: 3}}, nil
}
func (w *scripted) Patch(_ context.Context, node string, p Patch, report func(Event)) error {
	w.note("patch", node, strings.Join(p.Packages, "+"))
	report(Event{Subject: node, Text: "one"})
	report(Event{Subject: node, Text: "two"})
	return nil
}
func (w *scripted) Reboot(_ context.Context, node string, report func(Event)) error {
	report(Event{Subject: node, Text: "down"})
	return errors.New("machine " + node + " does not come back")
}
func (w *scripted) Age(_ context.Context, node string, by time.Duration, _ func(Event)) error {
	w.note("age", node, by.String())
	return nil
}
func (w *scripted) Crash(_ context.Context, node string) error  { w.note("crash", node); return nil }
func (w *scripted) Hang(_ context.Context, node string) error   { w.note("hang", node); return nil }
func (w *scripted) Unhang(_ context.Context, node string) error { w.note("unhang", node); return nil }
func (w *scripted) Spoil(_ context.Context, pool string, s Spoil) (string, error) {
	w.note("spoil", pool, s.Version, string(s.Kind), strconv.Itoa(s.Share))
	return "spoiled", nil
}
func (w *scripted) Outage(_ context.Context, o Outage) error {
	w.note("outage", string(o.What), o.For.String())
	return nil
}
func (w *scripted) Scale(_ context.Context, pool string, s Scale, _ func(Event)) ([]Join, error) {
	w.note("scale", pool)
	return []Join{{Node: "new", Ready: float64(s.Nodes)}}, nil
}
func (w *scripted) Workload(context.Context, func(Event)) error { w.note("workload"); return nil }
func (w *scripted) AddFault(_ context.Context, f fault.Fault) (string, error) {
	w.faults = append(w.faults, f)
	return f.Name, nil
}
func (w *scripted) Faults(context.Context) ([]fault.Fault, error) { return w.faults, nil }
func (w *scripted) ClearFaults(_ context.Context, names []string) error {
	w.note("clear", strings.Join(names, "+"))
	return nil
}
func (w *scripted) Requests(context.Context) ([]requestlog.Request, error) { return nil, nil }
func (w *scripted) Stats(context.Context) (requestlog.Stats, error) {
	return requestlog.Stats{Reads: 2}, nil
}
func (w *scripted) ResetStats(context.Context) error  { w.note("reset"); return nil }
func (w *scripted) RequestStop(context.Context) error { w.note("stop"); return nil }

// connected serves a world in a directory and returns a client of the server.
func connected(t *testing.T, w World) *Client {
	t.Helper()
	dir := t.TempDir()
	sockets, err := os.MkdirTemp("", "c") //nolint:usetesting // The path of a socket must be short.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	socket := filepath.Join(sockets, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sandboxdir.SocketFile(dir), []byte(socket+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- Serve(t.Context(), listener, w) }()
	t.Cleanup(func() {
		// The test's context has ended by now.
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	client, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestAnswersAreForwarded(t *testing.T) {
	world := &scripted{}
	client := connected(t, world)
	ctx := t.Context()
	for _, c := range []struct {
		what      string
		got, want any
		err       error
	}{
		result(client.Status(ctx))("status", Status{PID: 7}),
		result(client.Machines(ctx))("machines", []Machine{{Node: "n", Ready: "True"}}),
		result(client.Pools(ctx))("pools", []Pool{{Spec: pool.Spec{Name: "pool1"}, Capacity: 3}}),
		result(client.Scale(ctx, "pool1", Scale{Nodes: 4}, nil))("scale", []Join{{Node: "new", Ready: 4}}),
		result(client.AddFault(ctx, fault.Fault{Name: "f", Status: 500}))("add fault", "f"),
		result(client.Spoil(ctx, "pool1", Spoil{Version: "1.2.3", Defect: disk.Defect{Kind: disk.NeverJoins, Share: 70}}))("spoil", "spoiled"),
		result(client.Faults(ctx))("faults", []fault.Fault{{Name: "f", Status: 500}}),
		result(client.Stats(ctx))("stats", requestlog.Stats{Reads: 2}),
	} {
		if c.err != nil {
			t.Errorf("%s: %v", c.what, c.err)
		}
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

type outcome = struct {
	what      string
	got, want any
	err       error
}

func result[T any](got T, err error) func(string, any) outcome {
	return func(what string, want any) outcome { return outcome{what, got, want, err} }
}

func TestOrdersReachTheSandbox(t *testing.T) {
	world := &scripted{}
	client := connected(t, world)
	ctx := t.Context()
	var events []string
	onEvent := func(e Event) { events = append(events, e.Text) }
	err := errors.Join(
		client.Patch(ctx, "a/b", Patch{Packages: []string{"x", "y=2"}}, onEvent),
		client.Age(ctx, "n", 26*time.Hour, nil),
		client.Trouble(ctx, "n", "crash"), client.Trouble(ctx, "n", "hang"), client.Trouble(ctx, "n", "unhang"),
		client.Outage(ctx, Outage{What: kubelet.NewNodes, For: time.Minute}),
		client.Workload(ctx, nil), client.ClearFaults(ctx, "f", "g"), client.ResetStats(ctx), client.Stop(ctx),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"patch a/b x+y=2", "age n 26h0m0s", "crash n", "hang n", "unhang n", "outage new-nodes 1m0s", "workload", "clear f+g", "reset", "stop"}
	if diff := cmp.Diff(want, world.notes); diff != "" {
		t.Errorf("nodeorders (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"one", "two"}, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestErrorMessages(t *testing.T) {
	client := connected(t, &scripted{})
	events := 0
	err := client.Reboot(t.Context(), "n", func(Event) { events++ })
	if err == nil || err.Error() != "machine n does not come back" || events != 1 {
		t.Errorf("%v after %d events", err, events)
	}
}

func TestUnknownOrder(t *testing.T) {
	client := connected(t, &scripted{})
	err := client.Trouble(t.Context(), "n", "paint")
	if err == nil || !strings.Contains(err.Error(), "its version differs") {
		t.Errorf("%v", err)
	}
}

func TestNotRunning(t *testing.T) {
	dir := t.TempDir()
	var notRunning *NotRunningError
	if _, err := Dial(dir); !errors.As(err, &notRunning) {
		t.Errorf("a directory without a sandbox: %v", err)
	}
	// A killed process leaves the file.
	if err := os.WriteFile(sandboxdir.SocketFile(dir), []byte(filepath.Join(dir, "gone")), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Status(t.Context()); !errors.As(err, &notRunning) || !strings.Contains(err.Error(), "kamino-sandbox up --dir "+dir) {
		t.Errorf("a sandbox that was killed: %v", err)
	}
}
