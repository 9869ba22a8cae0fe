package trialnode

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/trial"
)

// serves lets a node's kubelet listen on a port of this machine; 0 for a port on which nothing listens. A real API server asks the kubelet.
func (w *testEnv) serves(name string, port int) {
	w.Helper()
	node := w.get(name)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port) //nolint:gosec // a port
	if _, err := w.kube.CoreV1().Nodes().UpdateStatus(w.Context(), node, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func portOf(address net.Addr) int {
	_, text, _ := net.SplitHostPort(address.String())
	port, _ := strconv.Atoi(text)
	return port
}

// TestLogsByTheKubeletsPort: a closed port of the kubelet fails a version if the port of the control node is open, and not at the first look.
func TestLogsByTheKubeletsPort(t *testing.T) {
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/containerLogs/") {
			t.Errorf("the API server asks for %s", r.URL)
		}
		_, _ = rw.Write([]byte("x"))
	}))
	t.Cleanup(kubelet.Close)
	open := portOf(kubelet.Listener.Addr())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shut := portOf(listener.Addr())
	_ = listener.Close()
	for name, test := range map[string]struct {
		here, there int
		want        trial.Result
		says        string
	}{
		"both are open":   {open, open, trial.Passed, "; the API server reads their logs"},
		"here it is shut": {shut, open, trial.Failed, "the API server does not reach port " + strconv.Itoa(shut) + " of the kubelet on node t-0"},
		"both are shut":   {shut, shut, trial.Passed, "reads logs neither from this node nor from node w-1"},
		"it is unknown":   {0, open, trial.Passed, "and resolve names"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			w.node("t-0", true)
			w.node("w-1", true)
			w.serves("t-0", test.here)
			w.serves("w-1", test.there)
			w.observeUntil("the first pod", func(trial.Facts) bool { return w.part(onDisk) != nil })
			w.becomes(onDisk, ended(0, "{}"))
			w.observeUntil("the peer", func(trial.Facts) bool { return w.part(peer) != nil })
			w.becomes(peer, running("10.0.0.1"))
			w.observeUntil("the measuring pods", func(trial.Facts) bool { return w.part(measuring) != nil && w.part(control) != nil })
			w.becomes(measuring, reported("sha256:a"))
			w.becomes(control, reported(""))
			first := w.observeUntil("the report", func(f trial.Facts) bool { return f.Digest != "" }).Network
			if test.want == trial.Failed && first.Result != trial.Pending {
				t.Errorf("the first look says %+v", first)
			}
			last := w.at(logPatience+time.Second).observeUntil("a result", func(f trial.Facts) bool { return f.Network.Result != trial.Pending }).Network
			if last.Result != test.want || !strings.Contains(last.Says, test.says) {
				t.Errorf("%+v, want %s: %s", last, test.want, test.says)
			}
		})
	}
}
