package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/crds"
	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestTheControllerServesMetrics runs the real controller against a real API server: one Prototype is refused, and another
// succeeded before. /metrics must show both.
func TestTheControllerServesMetrics(t *testing.T) {
	connection := startCluster(t)
	world := memory.New(memory.Config{})
	pool := world.AddPool(memory.PoolSpec{Name: "pool1", Image: "memory:///pools/pool1/versions/2026.03.01"})
	instance := world.AddInstance(pool, "0")
	world.AddVersion(pool, memory.VersionSpec{Version: "2026.03.01"})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultNamespace}}
	if _, err := connection.Kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	past := writePrototype(t, connection, "2026.03.01", instance)
	past.Status.Phase = v1alpha1.PhaseSucceeded
	if err := connection.Client.Status().Update(t.Context(), past); err != nil {
		t.Fatal(err)
	}
	writeNode(t, connection, "worker", instance)
	address := freeAddress(t)
	f := NewFactory()
	var log strings.Builder // one logger writes, and the test reads after the end
	f.Err = io.MultiWriter(t.Output(), &log)
	connected := make(chan struct{}) // logging is set up by then; it is the whole process's
	f.Connect = func(*Options) (*cluster.Connection, error) {
		close(connected)
		return connection, nil
	}
	f.Cloud = func(_ context.Context, o *Options) (cloud.Provider, error) {
		o.Clouds.OnRequest("azure", "read", http.StatusOK, false) // as the provider for Azure would
		return world.Provider, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		ended <- f.Run(ctx, []string{"controller", "--image", "kamino:test", "--metrics-bind-address", address, "--health-probe-bind-address", "0"})
	}()
	<-connected
	writePrototype(t, connection, imageversion.Of(time.Now()), instance)

	awaitSamples(t, "http://"+address+"/metrics",
		`kamino_captures_total{pool="pool1",reason="NodeNotFound",result="refused"} 1`,
		`kamino_captures_total{pool="pool1",reason="",result="succeeded"} 0`, // it was an earlier process's
		`kamino_pool_image_info{pool="pool1",version="2026.03.01"} 1`,
		`kamino_pool_image_age_seconds{pool="pool1"} `,
		`kamino_cloud_calls_total{op="Instance",result="OK"} `,
		`kamino_cloud_call_duration_seconds_bucket{op="Instance",le="+Inf"} `,
		`kamino_cloud_requests_total{cloud="azure",operation="read",status="2xx"} 1`,
		`kamino_passes_total `,
		`kamino_donor_out_of_service_seconds_count{pool="pool1"} 0`,
		`kamino_capture_step_duration_seconds_count{phase="Draining"} 0`,
		`kamino_pool_nodes{pool="pool1",version="2026.03.01"} 1`,
		`kamino_node_join_seconds_count{built_from="prototype"} 1`,
		`kamino_node_join_seconds_count{built_from="generic"} 0`,
	)
	worker, err := connection.Kube.CoreV1().Nodes().Get(t.Context(), "worker", metav1.GetOptions{})
	if err != nil || worker.Labels[v1alpha1.VersionLabel] != "2026.03.01" {
		t.Errorf("the node's label is %q (%v)", worker.Labels[v1alpha1.VersionLabel], err)
	}
	cancel()
	if code := <-ended; code != ExitDone {
		t.Errorf("the controller ended with %d", code)
	}
	if !strings.Contains(log.String(), "reason=NodeNotFound") || strings.Contains(log.String(), "Starting ") {
		t.Errorf("the log at its default level lacks the failure, or repeats the framework:\n%s", &log)
	}
}

// startCluster is a real API server with the product's kinds.
func startCluster(t *testing.T) *cluster.Connection {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("the test needs a real API server, and KUBEBUILDER_ASSETS is not set: run `make test`")
	}
	environment := apitest.Environment()
	for _, name := range []string{"kamino.dev_prototypes.yaml", "kamino.dev_nodeorders.yaml"} {
		text, err := crds.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, definition); err != nil {
			t.Fatal(err)
		}
		environment.CRDs = append(environment.CRDs, definition)
	}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error("stop the API server:", err)
		}
	})
	connection, err := cluster.New(config, "kamino/test")
	if err != nil {
		t.Fatal(err)
	}
	return connection
}

// writePrototype creates a Prototype of a missing node.
func writePrototype(t *testing.T, connection *cluster.Connection, version string, instance cloud.InstanceID) *v1alpha1.Prototype {
	t.Helper()
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "pool1-" + version}}
	p.Spec = v1alpha1.PrototypeSpec{
		Pool: "pool1", Version: version, Settings: v1alpha1.Settings{}.Defaulted(),
		Donor: v1alpha1.Donor{NodeName: "node-0", ProviderID: string(instance)},
	}
	if err := connection.Client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// writeNode registers a Ready node.
func writeNode(t *testing.T, connection *cluster.Connection, name string, instance cloud.InstanceID) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: string(instance)}}
	node, err := connection.Kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now := metav1.NewTime(time.Now().Add(time.Second)) // its time has no fractions, and must not be before the instance's
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: now}}
	if _, err := connection.Kube.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// freeAddress is an address that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// awaitSamples scrapes until all samples appear, as prefixes of lines.
func awaitSamples(t *testing.T, url string, samples ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		text, err := get(ctx, url)
		var missing []string
		for _, sample := range samples {
			if !strings.Contains("\n"+text, "\n"+sample) {
				missing = append(missing, sample)
			}
		}
		if err == nil && len(missing) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s never printed %q (%v); its last words:\n%s", url, missing, err, text)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", response.Status)
	}
	return string(body), err
}
