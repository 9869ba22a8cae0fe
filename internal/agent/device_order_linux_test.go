package agent

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/exit"
)

// orderServer is an API server with one NodeOrder, whose status can be written.
type orderServer struct {
	mu    sync.Mutex
	order v1alpha1.NodeOrder
}

func (s *orderServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/status") {
		body, _ := io.ReadAll(r.Body)
		var patch struct{ Status v1alpha1.NodeOrderStatus }
		if json.Unmarshal(body, &patch) == nil {
			s.order.Status = patch.Status
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&s.order)
}

// TestOrderOfACopy: the program carries out the order of a copy only for this snapshot and this device, and signs why there is no proof.
func TestOrderOfACopy(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	image := filepath.Join(dir, "disk.raw")
	put(t, dir, "disk.raw", make([]byte, 8<<20))
	table := exec.CommandContext(t.Context(), "sfdisk", "--quiet", image)
	table.Stdin = strings.NewReader("label: gpt\nsize=1M\n")
	if out, err := table.CombinedOutput(); err != nil {
		unable(t, "sfdisk: %v %s", err, out)
	}
	before, err := os.ReadFile(image)
	must(t, err)
	device := attach(t, image)
	private, public, err := v1alpha1.NewOrderKey()
	must(t, err)
	s := &orderServer{}
	web := httptest.NewTLSServer(s)
	defer web.Close()
	address, err := url.Parse(web.URL)
	must(t, err)
	t.Setenv("KUBERNETES_SERVICE_HOST", address.Hostname())
	t.Setenv("KUBERNETES_SERVICE_PORT", address.Port())
	for name, content := range map[string][]byte{
		"key": private, "pod-uid": []byte("pod"), "token": []byte("t"), "ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: web.Certificate().Raw}),
	} {
		put(t, dir, name, content)
	}
	args := []string{
		"generalize", "--device", device, "--machine-root", t.TempDir(), "--serial", "vol-1", "--snapshot", "snap-1", "--profile", "static", "--prototype", "p", "--uid", "u", "--order", "ns/o", "--order-uid", "ou",
		"--key-file", filepath.Join(dir, "key"), "--pod-uid-file", filepath.Join(dir, "pod-uid"), "--token-file", filepath.Join(dir,
			"token"), "--ca-file", filepath.Join(dir, "ca.crt"),
	}
	record := v1alpha1.OrderRecord{UID: "ou", Key: public, Pod: "pod", Copy: &v1alpha1.CopiedDisk{Snapshot: "snap-1", Device: "vol-1"}}
	for _, c := range []struct {
		method v1alpha1.OrderMethod
		token  string
		says   string
		report bool
	}{
		{v1alpha1.OrderCopy, "snap-2@vol-1", "is for \"snap-2@vol-1\", and this run is for snap-1@vol-1", false},
		{v1alpha1.InPlace, "snap-1@vol-1", "has the method InPlace, and this run has Copy", false},
		{v1alpha1.OrderCopy, "snap-1@vol-1", "shows no serial number, and the copy is vol-1", true},
	} {
		s.order = v1alpha1.NodeOrder{Spec: v1alpha1.NodeOrderSpec{
			Holder: v1alpha1.Holder{Name: "p", UID: "u"}, NodeName: "worker-7f3a", Method: c.method, Token: c.token, Key: public,
			Generalize: v1alpha1.GeneralizeSettings{Profile: v1alpha1.ProfileStatic},
		}}
		s.order.APIVersion, s.order.Kind, s.order.Namespace, s.order.Name, s.order.UID = v1alpha1.GroupVersion.String(), "NodeOrder", "ns", "o", "ou"
		if out, code := program(t, args...); code != exit.Refused || !strings.Contains(out, c.says) {
			t.Errorf("%s %s: exit code %d, want %q\n%s", c.method, c.token, code, c.says, out)
		} else if strings.Contains(out, "may still reboot") != c.report { // a machine without systemd
			t.Errorf("%s %s: reboots are refused before the order is checked, or not at all\n%s", c.method, c.token, out)
		}
		report, err := v1alpha1.ReportOf(&s.order, record)
		if err != nil || (report != nil) != c.report {
			t.Fatalf("%s %s: report %+v, %v", c.method, c.token, report, err)
		}
		if c.report && !(v1alpha1.Record{Order: &record}).Answers(report.Unproven, types.UID("u")) {
			t.Errorf("the report is about another disk: %+v", report.Unproven)
		}
	}
	if after, _ := os.ReadFile(image); !bytes.Equal(before, after) {
		t.Error("the disk has changed")
	}
}
