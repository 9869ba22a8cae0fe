package policy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/apitest"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
	controller "github.com/kamino-dev/kamino/internal/controller/policy"
	"github.com/kamino-dev/kamino/internal/policy"
)

// The size that the controller is made for, and the variables that order the measurement: it takes minutes and
// gigabytes, so that it is not a part of every run.
const (
	scalePools   = 100
	scaleNodes   = 15_000
	scaleOrder   = "KAMINO_SCALE"
	scaleCluster = "KAMINO_SCALE_KUBECONFIG"
)

// measured is what the child, which is nothing but the controller, tells.
type measured struct {
	First     time.Duration `json:"first"`     // from the start of the manager to the first decision over all pools
	Judging   time.Duration `json:"judging"`   // of that, the pass itself
	List      time.Duration `json:"list"`      // one LIST of the nodes, for comparison
	PeakMiB   int           `json:"peakMiB"`   // highest resident size up to then
	SteadyMiB int           `json:"steadyMiB"` // after a minute of heartbeats, without the pages of the program file
}

// TestScale measures the controller by itself, in a process of its own, on a cluster of 15,000 nodes.
func TestScale(t *testing.T) {
	if os.Getenv(scaleOrder) == "" {
		t.Skipf("takes minutes and gigabytes: set %s to measure", scaleOrder)
	}
	api := apitest.Server(t)
	kube := fill(t, api)
	beating, stop := context.WithCancel(t.Context())
	defer stop()
	go beat(beating, kube)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestScaleChild$", "-test.v") //nolint:gosec // it is this binary
	child.Env = append(os.Environ(), scaleCluster+"="+kubeconfig(t, api))
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var m measured
	for line := range strings.Lines(string(out)) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), "measured "); found {
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("first decision %s (judging %s), one LIST %s, peak %d MiB, steady %d MiB", m.First, m.Judging, m.List, m.PeakMiB, m.SteadyMiB)
	if m.List == 0 || m.First > 2*m.List {
		t.Errorf("the first decision took %s, one LIST takes %s", m.First, m.List)
	}
	if m.PeakMiB > 300 || m.SteadyMiB > 150 {
		t.Errorf("peak %d MiB, steady %d MiB", m.PeakMiB, m.SteadyMiB)
	}
}

// fill makes the nodes, as large as real ones.
func fill(t *testing.T, api *rest.Config) *kubernetes.Clientset {
	fast := rest.CopyConfig(api)
	fast.QPS, fast.Burst = -1, 0
	fast.ContentType = "application/vnd.kubernetes.protobuf"
	kube, err := kubernetes.NewForConfig(fast)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var wait sync.WaitGroup
	for worker := range 16 {
		wait.Go(func() {
			for i := worker; i < scaleNodes; i += 16 {
				node := scaleNode(i)
				made, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
				if err != nil {
					t.Errorf("node %d: %v", i, err)
					return
				}
				made.Status = node.Status
				if _, err := kube.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
					t.Errorf("node %d: %v", i, err)
					return
				}
			}
		})
	}
	wait.Wait()
	t.Logf("%d nodes made in %s", scaleNodes, time.Since(began))
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(api, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	all := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.PrototypePolicySpec{DryRun: true}}
	if err := c.Create(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	return kube
}

// beat has one node after the other send a heartbeat, as many as 15,000 kubelets do that send one in five minutes.
func beat(ctx context.Context, kube kubernetes.Interface) {
	ticker := time.NewTicker(5 * time.Minute / scaleNodes)
	defer ticker.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		if node, err := kube.CoreV1().Nodes().Get(ctx, scaleNode(i%scaleNodes).Name, metav1.GetOptions{}); err == nil {
			for c := range node.Status.Conditions {
				node.Status.Conditions[c].LastHeartbeatTime = metav1.Now()
			}
			_, _ = kube.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func scaleNode(i int) *corev1.Node {
	name := fmt.Sprintf("k8s-pool%02d-12345678-vmss%06d", i%scalePools, i/scalePools)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/controller-managed-attach-detach": "true",
		v1alpha1.KuredRebootNeededAnnotation: time.Now().Add(-48 * time.Hour).UTC().Format(time.RFC3339),
	}, Labels: map[string]string{
		corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", corev1.LabelHostname: name, "agentpool": fmt.Sprintf("pool%02d", i%scalePools),
		corev1.LabelInstanceTypeStable: "Standard_D8s_v5", corev1.LabelTopologyRegion: "westeurope", corev1.LabelTopologyZone: fmt.Sprint(i % 3),
		"kubernetes.azure.com/cluster": "production-cluster-one", "kubernetes.azure.com/role": "agent", "storageprofile": "managed",
		"storagetier": "Premium_LRS", "node.kubernetes.io/role": "agent",
	}}}
	node.Spec.ProviderID = fmt.Sprintf("memory:///pools/pool%02d/instances/%d", i%scalePools, i/scalePools)
	node.Spec.PodCIDR = fmt.Sprintf("10.%d.%d.0/24", i/250, i%250)
	now := metav1.Now()
	for _, kind := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "KernelDeadlock", corev1.NodeReady} {
		status := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, Reason: "KubeletHas" + string(kind), Message: "kubelet has a sentence to say about this, of some length",
			LastHeartbeatTime: now, LastTransitionTime: metav1.NewTime(now.Add(-24 * time.Hour)),
		})
	}
	amounts := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{"cpu", "memory", "pods", "ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi", "attachable-volumes-azure-disk"} {
		amounts[name] = resource.MustParse(fmt.Sprintf("%dKi", 8_000_000+i%7))
	}
	node.Status.Capacity, node.Status.Allocatable = amounts, amounts.DeepCopy()
	node.Status.NodeInfo = corev1.NodeSystemInfo{
		MachineID: fmt.Sprintf("%032d", i), SystemUUID: fmt.Sprintf("%036d", i), BootID: fmt.Sprintf("%036d", i), KernelVersion: "5.15.0-1089-azure",
		OSImage: "Ubuntu 22.04.5 LTS", ContainerRuntimeVersion: "containerd://1.7.23", KubeletVersion: "v1.31.4", OperatingSystem: "linux", Architecture: "amd64",
	}
	for n := range 25 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{SizeBytes: int64(n), Names: []string{
			fmt.Sprintf("registry.example.test/team-%d/service-%d@sha256:%064d", n%5, n, n), fmt.Sprintf("registry.example.test/team-%d/service-%d:v1.2.%d", n%5, n, n),
		}})
	}
	return node
}

func kubeconfig(t *testing.T, api *rest.Config) string {
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: api.Host, CertificateAuthorityData: api.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: api.CertData, ClientKeyData: api.KeyData}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	path := t.TempDir() + "/kubeconfig"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestScaleChild is the controller in a process of its own.
func TestScaleChild(t *testing.T) {
	path := os.Getenv(scaleCluster)
	if path == "" {
		t.Skip("is run by TestScale")
	}
	api, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	api.QPS, api.Burst = 50, 100
	m := childMeasures(t, api)
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("measured %s\n", text)
}

func childMeasures(t *testing.T, api *rest.Config) (m measured) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := memory.New(memory.Config{})
	for i := range scalePools {
		c.AddPool(memory.PoolSpec{Name: fmt.Sprintf("pool%02d", i), Capacity: scaleNodes / scalePools})
	}
	manager, err := ctrl.NewManager(api, ctrl.Options{
		Scheme: scheme, Cache: controller.CacheOptions(cache.Options{}), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		t.Fatal(err)
	}
	live, err := client.New(api, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	nodes := policy.NewNodes(c.PoolOf)
	decider := &policy.Decider{Read: manager.GetCache(), Client: live, Cloud: c, Nodes: nodes, Looks: policy.NewLooks(c, time.Now)}
	decided := make(chan time.Duration, 100)
	began := time.Now()
	pass := func(ctx context.Context) (time.Duration, error) {
		start := time.Now()
		after, err := decider.Pass(ctx)
		decided <- time.Since(start)
		return after, err
	}
	if err := (&controller.Reconciler{Pass: pass, Nodes: nodes}).SetupWithManager(manager); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	m.Judging = <-decided
	m.First = time.Since(began)
	if got := len(nodes.Pools()); got != scalePools {
		t.Fatalf("the first decision saw %d pools", got)
	}
	m.PeakMiB = statusMiB(t, "VmHWM")
	time.Sleep(time.Minute)
	m.SteadyMiB = statusMiB(t, "RssAnon")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for range 3 { // a busy machine makes a difference
		m.List = max(m.List, list(t, api))
	}
	return m
}

// list is how long one LIST of all nodes takes, as a client does it that wants them whole.
func list(t *testing.T, api *rest.Config) time.Duration {
	binary := rest.CopyConfig(api)
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	kube, err := kubernetes.NewForConfig(binary)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	all, err := kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != scaleNodes {
		t.Fatalf("%d nodes, %v", len(all.Items), err)
	}
	return time.Since(start)
}

// statusMiB reads one of this process's sizes, which Linux gives in KiB.
func statusMiB(t *testing.T, field string) int {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == field+":" {
			kib, err := strconv.Atoi(words[1])
			if err != nil {
				t.Fatal(err)
			}
			return kib / 1024
		}
	}
	t.Fatalf("no %s", field)
	return 0
}
