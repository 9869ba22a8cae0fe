package host

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/contents"
	"github.com/kamino-dev/kamino/internal/rules"
)

const (
	boot = "6d4f8b6e-0000-4000-8000-000000000001"
	uid  = types.UID("c0ffee00-0000-4000-8000-000000000002")
	name = "pool1-2026.11.21"

	orderName = "generalize-pool1-2026-11-21"
	orderUID  = types.UID("0bde4000-0000-4000-8000-000000000003")
	podUID    = "70d00000-0000-4000-8000-000000000004"
)

// server is an API server with one order. fail lists the error codes of the next requests by method; code 0 closes the
// connection.
type server struct {
	mu       sync.Mutex
	order    *v1alpha1.NodeOrder
	fail     map[string][]int
	requests []string
	// mute applies a patch without an answer. gone ignores all requests after a proof.
	mute, gone bool
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method)
	if codes := s.fail[r.Method]; len(codes) > 0 {
		s.fail[r.Method] = codes[1:]
		if codes[0] == 0 {
			panic(http.ErrAbortHandler)
		}
		status(w, codes[0])
		return
	}
	path := "/apis/kamino.dev/v1alpha1/namespaces/kamino-system/nodeorders/" + orderName
	if r.Method == http.MethodPatch {
		path += "/status" // the account may write only the status
	}
	if r.URL.Path != path || s.order == nil {
		status(w, http.StatusNotFound)
		return
	}
	if r.Method == http.MethodPatch {
		if s.gone && s.order.Status.Report != "" {
			panic(http.ErrAbortHandler)
		}
		var patch struct {
			Metadata struct{ UID types.UID }
			Status   v1alpha1.NodeOrderStatus
		}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &patch); err != nil || r.Header.Get("Content-Type") != string(types.MergePatchType) {
			status(w, http.StatusBadRequest)
			return
		}
		if patch.Metadata.UID != s.order.UID {
			status(w, http.StatusUnprocessableEntity)
			return
		}
		s.order.Status = patch.Status
		if s.mute {
			panic(http.ErrAbortHandler)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.order)
}

func status(w http.ResponseWriter, code int) {
	reason := map[int]metav1.StatusReason{401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound, 503: metav1.StatusReasonServiceUnavailable}[code]
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: http.StatusText(code)})
}

// ordered returns an order and the values of its pod.
func ordered(t *testing.T) (*v1alpha1.NodeOrder, Order) {
	t.Helper()
	private, public, err := v1alpha1.NewOrderKey()
	if err != nil {
		t.Fatal(err)
	}
	files := OrderFiles{Key: filepath.Join(t.TempDir(), "key"), PodUID: filepath.Join(t.TempDir(), "pod-uid")}
	for file, content := range map[string][]byte{files.Key: private, files.PodUID: []byte(podUID)} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mine, err := NewOrder("kamino-system/"+orderName, orderUID, files)
	if err != nil {
		t.Fatal(err)
	}
	return &v1alpha1.NodeOrder{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeOrder"},
		ObjectMeta: metav1.ObjectMeta{Namespace: mine.Namespace, Name: mine.Name, UID: orderUID},
		Spec: v1alpha1.NodeOrderSpec{
			Holder: v1alpha1.Holder{Name: name, UID: uid}, NodeName: "vmss000004", Token: boot, PodName: orderName,
			Generalize: v1alpha1.GeneralizeSettings{Profile: v1alpha1.ProfileStatic}, Key: public,
		},
	}, mine
}

// machine is a host's tree with a systemd on a socket.
type machine struct {
	*Host
	root    string
	systemd *systemdStub
	server  *server
	log     *bytes.Buffer
	waited  time.Duration
}

var units = []string{"kubelet.service", "containerd.service", "cron.service", "fstrim.timer", "systemd-journald.service",
	"systemd-journald.socket", "systemd-journald-dev-log.socket", "walinuxagent.service", "ssh.service", "systemd-networkd.service"}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{root: t.TempDir(), log: &bytes.Buffer{}, server: &server{fail: map[string][]int{}}}
	order, mine := ordered(t)
	m.server.order = order
	for file, content := range map[string]string{
		bootIDPath: boot + "\n", hostnamePath: "vmss000004\n", triggerPath: "",
		"etc/machine-id": "0123456789abcdef0123456789abcdef\n", "etc/hostname": "vmss000004\n", "etc/hosts": "127.0.0.1 localhost\n10.0.0.4 vmss000004\n",
		"etc/ssh/ssh_host_ed25519_key": "key", "var/log/syslog": "lines", "var/lib/kubelet/pods/uid/etc-hosts": "x",
		"etc/kubernetes/certs/client.key": "the cluster's", "var/lib/dpkg/status": "Package: curl\nStatus: install ok installed\nVersion: 8.5.0-2\n",
	} {
		p := filepath.Join(m.root, file)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m.systemd = startSystemd(t, m.root, units...)
	web := httptest.NewUnstartedServer(m.server)
	web.Config.ErrorLog = nil
	web.StartTLS()
	t.Cleanup(web.Close)
	api, err := newAPI(&rest.Config{Host: web.URL, BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	profile, err := rules.Load(v1alpha1.ProfileStatic)
	if err != nil {
		t.Fatal(err)
	}
	m.Host = &Host{
		Root: m.root, Order: mine, API: api, Log: m.log,
		Runner: &generalize.Runner{
			Profile: profile, Tool: "test", Subject: generalize.RunSubject{Prototype: name, UID: uid, BootID: boot},
			Now: func() time.Time { return time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC) },
		},
		Wait: func(ctx context.Context, d time.Duration) error { m.waited += d; return ctx.Err() },
	}
	return m
}

func (m *machine) file(t *testing.T, p string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(m.root, p))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func (m *machine) proof(t *testing.T) *v1alpha1.Proof {
	t.Helper()
	if r := m.report(t); r != nil {
		return r.Proof
	}
	return nil
}

// report returns the report that the engine accepts; nil without a report.
func (m *machine) report(t *testing.T) *v1alpha1.Report {
	t.Helper()
	o := m.server.order
	report, err := v1alpha1.ReportOf(o, v1alpha1.OrderRecord{UID: o.UID, Key: o.Spec.Key, Pod: podUID})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// untouched requires that nothing on the host was stopped, removed or powered off.
func (m *machine) untouched(t *testing.T) {
	t.Helper()
	if got := m.systemd.requested(); len(got) > 0 {
		t.Errorf("systemd got requests %v", got)
	}
	if m.file(t, "etc/machine-id") == "" || m.file(t, "var/log/syslog") != "lines" {
		t.Error("files were changed")
	}
	if got := m.file(t, triggerPath); got != "" {
		t.Errorf("the kernel got %q", got)
	}
	if slices.Contains(m.server.requests, http.MethodPatch) {
		t.Error("something was reported")
	}
}

func TestRun(t *testing.T) {
	m := newMachine(t)
	if err := m.Run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, m.log)
	}
	proof := m.proof(t)
	if !proof.Holds(uid, boot) || proof.Holds(uid, "another boot") {
		t.Errorf("the proof %+v does not hold", proof)
	}
	if s := proof.Search; s == nil || s.Files == 0 || s.Identities == 0 || s.Findings != 0 || proof.Changed == 0 || proof.Changed >= proof.Rules {
		t.Errorf("the proof does not say what was verified: %+v, %+v", proof, proof.Search)
	}
	if c, err := contents.Decode(m.report(t).Contents); err != nil || len(c.Packages) != 1 || c.Packages[0].Name != "curl" || c.UnknownFiles == 0 || len(c.Unknown) == 0 {
		t.Errorf("the contents are %+v, %v", c, err)
	}
	content := m.file(t, strings.TrimPrefix(generalize.ManifestPath, "/"))
	var manifest generalize.Manifest
	if err := json.Unmarshal([]byte(content), &manifest); err != nil {
		t.Fatal(err)
	}
	if digest, err := manifest.Digest(); err != nil || digest != proof.ManifestDigest {
		t.Errorf("the manifest on the disk has the digest %s, the proof says %s (%v)", digest, proof.ManifestDigest, err)
	}
	if got := m.file(t, "etc/machine-id"); got != "" {
		t.Errorf("machine-id holds %q", got)
	}
	if got := m.file(t, "etc/hosts"); got != "127.0.0.1 localhost\n" {
		t.Errorf("hosts holds %q", got)
	}
	if got := m.file(t, "etc/kubernetes/certs/client.key"); got != "the cluster's" {
		t.Errorf("the cluster's credential is %q", got)
	}
	want := []string{"StopUnit fstrim.timer", "StopUnit kubelet.service", "StopUnit containerd.service", "StopUnit walinuxagent.service",
		"StopUnit cron.service", "StopUnit systemd-journald-dev-log.socket", "StopUnit systemd-journald.socket", "StopUnit systemd-journald.service"}
	if diff := cmp.Diff(want, m.systemd.requested()); diff != "" {
		t.Errorf("systemd got (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ssh.service", "systemd-networkd.service"}, m.systemd.running()); diff != "" {
		t.Errorf("left running (-want +got):\n%s", diff)
	}
	if got := m.file(t, triggerPath); got != "suo" {
		t.Errorf("the kernel got %q, want suo", got)
	}
}

// TestRefusals tests everything that must prevent a change of the host.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		is, says string
		arrange  func(m *machine)
		code     int
	}{
		{"another boot", "restarted in between", func(m *machine) { _ = os.WriteFile(filepath.Join(m.root, bootIDPath), []byte("another\n"), 0o644) }, 3},
		{"no boot ID", "boot ID cannot be read", func(m *machine) { _ = os.Remove(filepath.Join(m.root, bootIDPath)) }, 3},
		{"no order", "needs the name and UID", func(m *machine) { m.Runner.Subject = generalize.RunSubject{} }, 3},
		{"another order", "recreated the order", func(m *machine) { m.server.order.UID = "another" }, 3},
		{"no order", "there is no order kamino-system/" + orderName, func(m *machine) { m.server.order = nil }, 3},
		{"being deleted", "being deleted", func(m *machine) { now := metav1.Now(); m.server.order.DeletionTimestamp = &now }, 3},
		{"reported already", "has a report already", func(m *machine) { m.server.order.Status.Report = `{` }, 3},
		{"ordered for another boot", "and this run is for", func(m *machine) { m.server.order.Spec.Token = "another" }, 3},
		{"ordered for another disk", "the method OnCopy", func(m *machine) { m.server.order.Spec.Method = "OnCopy" }, 3},
		{"ordered for another Prototype", "not for pool1-2026.11.21", func(m *machine) { m.server.order.Spec.Holder.Name = "other" }, 3},
		{"ordered for another UID", "not for pool1-2026.11.21", func(m *machine) { m.server.order.Spec.Holder.UID = "other" }, 3},
		{"ordered by another profile", "not for static", func(m *machine) { m.server.order.Spec.Generalize.Profile = v1alpha1.ProfileBootstrap }, 3},
		{"ordered by other rules", "with the rules \"sha256:0\"", func(m *machine) { m.server.order.Spec.RulesDigest = "sha256:0" }, 3},
		{"another key", "would reject the proof", func(m *machine) { m.server.order.Spec.Key = "another" }, 3},
		{"control plane", "rule control-plane", func(m *machine) {
			_ = os.MkdirAll(filepath.Join(m.root, "etc/kubernetes/pki"), 0o755)
			_ = os.WriteFile(filepath.Join(m.root, "etc/kubernetes/pki/ca.key"), nil, 0o600)
		}, 3},
		{"a profile that the host could not join after", "is not for a running host", func(m *machine) {
			m.Runner.Profile, _ = rules.Load(v1alpha1.ProfileBootstrap)
			m.server.order.Spec.Generalize.Profile = v1alpha1.ProfileBootstrap
		}, 3},
		{"a host that returns, whose clones have the same firmware ID", "Set pioneer.quietNodes to false", func(m *machine) { m.Runner.Quiet = true }, 3},
		{"no systemd", "systemd of the host cannot be reached", func(m *machine) { _ = os.Remove(filepath.Join(m.root, "run/systemd/private")) }, 3},
		{"begun already", "has begun in this boot", func(m *machine) { _ = os.WriteFile(filepath.Join(m.root, begunPath), nil, 0o600) }, 3},
		{"forbidden", "kamino-generalize may not", func(m *machine) { m.server.fail["GET"] = []int{403} }, 5},
		{"token not taken", "kamino-generalize may not", func(m *machine) { m.server.fail["GET"] = []int{401} }, 5},
		{"API server away", "does not answer", func(m *machine) { m.server.fail["GET"] = slices.Repeat([]int{503, 0}, 20) }, 6},
	} {
		t.Run(c.is, func(t *testing.T) {
			m := newMachine(t)
			c.arrange(m)
			err := m.Run(t.Context())
			var coded interface{ ExitCode() int }
			if !errors.As(err, &coded) || coded.ExitCode() != c.code || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want exit code %d and a sentence with %q", err, c.code, c.says)
			}
			m.untouched(t)
		})
	}
}

// TestHostKeepsWhatItNeeds: the host keeps its state for its return.
func TestHostKeepsWhatItNeeds(t *testing.T) {
	const handler = "var/lib/waagent/Microsoft.Azure.Extensions.CustomScript-2.1.10/mrseq"
	m := newMachine(t)
	for file, content := range map[string]string{
		handler: "3", "sys/class/dmi/id/product_uuid": "4c4c4544-0042-3510-8052-b4c04f4d3132\n",
		strings.TrimPrefix(generalize.ReturningPath, "/"): "of an earlier run",
	} {
		p := filepath.Join(m.root, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, m.log)
	}
	if !m.proof(t).Holds(uid, boot) {
		t.Errorf("the proof %+v does not hold", m.proof(t))
	}
	if content, err := os.ReadFile(filepath.Join(m.root, generalize.ReturningPath)); err != nil || !strings.Contains(string(content), handler) {
		t.Errorf("what a donor needs is not kept: %q, %v", content, err)
	}
}

func TestNetworkOutages(t *testing.T) {
	m := newMachine(t)
	m.server.fail = map[string][]int{"GET": {503, 0}, "PATCH": {0, 503, 429, 409}}
	if err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !m.proof(t).Holds(uid, boot) || m.file(t, triggerPath) != "suo" {
		t.Error("the run did not end as one without trouble")
	}
}

// TestFailsClosed tests errors after the first change of the host: there is no proof and no power-off, and the kubelet
// starts so that the host can report.
func TestFailsClosed(t *testing.T) {
	for _, c := range []struct {
		is, says string
		arrange  func(m *machine)
		code     int
	}{
		{"unit comes back", "do not stay stopped: cron.service", func(m *machine) { m.systemd.stubborn["cron.service"] = true }, 1},
		{"not reported", "does not answer", func(m *machine) { m.server.fail["PATCH"] = []int{503, 503, 503, 503, 503, 503, 503, 503} }, 6},
		{"not allowed to report", "may not", func(m *machine) { m.server.fail["PATCH"] = []int{403} }, 5},
		{"order made again meanwhile", "report on order", func(m *machine) { m.server.fail["PATCH"] = []int{422} }, 1},
		{"finding that appears after the check", "private key (PEM) in /etc/cron.key", func(m *machine) {
			m.systemd.stops = map[string]func(){"cron.service": func() {
				_ = os.WriteFile(filepath.Join(m.root, "etc/cron.key"), []byte(pemKey(t)), 0o600)
			}}
		}, 4},
	} {
		t.Run(c.is, func(t *testing.T) {
			m := newMachine(t)
			c.arrange(m)
			err := m.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want a sentence with %q", err, c.says)
			}
			code := 1
			var coded interface{ ExitCode() int }
			if errors.As(err, &coded) {
				code = coded.ExitCode()
			}
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if m.proof(t) != nil {
				t.Error("there is a proof")
			}
			if r := m.report(t); r == nil || !r.Unproven.Speaks(uid, boot) || !strings.Contains(r.Unproven.Message, c.says) {
				t.Errorf("the report is %+v, want a sentence with %q", r, c.says)
			}
			if got := m.file(t, triggerPath); got != "" {
				t.Errorf("the kernel got %q", got)
			}
			if running := m.systemd.running(); !slices.Contains(running, "kubelet.service") || !slices.Contains(running, "containerd.service") {
				t.Errorf("kubelet and runtime were not started again: %v", running)
			}
			// The pod must not run again in the same boot.
			if err := m.Run(t.Context()); err == nil {
				t.Error("a second run in the same boot was not refused")
			}
		})
	}
}

// TestUncertainProof loses every response to a successful patch. The run withdraws the proof. If this fails,
// nothing that changes the disk may start.
func TestUncertainProof(t *testing.T) {
	for name, gone := range map[string]bool{"taken back": false, "cannot be taken back": true} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.server.mute, m.server.gone = true, gone
			if err := m.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "does not answer") {
				t.Fatalf("got %v", err)
			}
			if standing := m.proof(t) != nil; standing != gone {
				t.Errorf("a proof stands: %t", standing)
			}
			if slices.Contains(m.systemd.running(), "kubelet.service") && m.proof(t) != nil {
				t.Error("the kubelet runs on a disk that is proven")
			}
		})
	}
}

func TestUnitThatRefusesToStop(t *testing.T) {
	m := newMachine(t)
	m.systemd.active["auditd.service"] = true
	m.systemd.refuses["auditd.service"] = true
	if err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(m.systemd.requested(), "KillUnit auditd.service") {
		t.Errorf("systemd got %v", m.systemd.requested())
	}
}

// TestServicesWithAWatchdog are stopped: systemd would restart a frozen process. systemd's own daemons go on.
func TestServicesWithAWatchdog(t *testing.T) {
	m := newMachine(t)
	m.systemd.active[`acme\x2dagent.service`] = true
	m.systemd.watchdog = map[dbus.ObjectPath]bool{
		"/org/freedesktop/systemd1/unit/acme_5cx2dagent_2eservice": true, "/org/freedesktop/systemd1/unit/systemd_2dnetworkd_2eservice": true,
	}
	if err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ssh.service", "systemd-networkd.service"}, m.systemd.running()); diff != "" {
		t.Errorf("left running (-want +got):\n%s", diff)
	}
}

// TestInterrupted cancels the context after the first change of the host: the run continues to the end.
func TestInterrupted(t *testing.T) {
	m := newMachine(t)
	ctx, cancel := context.WithCancel(t.Context())
	m.Log = writerFunc(func(b []byte) (int, error) {
		if bytes.Contains(b, []byte("stopped")) {
			cancel()
		}
		return len(b), nil
	})
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if !m.proof(t).Holds(uid, boot) {
		t.Error("there is no proof")
	}
}

// pemKey returns a new private key.
func pemKey(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// TestSecretPreventsProof has a key that no rule covers: no proof, no power-off, and the stopped units run again.
func TestSecretPreventsProof(t *testing.T) {
	m := newMachine(t)
	if err := os.WriteFile(filepath.Join(m.root, "etc/vpn.key"), []byte(pemKey(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	var unmet *generalize.UnprovenError
	if err := m.Run(t.Context()); !errors.As(err, &unmet) || !strings.Contains(err.Error(), "/etc/vpn.key") {
		t.Errorf("got %v", err)
	}
	if m.proof(t) != nil || m.file(t, triggerPath) != "" {
		t.Error("there is a proof, or the power was cut")
	}
	want := "private key (PEM) in /etc/vpn.key; no rule covers the path"
	if r := m.report(t); r == nil || !r.Unproven.Speaks(uid, boot) || !strings.Contains(r.Unproven.Message, want) {
		t.Errorf("the report is %+v, want %q", r, want)
	}
	if !slices.Contains(m.systemd.requested(), "StartUnit kubelet.service") {
		t.Errorf("systemd got %v", m.systemd.requested())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestOfContainers(t *testing.T) {
	all := []process{
		{pid: 1, name: "systemd"},
		{pid: 10, parent: 1, name: "containerd-shim"}, // a different pod
		{pid: 11, parent: 10, name: "pause"},
		{pid: 12, parent: 10, name: "calico-node"},
		{pid: 13, parent: 12, name: "felix (1)"},
		{pid: 20, parent: 1, name: "containerd-shim"}, // the pod of this process
		{pid: 21, parent: 20, name: "pause"},
		{pid: 22, parent: 20, name: "kamino"},
		{pid: 30, parent: 1, name: "conmon"},
		{pid: 31, parent: 30, name: "containerd-shim"}, // a runtime in a container
		{pid: 32, parent: 31, name: "sh"},
		{pid: 40, parent: 1, name: "sshd"},
		{pid: 41, parent: 41, name: "its own parent"},
	}
	if diff := cmp.Diff([]int{10, 30, 11, 12, 13, 31, 32}, ofContainers(all, 22)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// Without a container, no pod belongs to the process.
	if got := ofContainers(all, 40); !slices.Contains(got, 22) || slices.Contains(got, 40) {
		t.Errorf("got %v", got)
	}
}

func TestParseStat(t *testing.T) {
	p, ok := parseStat("42 (a) b (c)) S 7 " + strings.Repeat("0 ", 17) + "99 0 0")
	if want := (process{pid: 42, parent: 7, name: "a) b (c)", started: "99"}); !ok || p != want {
		t.Errorf("got %+v, %v; want %+v", p, ok, want)
	}
	for _, broken := range []string{"", "42", "x (y) S 1", ") 1 (", "42 (z) Z 7 " + strings.Repeat("0 ", 30)} {
		if p, ok := parseStat(broken); ok {
			t.Errorf("%q was read as %+v", broken, p)
		}
	}
}
