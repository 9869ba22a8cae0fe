package chart

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/chart"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
	"github.com/kamino-dev/kamino/sandbox/unverified"
)

const (
	lights = "lights-out"
	// pool is the sandbox's name of the captured pool.
	pool = "lights"
)

// TestLightsOut installs the chart into a restricted namespace. The only manual step patches and reboots a node;
// then the pool's recipe must name an image of that node's disk. The controller runs as the pod of its Deployment,
// with only the token of its service account.
func TestLightsOut(t *testing.T) {
	helm := newHelm(t, lights, "restricted")
	defer showLogs(t)
	description := "name=" + pool + ",nodes=3"
	if sandbox.AWS() != nil {
		description += ",profile=eks"
	}
	machines := sandbox.Pool(t, description)
	set := path.Base(machines[0].Pool)
	cloudSecret(t, lights)
	values := lightsOutValues(t, set)
	listenLocally(t, values)
	if err := helm.install(t.Context(), "kamino", values, true); err != nil {
		t.Fatal(err)
	}

	donor := machines[1].Node
	patchAsKuredDoes(t, donor)
	boot := bootOf(t, donor)
	prototype := waitSucceeded(t, set, donor)
	if copies := prototype.Spec.Settings.CopiesDonor(); copies != (sandbox.AWS() != nil) || copies && bootOf(t, donor) != boot {
		t.Errorf("on AWS a donor serves while its disk is copied; the capture is %+v, boot %s was %s", prototype.Spec.Settings.Donor, bootOf(t, donor), boot)
	}
	wantServing(t, set, values)

	// The pool's next node is a copy of the donor, and no leftovers exist.
	if recipe := sandbox.Must(t, "kamino", "status", set); !strings.Contains(recipe, prototype.Spec.Version) {
		t.Errorf("the recipe doesn't point at %s:\n%s", prototype.Spec.Version, recipe)
	}
	sandbox.Must(t, "kamino-sandbox", "scale", pool, "4", "--wait")
	if history := sandbox.Must(t, "kamino", "history", set, "-o", "json"); !strings.Contains(history, `"use": "current"`) {
		t.Errorf("history:\n%s", history)
	}
	wantCleanedUp(t, donor)
	// The removed settings of the recipe are in a namespace without privileged pods.
	secrets, err := sandbox.Kube().CoreV1().Secrets(lights).List(t.Context(), metav1.ListOptions{})
	if err != nil || !slices.ContainsFunc(secrets.Items, func(s corev1.Secret) bool { return strings.HasSuffix(s.Name, "-recipe") }) {
		t.Errorf("the recipe was not saved in %s: %v", lights, err)
	}

	// An upgrade continues with two replicas and one leader.
	values = lightsOutValues(t, set)
	if err := helm.upgrade(t.Context(), "kamino", values, true); err != nil {
		t.Fatal(err)
	}
	testTakeover(t)

	// The same release as a CronJob: a manual run finds today's version of the pool and exits with 0.
	values["mode"] = "cronjob"
	delete(values, "extraArgs")
	if err := helm.upgrade(t.Context(), "kamino", values, true); err != nil {
		t.Fatal(err)
	}
	runCronJob(t, "kamino")
	if err := helm.uninstall("kamino"); err != nil {
		t.Fatal(err)
	}
}

// patchAsKuredDoes patches a node, adds kured's annotation, reboots the node, and removes the annotation of the
// pending reboot. Annotations have whole seconds, but a simulated reboot is faster, so the reboot waits for the
// next second.
func patchAsKuredDoes(t *testing.T, node string) {
	t.Helper()
	sandbox.Must(t, "kamino-sandbox", "patch", node, "--reboot=false")
	found := time.Now()
	eventually(t, "the next second has begun", func() bool { return time.Since(found.Truncate(time.Second)) > 1100*time.Millisecond })
	sandbox.Must(t, "kamino-sandbox", "reboot", node)
	sandbox.Must(t, "kubectl", "annotate", "node", node, "weave.works/kured-reboot-in-progress-")
}

// lightsOutValues returns the values of the sandbox and a policy.
func lightsOutValues(t *testing.T, set string) chart.Values {
	t.Helper()
	values := readValues(t, filepath.Join(sandbox.Dir(), sandboxdir.ValuesFile))
	values["policies"] = chart.Values{"lights": chart.Values{
		"pools":     chart.Values{"names": []any{set}},
		"selection": chart.Values{"minReadyTime": "0s"},
		"settings":  unverified.Policy(),
	}}
	return values
}

// listenLocally sets a single replica with free ports of this machine.
func listenLocally(t *testing.T, values chart.Values) {
	t.Helper()
	values["extraArgs"] = []any{}
	values["controller"] = chart.Values{"replicas": 1, "healthPort": freePort(t)}
	values["metrics"] = chart.Values{"port": freePort(t)}
}

// cloudSecret creates the Secret for the sandbox's cloud. Source: docs/tasks/install.md for Azure Stack, and
// docs/reference/aws.md for an access key.
func cloudSecret(t *testing.T, namespace string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: sandboxdir.CloudSecret}, Data: map[string][]byte{}}
	files := []string{sandboxdir.ClusterFile, sandboxdir.CloudFile, sandboxdir.CAFile}
	if sandbox.AWS() != nil {
		files = []string{sandboxdir.CredentialsFile, sandboxdir.CAFile}
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(sandbox.Dir(), file))
		if err != nil {
			t.Fatal(err)
		}
		secret.Data[file] = text
	}
	if _, err := sandbox.Kube().CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waitSucceeded waits for the policy's capture, which must use the donor.
func waitSucceeded(t *testing.T, set, donor string) *v1alpha1.Prototype {
	t.Helper()
	p := &v1alpha1.Prototype{}
	eventually(t, "the policy's capture has succeeded", func() bool {
		list, err := prototypes(t)
		if err != nil {
			return false
		}
		for i := range list.Items {
			if *p = list.Items[i]; p.Spec.Pool == set && p.Status.Phase == v1alpha1.PhaseFailed {
				t.Fatalf("the capture failed: %+v", p.Status.Failure)
			}
			if p.Spec.Pool == set && p.Status.Phase == v1alpha1.PhaseSucceeded {
				return true
			}
		}
		return false
	})
	if p.Spec.Donor.NodeName != donor {
		t.Errorf("the donor is %s, and %s was patched", p.Spec.Donor.NodeName, donor)
	}
	return p
}

// bootOf is the boot of a node.
func bootOf(t *testing.T, name string) string {
	t.Helper()
	node, err := sandbox.Kube().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node.Status.NodeInfo.BootID
}

// wantCleanedUp requires that the donor is in service as before and that no pod is left.
func wantCleanedUp(t *testing.T, donor string) {
	t.Helper()
	node, err := sandbox.Kube().CoreV1().Nodes().Get(t.Context(), donor, metav1.GetOptions{})
	if err != nil || node.Spec.Unschedulable || node.Annotations[v1alpha1.ReservationAnnotation] != "" {
		t.Errorf("the donor: %+v, %v", node, err)
	}
	pods, err := sandbox.Kube().CoreV1().Pods("kamino-generalize").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("pods in kamino-generalize: %d, %v", len(pods.Items), err)
	}
	snapshots, err := sandbox.Snapshots(t.Context())
	if err != nil || len(snapshots) > 0 {
		t.Errorf("snapshots: %v, %v", snapshots, err)
	}
	if sandbox.AWS() != nil {
		loose, err := sandbox.AWS().Loose(t.Context())
		if err != nil || len(loose) > 0 {
			t.Errorf("instances and volumes beside the groups: %v, %v", loose, err)
		}
	}
}

// wantServing requires the metrics of the captured set, those of the dashboard besides Kamino's own, and a healthy probe.
func wantServing(t *testing.T, set string, values chart.Values) {
	t.Helper()
	for _, sample := range []string{
		fmt.Sprintf(`kamino_captures_total{pool=%q,reason="",result="succeeded"} 1`, set), "kamino_pool_image_info{", "kamino_pool_candidates{",
		`leader_election_master_status{name="kamino-controller"} 1`, "process_resident_memory_bytes ",
	} {
		eventually(t, "the metrics have "+sample, func() bool { // the controller's cache is a moment behind the cluster
			metrics := get(t, fmt.Sprintf("http://127.0.0.1:%d/metrics", values["metrics"].(chart.Values)["port"]))
			return strings.Contains(metrics, "\n"+sample)
		})
	}
	health := values["controller"].(chart.Values)["healthPort"]
	for _, probe := range []string{"healthz", "readyz"} {
		if answer := get(t, fmt.Sprintf("http://127.0.0.1:%d/%s", health, probe)); answer != "ok" {
			t.Errorf("%s answers %q", probe, answer)
		}
	}
}

// testTakeover deletes the leader, and requires a new leader.
func testTakeover(t *testing.T) {
	t.Helper()
	var leader string
	holder := func() string {
		lease, err := sandbox.Kube().CoordinationV1().Leases(lights).Get(t.Context(), v1alpha1.LeaseName, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	eventually(t, "a replica leads", func() bool { leader = holder(); return leader != "" })
	pods, err := sandbox.Kube().CoreV1().Pods(lights).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=controller"})
	if err != nil || len(pods.Items) != 2 {
		t.Fatalf("%d replicas, %v", len(pods.Items), err)
	}
	// Both replicas are processes of one host, so the holder's name does not show the leader. Each replica is
	// deleted in turn, and a leader must follow.
	for _, pod := range pods.Items {
		if err := sandbox.Kube().CoreV1().Pods(lights).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "another replica leads", func() bool { now := holder(); return now != "" && now != leader })
}

// runCronJob requires that a manual run of the CronJob succeeds.
func runCronJob(t *testing.T, name string) {
	t.Helper()
	sandbox.Must(t, "kubectl", "-n", lights, "create", "job", "--from=cronjob/"+name, "by-hand")
	eventually(t, "the run has ended", func() bool {
		job, err := sandbox.Kube().BatchV1().Jobs(lights).Get(t.Context(), "by-hand", metav1.GetOptions{})
		if err == nil && job.Status.Failed > 0 {
			t.Fatal("kamino auto failed in the CronJob's pod")
		}
		return err == nil && job.Status.Succeeded == 1
	})
}

func prototypes(t *testing.T) (*v1alpha1.PrototypeList, error) {
	t.Helper()
	list := &v1alpha1.PrototypeList{}
	raw, err := sandbox.Kube().CoreV1().RESTClient().Get().AbsPath("/apis/kamino.dev/v1alpha1/prototypes").DoRaw(t.Context())
	if err != nil {
		return nil, err
	}
	return list, decode(raw, list)
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// showLogs logs the output of the release's processes, if the test has failed.
func showLogs(t *testing.T) {
	if !t.Failed() {
		return
	}
	t.Log(sandbox.Run(t, nil, "kubectl", "get", "prototypepolicies,prototypes", "-o", "yaml").Stdout)
	paths, _ := filepath.Glob(filepath.Join(sandbox.Dir(), "machines", "logs", lights+"_*", "*.log"))
	for _, file := range paths {
		text, _ := os.ReadFile(file)
		if len(text) > 6000 {
			text = text[len(text)-6000:]
		}
		t.Logf("%s at %s:\n%s", file, time.Now().Format(time.TimeOnly), text)
	}
}
