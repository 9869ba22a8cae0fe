package conformance

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/testing/apitest/inmemory"
	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

// Durations of the cluster's steps in a capture.
const (
	passTakes  = 137 * time.Millisecond // requests and ends of operations never coincide
	bootTakes  = 20 * time.Second
	joinTakes  = 40 * time.Second
	looksEvery = time.Second
)

// captureEnv is a pool of a simulated cloud, for a course.
type captureEnv struct {
	t        *testing.T
	p        cloud.Provider
	pool     cloud.PoolID
	poolName string
	profile  v1alpha1.Profile
	// donor and peer are instances of the pool. isOn and powerOff are about the donor's machine.
	donor, peer cloud.InstanceID
	isOn        func() bool
	powerOff    func()
	requests    interface {
		ResetStats()
		Stats() requestlog.Stats
		Requests() []requestlog.Request
	}
}

// stage returns the pool of the world.
func (w *cloudEnv) stage() captureEnv {
	return captureEnv{t: w.t, p: w.p, pool: w.pool, poolName: poolName, profile: v1alpha1.ProfileStatic, donor: w.a, peer: w.b, requests: w.cloud,
		isOn: func() bool { return w.fleet.Power(w.machine(w.a)) == fleet.On }, powerOff: func() { w.powerOffGuest(w.a) }}
}

func (s captureEnv) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// captureCourse plays whole captures of a pool's first node: the real engine with the provider over HTTPS, and a cluster
// in memory. Pods and kubelets of the cluster act at once.
type captureCourse struct {
	captureEnv
	api     kube.Client
	cluster *fake.Clientset
	engine  *capture.Engine
	node    *corev1.Node
	// off is true while the donor's machine is off. bootsAt is the end of the next boot.
	off     bool
	bootsAt time.Time
	boot    int
	uids    int
}

func newCourse(on captureEnv) *captureCourse {
	on.t.Helper()
	c := &captureCourse{captureEnv: on, api: inmemory.New(time.Now).Client(nil), node: courseNode("donor", on.donor)}
	c.cluster = fake.NewClientset(c.node, courseNode("peer", on.peer), systemNamespace(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.GeneralizeServiceAccount, Namespace: v1alpha1.DefaultGeneralizeNamespace}})
	c.cluster.PrependReactor("create", "*", keepNoDryRun)
	c.cluster.PrependReactor("create", "*", c.withUID)
	c.cluster.PrependReactor("create", "selfsubjectaccessreviews", func(action kubetesting.Action) (bool, runtime.Object, error) {
		review := action.(kubetesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		review.Status.Allowed = true
		return true, review, nil
	})
	c.engine = &capture.Engine{Client: c.api, Kube: c.cluster, Cloud: cloud.InCluster(on.p, cluster.ID(c.cluster)), Image: "kamino:test",
		Log: logr.Discard(), TrialObserver: c}
	c.engine.Sleep = func(ctx context.Context, d time.Duration) error {
		time.Sleep(d)
		c.stepPods(ctx)
		return nil
	}
	return c
}

// systemNamespace is the namespace whose UID is the cluster's ID.
func systemNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "our-cluster"}}
}

func courseNode(name string, id cloud.InstanceID) *corev1.Node {
	n := node(name, string(id), time.Now().Add(-time.Hour), time.Now().Add(-time.Hour))
	n.Status.NodeInfo.BootID = "boot-of-" + name
	return n
}

// withUID sets a UID on created objects, as an API server does.
func (c *captureCourse) withUID(action kubetesting.Action) (bool, runtime.Object, error) {
	create, is := action.(kubetesting.CreateActionImpl)
	if !is || len(create.CreateOptions.DryRun) > 0 || create.GetSubresource() != "" {
		return false, nil, nil
	}
	switch made := create.GetObject().(type) {
	case *corev1.Pod, *corev1.Secret, *coordinationv1.Lease:
		c.uids++
		made.(metav1.Object).SetUID(types.UID(fmt.Sprintf("uid-%d", c.uids)))
		gvr := create.GetResource()
		return true, made, c.cluster.Tracker().Create(gvr, made, create.GetNamespace())
	}
	return false, nil, nil
}

// play makes passes until a capture succeeds, and returns the number of requests to the cloud. An event of the
// cluster triggers the next pass.
func (c *captureCourse) play(ctx context.Context, version string, settings v1alpha1.Settings) budget {
	c.t.Helper()
	settings.Trial.Mode = cmp.Or(settings.Trial.Mode, v1alpha1.TrialOff)
	p := &v1alpha1.Prototype{
		ObjectMeta: metav1.ObjectMeta{Name: "pool-" + version, UID: types.UID("uid-" + version)},
		Spec: v1alpha1.PrototypeSpec{Pool: c.poolName, PoolID: string(c.pool), Version: version,
			Donor: v1alpha1.Donor{NodeName: c.node.Name, ProviderID: c.node.Spec.ProviderID}, Settings: settings.Defaulted()},
	}
	c.must(c.api.Create(ctx, p))
	c.requests.ResetStats()
	for range 2000 {
		time.Sleep(passTakes)
		result, err := c.engine.Pass(ctx, p.Name)
		c.must(err)
		c.must(c.api.Get(ctx, kube.ObjectKeyFromObject(p), p))
		if result.Done {
			if p.Status.Phase != v1alpha1.PhaseSucceeded {
				c.t.Fatalf("%+v", p.Status)
			}
			stats := c.requests.Stats()
			sent := budget{stats.Reads, stats.Writes, stats.Repeats, stats.Polls}
			c.t.Logf("%+v\n%s", sent, c.requestLog())
			return sent
		}
		for left := result.After; ; left -= looksEvery {
			if c.stepCluster(ctx, p) || left <= 0 {
				break
			}
			time.Sleep(min(left, looksEvery))
		}
	}
	c.t.Fatalf("the capture does not end: %+v", p.Status)
	return budget{}
}

// stepCluster lets pods and kubelets act, and reports whether the cluster changed.
func (c *captureCourse) stepCluster(ctx context.Context, _ *v1alpha1.Prototype) bool {
	c.t.Helper()
	return c.stepPods(ctx) || c.stepKubelet(ctx)
}

// stepPods lets pods act, and reports whether one did.
func (c *captureCourse) stepPods(ctx context.Context) bool {
	c.t.Helper()
	pods, err := c.cluster.CoreV1().Pods(v1alpha1.DefaultGeneralizeNamespace).List(ctx, metav1.ListOptions{})
	c.must(err)
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Labels["app.kubernetes.io/component"] == "look" && pod.Status.Phase == "" {
			pod.Status.Phase = corev1.PodSucceeded
			_, err := c.cluster.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			c.must(err)
			return true
		} else if pod.Annotations[v1alpha1.OrderAnnotation] != "" && c.carriesOut(ctx, pod) {
			return true
		}
	}
	return false
}

// carriesOut carries the order of a pod out, and signs the report. A donor that is generalized in place goes off.
func (c *captureCourse) carriesOut(ctx context.Context, pod *corev1.Pod) bool {
	c.t.Helper()
	order := &v1alpha1.NodeOrder{}
	err := c.api.Get(ctx, kube.ObjectKeyFromObject(pod), order)
	if apierrors.IsNotFound(err) {
		return false
	}
	c.must(err)
	report := v1alpha1.Report{Order: order.UID, Pod: pod.UID}
	switch proof := c.proof(order); {
	case order.Spec.Method == v1alpha1.OrderQuiesce:
		if report.Moment = c.moment(order, pod); report.Moment == nil {
			return false
		}
	case order.Status.Report != "":
		return false
	case order.Spec.Method == v1alpha1.OrderCopy:
		snapshot, device, _ := strings.Cut(order.Spec.Token, "@")
		proof.BootID, proof.Copy = "", &v1alpha1.CopiedDisk{Snapshot: snapshot, Device: device}
		report.Proof = proof
	default:
		report.Proof = proof
		defer c.powerOff()
	}
	secret, err := c.cluster.CoreV1().Secrets(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	c.must(err)
	key, _, err := v1alpha1.OrderKey(secret.Data["key"])
	c.must(err)
	order.Status, err = report.Sign(key)
	c.must(err)
	c.must(c.api.Status().Update(ctx, order))
	return true
}

func (c *captureCourse) proof(order *v1alpha1.NodeOrder) *v1alpha1.Proof {
	return &v1alpha1.Proof{
		UID: order.Spec.Holder.UID, Order: order.UID, BootID: order.Spec.Token, Profile: order.Spec.Generalize.Profile, ProfileVersion: "1", Rules: 7, Met: 7, Changed: 3,
		Search: &v1alpha1.Search{Files: 200, Bytes: 4096, Identities: 2, Kept: 1}, ManifestDigest: "sha256:0", At: metav1.Now(),
	}
}

// moment is the next report of the pod that makes the donor's disk quiet; nil if the pod waits.
func (c *captureCourse) moment(order *v1alpha1.NodeOrder, pod *corev1.Pod) *v1alpha1.Moment {
	report, err := v1alpha1.ReportOf(order, v1alpha1.OrderRecord{UID: order.UID, Key: order.Spec.Key, Pod: pod.UID})
	c.must(err)
	switch word := v1alpha1.Word(order.Annotations[v1alpha1.MomentAnnotation]); {
	case report == nil:
		return &v1alpha1.Moment{State: v1alpha1.MomentQuiet}
	case report.Moment.State == v1alpha1.MomentQuiet && word == v1alpha1.WordProceed:
		return &v1alpha1.Moment{State: v1alpha1.MomentNow, Frozen: true}
	case report.Moment.State == v1alpha1.MomentNow && word != v1alpha1.WordProceed:
		return &v1alpha1.Moment{State: v1alpha1.MomentOver, Frozen: true, FrozenFor: metav1.Duration{Duration: 150 * time.Millisecond},
			InTime: word == v1alpha1.WordAccepted, MachineID: "machine", RootUUID: "root"}
	}
	return nil
}

// stepKubelet plays the donor's kubelet. The kubelet is silent while the machine is off, and reports a new boot later.
func (c *captureCourse) stepKubelet(ctx context.Context) bool {
	c.t.Helper()
	on := c.isOn()
	n, err := c.cluster.CoreV1().Nodes().Get(ctx, c.node.Name, metav1.GetOptions{})
	c.must(err)
	switch {
	case !on && !c.off:
		c.off, c.bootsAt = true, time.Time{}
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
	case on && c.off && c.bootsAt.IsZero():
		c.bootsAt = time.Now().Add(bootTakes)
		return false
	case on && c.off && !time.Now().Before(c.bootsAt):
		c.off = false
		c.boot++
		n.Status.Conditions[0].Status, n.Status.NodeInfo.BootID = corev1.ConditionTrue, fmt.Sprintf("boot-%d", c.boot)
	default:
		return false
	}
	_, err = c.cluster.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
	c.must(err)
	return true
}

func (w *cloudEnv) machine(id cloud.InstanceID) string {
	w.t.Helper()
	for _, spec := range w.cloud.Specs() {
		if w.p.SameInstance(cloud.InstanceID(spec.ProviderID), id) {
			return spec.ID
		}
	}
	w.t.Fatalf("there is no machine %s", id)
	return ""
}

// Check implements capture.TrialObserver.
func (c *captureCourse) Check(context.Context, v1alpha1.Settings) ([]cloud.Refusal, error) {
	return nil, nil
}

// Observe implements capture.TrialObserver: the trial node joins some time after the start of its instance, and is healthy.
func (c *captureCourse) Observe(_ context.Context, subject trial.Subject) (trial.Observation, error) {
	f := subject.Facts
	joined := f.Instance.Running.Add(joinTakes)
	if f.Instance.Running.IsZero() || f.Now.Before(joined) {
		return trial.Observation{Facts: f}, nil
	}
	f.Node, f.Registered, f.Ready, f.WasReady, f.Changed = "tried", joined, true, true, joined
	f.IdentityKnown, f.Digest, f.Comparison = true, f.Proven, &trial.PeerComparison{Others: 2}
	f.Network, f.Images, f.Job = trial.Measure{Result: trial.Passed}, trial.Measure{Result: trial.Passed}, trial.Measure{Result: trial.Skipped}
	return trial.Observation{Facts: f, Node: &v1alpha1.TrialNode{Kernel: "6.8.0"}}, nil
}

// Hold implements capture.TrialObserver: the workshop joins some time after its instance was created.
func (c *captureCourse) Hold(_ context.Context, subject trial.Subject) (held trial.Held, err error) {
	at := subject.Instances[0]
	if subject.Facts.Now.Before(at.CreatedAt.Add(joinTakes)) {
		return held, nil
	}
	held.Node, held.Ready = courseNode("workshop", at.ID), true
	held.Known = []v1alpha1.TrialNodeRecord{{Instance: string(at.ID), Node: held.Node.Name, UID: held.Node.UID, Cordoned: true}}
	return held, nil
}

// Evidence implements capture.TrialObserver.
func (c *captureCourse) Evidence(context.Context, string) string { return "" }

// Clean implements capture.TrialObserver.
func (c *captureCourse) Clean(context.Context, trial.Subject) ([]string, error) { return nil, nil }

// requestLog lists the requests to the cloud, with one line for a run of equal requests.
func (c *captureCourse) requestLog() string {
	var lines []string
	last, times := "", 0
	for _, r := range c.requests.Requests() {
		if r.Class == "login" {
			continue
		}
		name := r.Path[strings.LastIndexByte(r.Path, '/')+1:]
		line := fmt.Sprintf("%-6s %s %s (%s) %d", r.Class, r.Noun, r.Operation, name, r.Status)
		if line != last {
			if times > 1 {
				lines[len(lines)-1] += fmt.Sprintf(" × %d", times)
			}
			lines, last, times = append(lines, line), line, 0
		}
		times++
	}
	if times > 1 {
		lines[len(lines)-1] += fmt.Sprintf(" × %d", times)
	}
	return strings.Join(lines, "\n")
}
