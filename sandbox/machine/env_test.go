package machine

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

const platformImage = fleet.DiskID("microsoft-aks:aks:aks-engine-ubuntu-2204:2026.10.15")

const emptyCloudConfig = "#cloud-config\n{}\n"

// timeScale is the number of simulated seconds per real second.
const timeScale = 5000

// fleetEnv is a fleet on an API server in memory.
type fleetEnv struct {
	*testing.T
	client *fake.Clientset
	fleet  *Fleet
	dir    string
	log    *messages
	// calendar is real time until a test puts the calendar forward.
	calendar clock.Calendar
	// keepNodes is the fleet's.
	keepNodes bool
}

func newFleetEnv(t *testing.T) *fleetEnv {
	t.Helper()
	w := &fleetEnv{T: t, client: fake.NewClientset(), dir: t.TempDir(), log: &messages{}}
	w.open(nil)
	return w
}

// open starts a fleet on the world's directory.
func (w *fleetEnv) open(binaries map[string]string) {
	w.Helper()
	f, err := New(w.Context(), Config{
		Dir: w.dir, Clock: clock.Clock{Scale: timeScale, Calendar: &w.calendar}, Client: w.client, Binaries: binaries,
		RESTConfig: &rest.Config{Host: "https://192.0.2.1:6443"}, Region: "westeurope", KeepNodes: w.keepNodes, Log: slog.New(w.log),
	})
	if err != nil {
		w.Fatal(err)
	}
	w.fleet = f
	w.Cleanup(f.Close)
}

// messages keeps log messages, for tests that can wait for nothing else.
type messages struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (m *messages) Enabled(context.Context, slog.Level) bool { return true }

func (m *messages) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += fmt.Sprint(" ", a.Key, "=", a.Value); return true })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, line)
	return nil
}

func (m *messages) has(text string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Contains(strings.Join(m.lines, "\n"), text)
}

func instance(n int) string {
	return fmt.Sprintf("/subscriptions/S/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/pool/virtualMachines/%d", n)
}

// spec of the n-th instance, built from the platform image by a recipe with a bootstrap.
func spec(n int) fleet.Spec {
	return fleet.Spec{
		ID: instance(n), Pool: "pool", ComputerName: fmt.Sprintf("Pool%06d", n), ProviderID: "azure://" + instance(n),
		VMID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Disk: fleet.DiskID(fmt.Sprintf("%s/osdisk", instance(n))),
		CustomData: []byte(disk.CustomData(disk.Static)), Image: string(platformImage), Zone: "westeurope-1",
		Extensions: []fleet.Extension{{Name: "vmssCSE", Publisher: "Microsoft.Azure.Extensions", Type: "CustomScript"}},
	}
}

// launch makes the spec's disk from a source and starts the machine.
func (w *fleetEnv) launch(s fleet.Spec, source fleet.DiskID) {
	w.Helper()
	if err := w.copyFlushed(s.Disk, source); err != nil {
		w.Fatal(err)
	}
	if err := w.fleet.Launch(w.Context(), s); err != nil {
		w.Fatal(err)
	}
}

// copyFlushed copies a disk after a flush, if a machine runs from the disk.
func (w *fleetEnv) copyFlushed(dst, src fleet.DiskID) error {
	if root := w.fleet.DiskTree(src); disk.Exists(root, "run/systemd") {
		if err := disk.Flush(root); err != nil {
			return err
		}
	}
	return w.fleet.CopyDisk(w.Context(), dst, src)
}

// donor is a bootstrapped machine with a Ready node.
func (w *fleetEnv) donor() fleet.Spec {
	w.Helper()
	s := spec(1)
	w.launch(s, platformImage)
	w.ready("pool000001", s.ID)
	return s
}

// clone starts the second instance on a copy of a donor's disk, by a recipe without a bootstrap.
func (w *fleetEnv) clone(donor fleet.DiskID) fleet.Spec {
	w.Helper()
	s := spec(2)
	s.CustomData, s.Extensions = []byte(emptyCloudConfig), nil
	w.launch(s, donor)
	return s
}

func (w *fleetEnv) tree(id string) string {
	w.Helper()
	path, err := w.fleet.DiskPath(id)
	if err != nil {
		w.Fatal(err)
	}
	return path
}

func (w *fleetEnv) readFile(id, path string) string {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.tree(id), path))
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

func (w *fleetEnv) node(name string) *corev1.Node {
	node, err := w.client.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return &corev1.Node{}
	}
	return node
}

func readyOf(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// ready waits until the node is Ready under the machine's present boot.
func (w *fleetEnv) ready(name, id string) *corev1.Node {
	w.Helper()
	var node *corev1.Node
	w.eventually("node "+name+" is Ready", func() bool {
		status, err := w.fleet.Machine(id)
		node = w.node(name)
		return err == nil && status.BootID != "" && node.Status.NodeInfo.BootID == status.BootID && readyOf(node) == corev1.ConditionTrue
	})
	return node
}

func (w *fleetEnv) eventually(what string, reached func() bool) {
	w.Helper()
	deadline := time.Now().Add(2 * time.Minute) // only ends a test that hangs
	for !reached() {
		if time.Now().After(deadline) {
			w.log.mu.Lock()
			defer w.log.mu.Unlock()
			w.Fatalf("never came: %s\nlog:\n%s", what, strings.Join(w.log.lines, "\n"))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// generalize manually removes everything that a clone must not share with its donor.
func (w *fleetEnv) generalize(root string) {
	w.Helper()
	for _, pattern := range []string{
		"etc/hostname", "etc/ssh/ssh_host_*", "var/lib/cloud/*", "var/lib/waagent/*.xml", "var/lib/waagent/*.pem", "var/lib/waagent/*.crt", "var/lib/waagent/*.prv", "var/lib/waagent/p*",
		"var/lib/dhcp/*", "var/lib/systemd/random-seed", "var/log/journal/*",
	} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			w.Fatal(err)
		}
		for _, path := range paths {
			if err := os.RemoveAll(path); err != nil {
				w.Fatal(err)
			}
		}
	}
	if err := os.Truncate(filepath.Join(root, "etc/machine-id"), 0); err != nil {
		w.Fatal(err)
	}
}
