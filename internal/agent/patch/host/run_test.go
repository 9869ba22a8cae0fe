package host

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize/host"
	"github.com/kamino-dev/kamino/internal/patch"
)

const (
	boot     = "6d4f8b6e-0000-4000-8000-000000000001"
	orderUID = "0bde4000-0000-4000-8000-000000000003"
)

// fakeUnits has no systemd. Starting a unit fails the test.
type fakeUnits struct {
	t     *testing.T
	known map[string]UnitState
}

func (u fakeUnits) State(_ context.Context, name string) (UnitState, error) {
	return u.known[name], nil
}
func (u fakeUnits) Active(context.Context, []string) ([]string, error) { return nil, nil }
func (u fakeUnits) Reboot(context.Context) error                       { return nil }
func (u fakeUnits) Start(_ context.Context, unit Unit) error {
	u.t.Errorf("unit %s is started", unit.Name)
	return errors.New("not here")
}

// directory is a host's root without programs: every program that is run fails the test.
func directory(t *testing.T, files map[string]string) *Node {
	t.Helper()
	n := &Node{Root: t.TempDir(), UID: orderUID, Log: &bytes.Buffer{}, Now: func() time.Time { return time.Unix(1800000000, 0) }, Units: fakeUnits{t: t, known: map[string]UnitState{}}}
	n.Wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	n.Exec = func(ctx context.Context, _ []string, program string, _ ...string) *exec.Cmd {
		t.Errorf("%s is run", program)
		return exec.CommandContext(ctx, "false")
	}
	for p, content := range files {
		path := filepath.Join(n.Root, p)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func orderOf(method patch.Method) patch.Order {
	return patch.Order{Method: method, Token: boot, Patches: patch.All, Hold: patch.DefaultHold(), Holder: patch.Holder{Kind: "Prototype", Name: "p", UID: "u"}}
}

// A node that Kamino cannot patch is refused by its name, and no program is run.
func TestUnsupportedIsRefusedByName(t *testing.T) {
	for release, want := range map[string]string{
		"ID=azurelinux\nVERSION_ID=3.0\n":            `Kamino cannot patch "azurelinux 3.0": tdnf is not tested`,
		"ID=sles\nID_LIKE=suse\nVERSION_ID=15.6\n":   `Kamino cannot patch "sles 15.6": zypper is not tested`,
		"ID=flatcar\nID_LIKE=coreos\nVERSION_ID=1\n": `Kamino cannot patch "flatcar 1": the system is an image without packages`,
	} {
		n := directory(t, map[string]string{"usr/lib/os-release": release, kernelPath: "6.6.1\n"})
		for _, method := range []patch.Method{patch.Check, patch.Patch} {
			r := n.Carry(t.Context(), orderOf(method))
			if r.Failure == nil || r.Failure.Reason != patch.Unsupported || r.Failure.Message != want || r.Kernel != "6.6.1" {
				t.Errorf("%s: %+v, want %q", method, r.Failure, want)
			}
			if err := r.Answers(orderOf(method)); err != nil {
				t.Error(err)
			}
		}
		// Every system can be rebooted.
		if r := n.Carry(t.Context(), orderOf(patch.Reboot)); r.Failure != nil {
			t.Errorf("a reboot: %+v", r.Failure)
		}
	}
	booted := directory(t, map[string]string{"etc/os-release": "ID=fedora\nVERSION_ID=41\n", kernelPath: "6", ostreeBooted: ""})
	if r := booted.Carry(t.Context(), orderOf(patch.Check)); r.Failure == nil || r.Failure.Reason != patch.Unsupported {
		t.Errorf("an ostree deployment: %+v", r.Failure)
	}
}

// The state is written before the unit starts. A unit without a state was not started by this order's pod.
func TestAUnitWithoutItsState(t *testing.T) {
	for release, manager := range map[string]patch.Manager{"ID=debian\nVERSION_ID=12\n": patch.APT, "ID=fedora\nVERSION_ID=41\n": patch.DNF} {
		n := directory(t, map[string]string{"etc/os-release": release, kernelPath: "6"})
		n.Units = fakeUnits{t: t, known: map[string]UnitState{n.unitName(""): {Known: true, Ended: true, Result: "success"}}}
		r := n.Carry(t.Context(), orderOf(patch.Patch))
		if r.Manager != manager || r.Failure == nil || r.Failure.Reason != patch.NodeFailed || !strings.Contains(r.Failure.Message, "run/kamino-patch-"+orderUID) {
			t.Errorf("%s: %+v", manager, r.Failure)
		}
	}
}

// dpkg without any list of packages is a failure of the node, and not an empty list.
func TestNoListOfPackages(t *testing.T) {
	n := directory(t, map[string]string{"etc/os-release": "ID=debian\nVERSION_ID=12\n", kernelPath: "6"})
	if r := n.Carry(t.Context(), orderOf(patch.Check)); r.Failure == nil || r.Failure.Reason != patch.NodeFailed || r.Complete() {
		t.Errorf("%+v", r.Failure)
	}
}

// TestOrderIsRefused has a case for every way in which a NodeOrder is not this pod's. Nothing is run, and nothing is reported.
func TestOrderIsRefused(t *testing.T) {
	private, public, err := v1alpha1.NewOrderKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(o *v1alpha1.NodeOrder)
		says   string
	}{
		"another boot": {func(o *v1alpha1.NodeOrder) { o.Spec.Token = strings.Replace(boot, "6", "7", 1) }, "the host's boot is " + boot + ": the host was restarted in between"},
		"another UID":  {func(o *v1alpha1.NodeOrder) { o.UID = "other" }, "another client deleted and recreated the order"},
		"another key":  {func(o *v1alpha1.NodeOrder) { o.Spec.Key = "other" }, "Kamino would reject the report"},
		"generalize":   {func(o *v1alpha1.NodeOrder) { o.Spec.Method = v1alpha1.InPlace }, `method "InPlace" is unknown`},
		"no patches":   {func(o *v1alpha1.NodeOrder) { o.Spec.Patch = nil }, `patches "" is unknown`},
		"open pattern": {func(o *v1alpha1.NodeOrder) { o.Spec.Patch.Hold = []string{"a;reboot"} }, "must begin with ^"},
		"reported":     {func(o *v1alpha1.NodeOrder) { o.Status.Report = "{}" }, "has a report already"},
		"deleted":      {func(o *v1alpha1.NodeOrder) { now := metav1.Now(); o.DeletionTimestamp = &now }, "is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			order := &v1alpha1.NodeOrder{
				TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeOrder"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "kamino", Name: "patch", UID: orderUID},
				Spec: v1alpha1.NodeOrderSpec{
					Holder: v1alpha1.Holder{Name: "p", UID: "u"}, NodeName: "n", Method: v1alpha1.OrderPatch, Token: boot, PodName: "patch", Key: public,
					Patch: &v1alpha1.OrderPatches{Patches: v1alpha1.PatchAll, Hold: patch.DefaultHold()},
				},
			}
			test.change(order)
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.Method != http.MethodGet {
					t.Errorf("the pod sends %s", q.Method)
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(order)
			}))
			t.Cleanup(server.Close)
			n := directory(t, map[string]string{bootIDPath: boot + "\n", "key": string(private), "pod-uid": "pod", "token": "t"})
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			if err := os.WriteFile(filepath.Join(n.Root, "ca.crt"), ca, 0o600); err != nil {
				t.Fatal(err)
			}
			address, port, err := net.SplitHostPort(server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			at := func(file string) string { return filepath.Join(n.Root, file) }
			r := Run{
				Node: *n, Order: "kamino/patch", OrderUID: orderUID, Files: host.OrderFiles{Key: at("key"), PodUID: at("pod-uid")},
				Access: host.Access{Host: address, Port: port, TokenFile: at("token"), CAFile: at("ca.crt")},
			}
			var refused *Refused
			if err := r.Do(t.Context()); !errors.As(err, &refused) || refused.ExitCode() != 3 || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
		})
	}
}
