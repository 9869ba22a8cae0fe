//go:build machines

package real

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// testNodeClones starts two clones and a generic machine at the same moment, each with its own token. Each must
// join automatically as a separate node. The clones must run the workload from the donor's image, with every file
// unchanged and without a request to the registry. The images are consumed.
func (c *cluster) testNodeClones(t *testing.T, platform, prototype string, was nodeIdentity) {
	names := []string{"generic", "clone-1", "clone-2"}
	disks := []string{platform, copyDisk(t, prototype, c.imageOf("clone-1")), prototype}
	seen := c.watchArrivals(t)
	on := make([]*machine, len(names))
	for i, name := range names {
		recipe, _ := c.nodeRecipe(t)
		on[i] = c.switchOnNode(t, name, disks[i], recipe)
	}
	ids := map[string]nodeIdentity{"first-node": was}
	var times strings.Builder
	for _, m := range on {
		m.awaitStarted(t)
		pod, _ := c.awaitPod(t, m.name, "")
		c.inPod(t, pod, "", "/app", "check", fmt.Sprint(workloadFiles))
		fmt.Fprintf(&times, "| %s | %.1f s | %.1f s | %s | %s |\n", m.name, m.since(t, "multi-user.target"), m.since(t, "cloud-final.service"),
			seen.after(t, "node/"+m.name, m.begun), seen.after(t, "pod/"+m.name, m.begun))
		id := c.nodeIdentity(t, m)
		for other, theirs := range ids {
			if same := sharedBetween(theirs, id); len(same) > 0 {
				t.Errorf("%s and %s share: %s", other, m.name, strings.Join(same, ", "))
			}
		}
		ids[m.name] = id
		c.testNodeItself(t, m)
	}
	generic := c.askedBy(t, on[0])
	for _, m := range on[1:] {
		if asked := c.askedBy(t, m); len(asked) > 0 {
			t.Errorf("%s has asked the registry %d times, first: %s", m.name, len(asked), asked[0])
		}
	}
	if len(generic) == 0 {
		t.Error("the generic machine has asked the registry for nothing: this count finds nothing")
	}
	c.lap("a generic machine and two clones have joined and run the workload")
	t.Logf("%d values and kinds of traces compared in %d pairs; the generic machine asked the registry %d times\n"+
		"| machine | multi-user | cloud-init done | Node Ready | pod ready |\n|---|---|---|---|---|\n%s"+
		"The first two are after systemd's start, the others after the machine was switched on. Packages were installed on both beforehand, and the "+
		"registry is on the same host: what differs is the pull of an image of 3,060 files, and the patches.",
		len(was.own)+len(was.traces), len(ids)*(len(ids)-1)/2, len(generic), times.String())
	for _, m := range on {
		m.kill()
	}
	for _, m := range on {
		m.cutPower(t)
		mounted(t, m.image, func(root string) {
			if m != on[0] {
				testStoreIntact(t, root)
				return
			}
			c.testComparison(t, root)
		})
		discard(t, m.image)
	}
}

// testComparison compares the unknown files of another node with those of the donor's disk: equal after the
// generalization, different before.
func (c *cluster) testComparison(t *testing.T, root string) {
	t.Helper()
	after := c.search(t, root, "--compare", c.reportOf("generalized")).Compared
	before := c.search(t, root, "--compare", c.reportOf("served")).Compared
	t.Logf("unknown files of the generic machine: %d equal and %d different before the generalization of the donor, %d and %d after", before.Equal, len(before.Different), after.Equal, len(after.Different))
	if after.Equal == 0 || len(after.Different) > 0 {
		t.Errorf("the comparison with the generalized disk: %+v", after)
	}
	if len(before.Different) == 0 {
		t.Error("the comparison with the donor's disk shows no different file: this comparison finds nothing")
	}
}

// testNodeItself requires the state of a joined node.
func (c *cluster) testNodeItself(t *testing.T, m *machine) {
	t.Helper()
	if state, failed := m.sh(t, "systemctl is-system-running || true"), m.sh(t, "systemctl --failed --plain --no-legend"); state != "running" {
		t.Errorf("%s is %s: %s", m.name, state, failed)
	}
	m.sh(t, "test -s /run/cluster-api/bootstrap-success.complete")
	// The recipe lets kubeadm ignore SystemVerification.
	if complaints := slices.DeleteFunc(c.preflight(t, m), func(name string) bool { return name == "WARNING SystemVerification" }); len(complaints) > 0 {
		t.Errorf("kubeadm's checks before the join complain of %s: %s", m.name, strings.Join(complaints, ", "))
	}
	kept := matching(t, m.root, checkpoints)
	if len(kept) == 0 {
		t.Errorf("the kubelet of %s keeps nothing, so that nothing can be compared", m.name)
	}
	for _, path := range kept {
		if info, err := os.Stat(filepath.Join(m.root, path)); err != nil || info.ModTime().Before(m.begun) {
			t.Errorf("%s: /%s is older than the machine's boot (%v)", m.name, path, err)
		}
	}
	patched := m.sh(t, "dpkg-query -W -f '${Version}' "+tools+" 2>/dev/null || true")
	if want := map[bool]string{true: "", false: "2.0"}[m.name == "generic"]; patched != want {
		t.Errorf("%s has version %q of what its donor was patched with, not %q", m.name, patched, want)
	}
}

var complaint = regexp.MustCompile(`\[(WARNING|ERROR) ([^\]]+)\]`)

// preflight returns the complaints of kubeadm's checks before the join, with their levels. The checks must have
// failed exactly if there was an error.
func (c *cluster) preflight(t *testing.T, m *machine) (complaints []string) {
	t.Helper()
	log, passed := m.sh(t, "cat "+preflightLog), true
	for _, found := range complaint.FindAllStringSubmatch(log, -1) {
		complaints = append(complaints, found[1]+" "+found[2])
		passed = passed && found[1] != "ERROR"
	}
	if !strings.Contains(log, "[preflight]") || passed != strings.HasSuffix(strings.TrimSpace(log), "exit code 0") {
		t.Errorf("kubeadm's checks on %s ended otherwise than by what they say:\n%s", m.name, log)
	}
	return complaints
}

// askedBy returns a machine's requests to the registry.
func (c *cluster) askedBy(t *testing.T, m *machine) (asked []string) {
	t.Helper()
	address := c.leaseOf(t, m).Address
	for _, request := range c.registry.requests() {
		if from, _, _ := strings.Cut(request, " "); from == address {
			asked = append(asked, request)
		}
	}
	return asked
}

// testDonorsNode proves that the API server treats a copy with the donor's credential as the donor.
func (c *cluster) testDonorsNode(t *testing.T, m *machine) {
	t.Helper()
	read := func(path string) []byte {
		content, err := os.ReadFile(filepath.Join(m.root, path))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	const pki = "var/lib/kubelet/pki/"
	link, err := os.Readlink(filepath.Join(m.root, pki+"kubelet-client-current.pem"))
	if err != nil {
		t.Fatal(err)
	}
	credential := read(pki + filepath.Base(link))
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://" + c.endpoint(), TLSClientConfig: rest.TLSClientConfig{
		CAData: read("etc/kubernetes/pki/ca.crt"), CertData: credential, KeyData: credential,
	}})
	if err != nil {
		t.Fatal(err)
	}
	who, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username != "system:node:first-node" {
		t.Errorf("to the API server the copy is not the donor, so nothing is shown: %+v, %v", who, err)
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "first-node", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.NodeInfo.KernelVersion = "of the copy"
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Errorf("the copy could not report as the donor's Node: %v", err)
	}
	if _, err := c.client.CoreV1().Nodes().Get(t.Context(), m.name, metav1.GetOptions{}); err == nil {
		t.Error("the copy has become a Node of its own")
	}
}

// readyTimes are when things were first seen to be ready.
type readyTimes struct {
	mu sync.Mutex
	at map[string]time.Time
}

// watchArrivals records ten times a second which Nodes are Ready ("node/NAME") and which have a pod ("pod/NAME"),
// until the end of the test.
func (c *cluster) watchArrivals(t *testing.T) *readyTimes {
	a := &readyTimes{at: map[string]time.Time{}}
	ctx := t.Context()
	go func() {
		for ctx.Err() == nil {
			nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			if err == nil {
				for i := range nodes.Items {
					a.note("node/"+nodes.Items[i].Name, ready(nodes.Items[i].Status.Conditions))
				}
			}
			pods, err := c.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
			if err == nil {
				for _, pod := range pods.Items {
					a.note("pod/"+pod.Spec.NodeName, slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Ready }))
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return a
}

func ready(conditions []corev1.NodeCondition) bool {
	return slices.ContainsFunc(conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func (a *readyTimes) note(what string, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.at[what]; is && !known {
		a.at[what] = time.Now()
	}
}

// after is how long something took from a time on.
func (a *readyTimes) after(t *testing.T, what string, begun time.Time) string {
	t.Helper()
	var at time.Time
	await(t, what+" to be seen", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		at = a.at[what]
		return !at.IsZero()
	})
	return fmt.Sprintf("%.1f s", at.Sub(begun).Seconds())
}
