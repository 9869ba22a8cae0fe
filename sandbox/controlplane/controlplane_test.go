package controlplane

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kamino-dev/kamino/sandbox/authority"
)

// A process can have only one control plane in its life. Each start runs the test binary as a separate process, and
// this variable selects the control plane.
const startVariable = "KAMINO_TEST_CONTROL_PLANE"

type order struct {
	Dir, Audit  string
	Port        int
	JoinAddress string
}

type greeting struct {
	Port       int
	Kubeconfig []byte
	Again      string
}

func TestMain(m *testing.M) {
	for _, name := range Programs() {
		if filepath.Base(os.Args[0]) == name {
			Exec(append([]string{name}, os.Args[1:]...))
		}
	}
	if raw := os.Getenv(startVariable); raw != "" {
		if err := serve([]byte(raw)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve runs a control plane until standard input ends.
func serve(raw []byte) error {
	var o order
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	ca, err := authority.Open(filepath.Join(o.Dir, "pki"))
	if err != nil {
		return err
	}
	options := Options{Dir: o.Dir, Audit: o.Audit, Authority: ca, Port: o.Port, JoinAddress: o.JoinAddress}
	c, err := Start(context.Background(), options)
	if err != nil {
		return err
	}
	kubeconfig, err := c.Kubeconfig("admin", "system:masters")
	if err != nil {
		return err
	}
	_, again := Start(context.Background(), options)
	if err := json.NewEncoder(os.Stdout).Encode(greeting{Port: c.Port(), Kubeconfig: kubeconfig, Again: fmt.Sprint(again)}); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	err = c.Stop()
	if events, lost := AuditEvents(); o.Audit != "" && err == nil && lost == nil {
		return os.WriteFile(filepath.Join(o.Audit, "events"), fmt.Append(nil, events), 0o600)
	}
	return err
}

// start starts a control plane in a separate process, and returns a client and a function that stops the control
// plane.
func start(t *testing.T, o order) (greeting, *kubernetes.Clientset, func()) {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), startVariable+"="+string(raw))
	var stderr strings.Builder
	command.Stderr = &stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the control plane did not come up: %v\n%s", err, stderr.String())
	}
	var g greeting
	if err := json.Unmarshal(line, &g); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(g.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return g, client, func() {
		t.Helper()
		_ = stdin.Close()
		if err := command.Wait(); err != nil {
			t.Fatalf("did not stop cleanly: %v\n%s", err, stderr.String())
		}
	}
}

func TestRestartKeepsTheCluster(t *testing.T) {
	ctx := t.Context()
	o := order{Dir: t.TempDir(), Audit: t.TempDir()}
	first, client, stop := start(t, o)
	if !strings.Contains(first.Again, "once per process") {
		t.Errorf("a second control plane in one process: %s", first.Again)
	}

	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"k": "v"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, kept, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	assertScheduled(t, client)
	assertDeadNodeNoticed(t, client)
	stop()
	if _, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err == nil {
		t.Fatal("stopped, and still answers")
	}
	assertAudited(t, o.Audit)

	o.Port, o.Audit = first.Port, ""
	second, _, stop := start(t, o)
	defer stop()
	if second.Port != first.Port {
		t.Errorf("restarted on port %d, was %d", second.Port, first.Port)
	}
	// The client and certificate of the first start must still work.
	got, err := client.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{})
	if err != nil || got.Data["k"] != "v" {
		t.Errorf("what was made before the restart: %v, %v", got.Data, err)
	}
}

// assertAudited requires every event that the API server counted: of Nodes with their content, of other objects without.
func assertAudited(t *testing.T, dir string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	counted, err := os.ReadFile(filepath.Join(dir, "events"))
	if lines := strings.Count(string(raw), "\n"); err != nil || fmt.Sprint(lines) != string(counted) {
		t.Errorf("the audit log has %d lines, the API server counted %s events: %v", lines, counted, err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		var e struct {
			Verb                          string
			ObjectRef                     struct{ Resource, Name string }
			RequestObject, ResponseObject any
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if key := e.Verb + " " + e.ObjectRef.Resource + "/" + e.ObjectRef.Name; e.Verb == "create" {
			found[key] = e.RequestObject != nil && e.ResponseObject != nil
		}
	}
	if content, is := found["create configmaps/kept"]; !is || content {
		t.Errorf("create configmaps/kept: in the log %t, with content %t", is, content)
	}
	if !found["create nodes/"] && !found["create nodes/machine"] {
		t.Error("the creation of node machine is not in the log, or without content")
	}
}

// assertScheduled requires that scheduler and controllers work: a pod gets a node.
func assertScheduled(t *testing.T, client *kubernetes.Clientset) {
	t.Helper()
	ctx := t.Context()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "machine"},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": *quantity("2"), "memory": *quantity("4Gi"), "pods": *quantity("10")},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue,
				LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}},
		},
	}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is bound", func(ctx context.Context) (bool, error) {
		got, err := client.CoreV1().Pods("default").Get(ctx, "pod", metav1.GetOptions{})
		if err == nil && got.Spec.NodeName == "" {
			err = fmt.Errorf("it is not bound: %+v", got.Status)
		}
		return err == nil && got.Spec.NodeName == "machine", err
	})
}

// assertDeadNodeNoticed waits for the taint of the node above, whose Lease no kubelet renews.
func assertDeadNodeNoticed(t *testing.T, client *kubernetes.Clientset) {
	t.Helper()
	eventually(t, "the silent node is not Ready", func(ctx context.Context) (bool, error) {
		node, err := client.CoreV1().Nodes().Get(ctx, "machine", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionUnknown {
				return true, nil
			}
		}
		return false, fmt.Errorf("its conditions are %+v", node.Status.Conditions)
	})
}

func TestServiceAccountTokenAndNodeCredential(t *testing.T) {
	_, client, stop := start(t, order{Dir: t.TempDir()})
	defer stop()
	token, err := client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", tokenRequest(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(mustKubeconfig(t, client, token.Status.Token))
	if err != nil {
		t.Fatal(err)
	}
	pod, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	// The server knows the token but allows nothing. An unknown token would get Unauthorized.
	if _, err := pod.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a pod's token lists nodes: %v", err)
	}
}

func TestKubectl(t *testing.T) {
	dir := t.TempDir()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kubectl := filepath.Join(dir, "kubectl")
	if err := os.Symlink(binary, kubectl); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(kubectl, "create", "configmap", "hello", "--dry-run=client", "-o", "name").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "configmap/hello" {
		t.Errorf("kubectl: %v\n%s", err, out)
	}
}

func TestPortTakenIsRefused(t *testing.T) {
	first, _, stop := start(t, order{Dir: t.TempDir()})
	defer stop()
	raw, err := json.Marshal(order{Dir: t.TempDir(), Port: first.Port})
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), startVariable+"="+string(raw))
	out, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "port is in use") {
		t.Errorf("started on a taken port: %v\n%s", err, out)
	}
}

// eventually looks for a minute, and fails with the last error.
func eventually(t *testing.T, what string, look func(context.Context) (bool, error)) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (done bool, _ error) {
		done, last = look(ctx)
		return done, nil
	})
	if err != nil {
		t.Fatalf("%s: %v; the last answer: %v", what, err, last)
	}
}

// TestStopNamesAComponentThatDoesNotEnd, and keeps the stacks.
func TestStopNamesAComponentThatDoesNotEnd(t *testing.T) {
	patience := stopWithin
	stopWithin = 10 * time.Millisecond
	t.Cleanup(func() { stopWithin = patience })
	file := filepath.Join(t.TempDir(), "log")
	log, err := openLog(file)
	if err != nil {
		t.Fatal(err)
	}
	c, end := &ControlPlane{log: log, lost: make(chan error, 1)}, make(chan struct{})
	t.Cleanup(func() { close(end) })
	c.run("good", func(ctx context.Context) error { <-ctx.Done(); return nil })
	c.run("stubborn", func(context.Context) error { <-end; return nil })
	c.run("better", func(ctx context.Context) error { <-ctx.Done(); return nil })
	if err := c.Stop(); err == nil || !strings.HasPrefix(err.Error(), "stubborn did not end") {
		t.Errorf("the error: %v", err)
	}
	if stacks, err := os.ReadFile(file); err != nil || !strings.Contains(string(stacks), "TestStopNamesAComponentThatDoesNotEnd.func") {
		t.Errorf("the log: %s, %v", stacks, err)
	}
}
