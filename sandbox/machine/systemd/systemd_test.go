package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"
)

// dial connects go-systemd to a socket deep inside a tree, through the descriptor of its directory.
func dial(t *testing.T, socket string) *sd.Conn {
	t.Helper()
	dir, err := os.Open(filepath.Dir(socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	conn, err := sd.NewConnection(func() (*dbus.Conn, error) {
		conn, err := dbus.Dial(fmt.Sprintf("unix:path=/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(socket)))
		if err != nil {
			return nil, err
		}
		return conn, conn.Auth([]dbus.Auth{dbus.AuthExternal(fmt.Sprint(os.Getuid()))})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func serve(t *testing.T, onChange func(string, bool) error) (*Manager, *sd.Conn) {
	t.Helper()
	deep := filepath.Join(t.TempDir(), strings.Repeat("a-long-directory/", 8), "run/systemd")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(deep, "private")
	listener, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	m := New(Default(), onChange)
	go m.Serve(listener)
	t.Cleanup(m.Close)
	return m, dial(t, socket)
}

// changes records the callbacks to the owner of a manager.
type changes struct {
	mu   sync.Mutex
	list []string
}

func (c *changes) add(name string, active bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Sprint(name, " ", active))
	return nil
}

func (c *changes) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list)
}

func TestStopUnitCallsOwner(t *testing.T) {
	var changes changes
	m, conn := serve(t, changes.add)
	done := make(chan string, 1)
	if _, err := conn.StopUnitContext(t.Context(), "cron.service", "replace", done); err != nil {
		t.Fatal(err)
	}
	if result := await(t, done); result != "done" {
		t.Errorf("the job ended %q", result)
	}
	if m.Active("cron.service") {
		t.Error("cron.service is still active")
	}
	property, err := conn.GetUnitPropertyContext(t.Context(), "cron.service", "ActiveState")
	if err != nil || property.Value.Value() != "inactive" {
		t.Errorf("ActiveState is %v (%v)", property, err)
	}
	if diff := cmp.Diff([]string{"cron.service false"}, changes.all()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestRestartAndTryRestart(t *testing.T) {
	var changes changes
	_, conn := serve(t, changes.add)
	done := make(chan string, 1)
	for _, order := range []func(context.Context, string, string, chan<- string) (int, error){conn.RestartUnitContext, conn.StopUnitContext, conn.TryRestartUnitContext, conn.StartUnitContext} {
		if _, err := order(t.Context(), "ssh.service", "replace", done); err != nil {
			t.Fatal(err)
		}
		await(t, done)
	}
	want := []string{"ssh.service false", "ssh.service true", "ssh.service false", "ssh.service true"}
	if diff := cmp.Diff(want, changes.all()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestJobFailsWhenTheOwnerRefuses(t *testing.T) {
	m, conn := serve(t, func(string, bool) error { return errors.New("hung") })
	done := make(chan string, 1)
	if _, err := conn.StopUnitContext(t.Context(), "ssh.service", "replace", done); err != nil {
		t.Fatal(err)
	}
	if result := await(t, done); result != "failed" {
		t.Errorf("the job ended %q", result)
	}
	if !m.Active("ssh.service") {
		t.Error("ssh.service stopped although its owner refused")
	}
}

func TestLists(t *testing.T) {
	_, conn := serve(t, nil)
	all, err := conn.ListUnitsContext(t.Context())
	if err != nil || len(all) != len(Default()) {
		t.Fatalf("%d units listed, %v; want %d", len(all), err, len(Default()))
	}
	states := func(units []sd.UnitStatus, err error) []string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, u := range units {
			out = append(out, u.Name+" "+u.LoadState+" "+u.ActiveState+" "+u.SubState)
		}
		return out
	}
	got := states(conn.ListUnitsByNamesContext(t.Context(), []string{"ssh.service", "docker.service", "syslog.socket"}))
	want := []string{"ssh.service loaded active running", "docker.service not-found inactive dead", "syslog.socket loaded active listening"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("by names (-want +got):\n%s", diff)
	}
	got = states(conn.ListUnitsByPatternsContext(t.Context(), []string{"active"}, []string{"apt-*.timer"}))
	want = []string{"apt-daily.timer loaded active waiting", "apt-daily-upgrade.timer loaded active waiting"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("by patterns (-want +got):\n%s", diff)
	}
	got = states(conn.ListUnitsFilteredContext(t.Context(), []string{"inactive"}))
	want = []string{"containerd.service loaded inactive dead", "kubelet.service loaded inactive dead", "reboot.target loaded inactive dead"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("filtered (-want +got):\n%s", diff)
	}
}

// TestTransientUnits: a unit keeps its result, and its name is taken until the next boot.
func TestTransientUnits(t *testing.T) {
	m, conn := serve(t, nil)
	commands, codes := make(chan Command), make(chan int32)
	m.Runs(func(c Command) int32 {
		commands <- c
		return <-codes
	})
	state := func(name string) string {
		t.Helper()
		p, err := conn.GetAllPropertiesContext(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(p["LoadState"], " ", p["ActiveState"], " ", p["SubState"], " ", p["ExecMainStatus"], " ", p["Result"])
	}
	property := func(name string, value any) sd.Property {
		return sd.Property{Name: name, Value: dbus.MakeVariant(value)}
	}
	for name, test := range map[string]struct {
		code int32
		want string
	}{
		"good.service": {0, "loaded active exited 0 success"},
		"bad.service":  {100, "loaded failed failed 100 exit-code"},
	} {
		start := func() error {
			_, err := conn.StartTransientUnitContext(t.Context(), name, "fail", []sd.Property{
				sd.PropExecStart([]string{"/usr/bin/apt-get", "-y", "install"}, true), property("Environment", []string{"LC_ALL=C"}),
				property("StandardOutputFile", "/run/log"),
			}, nil)
			return err
		}
		if err := start(); err != nil {
			t.Fatal(err)
		}
		want := Command{Words: []string{"/usr/bin/apt-get", "-y", "install"}, Environment: []string{"LC_ALL=C"}, Log: "/run/log"}
		if diff := cmp.Diff(want, <-commands); diff != "" {
			t.Errorf("command (-want +got):\n%s", diff)
		}
		if got, want := state(name), "loaded activating start 0 success"; got != want {
			t.Errorf("%s while its command runs: %s, want %s", name, got, want)
		}
		var failure dbus.Error
		if err := start(); !errors.As(err, &failure) || failure.Name != "org.freedesktop.systemd1.UnitExists" {
			t.Errorf("a second %s: %v", name, err)
		}
		codes <- test.code
		for got := ""; got != test.want; got = state(name) {
			if strings.Contains(got, "active exited") || strings.Contains(got, "failed") {
				t.Fatalf("%s: %s, want %s", name, got, test.want)
			}
		}
	}
}

func TestUnknownUnitIsRefused(t *testing.T) {
	_, conn := serve(t, nil)
	_, err := conn.StopUnitContext(t.Context(), "docker.service", "replace", nil)
	var failure dbus.Error
	if !errors.As(err, &failure) || failure.Name != "org.freedesktop.systemd1.NoSuchUnit" {
		t.Errorf("got %v", err)
	}
}

func TestSocketsRestartJournald(t *testing.T) {
	m := New(Default(), nil)
	const journald = "systemd-journald.service"
	if err := m.Set(journald, false); err != nil {
		t.Fatal(err)
	}
	if !m.Message(journald) || !m.Active(journald) {
		t.Error("a message did not start journald although its sockets are active")
	}
	for _, unit := range m.match([]string{"systemd-journald*.socket", journald}) {
		if err := m.Set(unit.Name, false); err != nil {
			t.Fatal(err)
		}
	}
	if m.Message(journald) || m.Active(journald) {
		t.Error("journald came back although its sockets are stopped")
	}
}

func TestEscape(t *testing.T) {
	for name, want := range map[string]string{"kubelet.service": "kubelet_2eservice", "7a-b": "_37a_2db"} {
		if got := escape(name); got != want {
			t.Errorf("escape(%q) = %q, want %q", name, got, want)
		}
		if got := sd.PathBusEscape(name); got != want {
			t.Errorf("go-systemd escapes %q as %q", name, got)
		}
	}
}

func await(t *testing.T, done <-chan string) string {
	t.Helper()
	select {
	case result := <-done:
		return result
	case <-t.Context().Done():
		t.Fatal("the job never ended")
		return ""
	}
}
