package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	corev1 "k8s.io/api/core/v1"
)

// systemctl connects to a machine's systemd as the generalize pod does.
func (w *fleetEnv) systemctl(id string) func(order, unit string) {
	w.Helper()
	dir, err := os.Open(filepath.Join(w.tree(id), "run/systemd"))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = dir.Close() })
	conn, err := sd.NewConnection(func() (*dbus.Conn, error) {
		conn, err := dbus.Dial(fmt.Sprintf("unix:path=/proc/self/fd/%d/private", dir.Fd()))
		if err != nil {
			return nil, err
		}
		return conn, conn.Auth([]dbus.Auth{dbus.AuthExternal(fmt.Sprint(os.Getuid()))})
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(conn.Close)
	return func(order, unit string) {
		w.Helper()
		done := make(chan string, 1)
		job := conn.StopUnitContext
		if order == "start" {
			job = conn.StartUnitContext
		}
		if _, err := job(w.Context(), unit, "replace", done); err != nil {
			w.Fatal(err)
		}
		if result := <-done; result != "done" {
			w.Fatalf("%s %s: %s", order, unit, result)
		}
	}
}

func TestStoppedKubeletGoesSilent(t *testing.T) {
	w := newFleetEnv(t)
	s := w.donor()
	systemctl := w.systemctl(s.ID)
	systemctl("stop", kubeletUnit)
	w.eventually("the node is lost", func() bool { return readyOf(w.node("pool000001")) == corev1.ConditionUnknown })
	systemctl("start", kubeletUnit)
	w.ready("pool000001", s.ID)
}

// TestServicesWriteUntilStopped: a running service creates removed files again.
func TestServicesWriteUntilStopped(t *testing.T) {
	w := newFleetEnv(t)
	s := w.donor()
	m, err := w.fleet.machine(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("the kubelet's unit is active", func() bool { return m.now().units.Active(kubeletUnit) })
	root := w.tree(s.ID)
	comesBack := func(path string) bool {
		t.Helper()
		matches, err := filepath.Glob(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range matches {
			if err := os.RemoveAll(match); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.now().writeOnce(0); err != nil {
			t.Fatal(err)
		}
		matches, err = filepath.Glob(filepath.Join(root, path))
		return err == nil && len(matches) > 0
	}
	systemctl := w.systemctl(s.ID)
	for _, service := range []struct {
		path  string
		units []string
	}{
		{"var/lib/kubelet/cpu_manager_state", []string{kubeletUnit}},
		{"var/lib/waagent/events/*", []string{"walinuxagent.service"}},
		{"var/log/syslog", []string{"syslog.socket", "rsyslog.service"}},
		{"var/log/journal/*/system.journal", []string{"systemd-journald.socket", "systemd-journald-dev-log.socket", "systemd-journald-audit.socket", "systemd-journald.service"}},
	} {
		if !comesBack(service.path) {
			t.Errorf("%s does not come back although its service runs", service.path)
		}
		for _, unit := range service.units {
			systemctl("stop", unit)
		}
		if comesBack(service.path) {
			t.Errorf("%s comes back although its service is stopped", service.path)
		}
	}
}

func TestStoppingJournaldServiceOnly(t *testing.T) {
	w := newFleetEnv(t)
	s := w.donor()
	m, err := w.fleet.machine(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.systemctl(s.ID)("stop", "systemd-journald.service")
	if err := m.now().writeOnce(0); err != nil {
		t.Fatal(err)
	}
	if !m.now().units.Active("systemd-journald.service") {
		t.Error("journald stayed down although its sockets are active")
	}
}
