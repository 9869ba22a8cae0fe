package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/runner"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// unfinishedCapture is a capture after the donor's return and before the image: the real engine and verbs, over a cloud and a cluster
// in memory, inside a synctest bubble with its own time.
type unfinishedCapture struct {
	*testing.T
	session  *session
	cloud    *memory.Cloud
	pool     cloud.PoolID
	out, err *bytes.Buffer
	name     string
}

func newPress(t *testing.T) *unfinishedCapture {
	t.Helper()
	p := &unfinishedCapture{T: t, out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	p.cloud = memory.New(memory.Config{Now: time.Now, Latency: memory.Latency{
		Stop: 10 * time.Second, Start: 20 * time.Second, Snapshot: 6 * time.Second, Image: 20 * time.Second, Delete: 20 * time.Second,
	}})
	p.pool = p.cloud.AddPool(memory.PoolSpec{Name: "pool1", Capacity: 2, MaxSize: 10, Bootstrap: []string{"customData"}})
	id := p.cloud.AddInstance(p.pool, "0")
	p.cloud.AddInstance(p.pool, "1")
	version := time.Now().UTC().Format("2006.01.02")
	p.name = "pool1-" + version
	proof := v1alpha1.Proof{UID: "u1", BootID: "before", Profile: v1alpha1.ProfileStatic, ProfileVersion: "1", Rules: 7, Met: 7,
		ManifestDigest: "sha256:0", At: metav1.Now()}
	prototype := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{
		Name: p.name, UID: "u1", Finalizers: []string{v1alpha1.CaptureFinalizer}, CreationTimestamp: metav1.Now()}}
	prototype.Spec = v1alpha1.PrototypeSpec{Pool: "pool1", Version: version, Donor: v1alpha1.Donor{NodeName: "node-1", ProviderID: string(id)},
		Settings: v1alpha1.Settings{}.Defaulted()}
	prototype.Status.Phase, prototype.Status.Proof = v1alpha1.PhasePublishing, &proof
	prototype.Status.Record = &v1alpha1.Record{UID: "u1", GeneralizeBootID: "before", Returning: true, Recipe: "generic"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{corev1.LabelOSStable: "linux"}},
		Spec: corev1.NodeSpec{ProviderID: string(id)}}
	node.Status.NodeInfo.BootID = "after"
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	p.cloud.MarkGeneralized(id)
	_, err := p.cloud.EnsureStopped(t.Context(), id)
	p.must(err)
	time.Sleep(time.Minute)
	_, err = p.cloud.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: p.name, Instance: id, Tags: map[string]string{
		cloud.TagUID: "u1", cloud.TagPrototype: p.name, cloud.TagProof: proof.Tag(), cloud.TagBuiltFrom: "node-1"}})
	p.must(err)
	_, err = p.cloud.EnsureStarted(t.Context(), id)
	p.must(err)
	time.Sleep(time.Minute)

	scheme, err := cluster.Scheme()
	p.must(err)
	objects := clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(prototype).WithStatusSubresource(prototype).Build()
	connection := &cluster.Connection{Client: objects, Kube: fake.NewClientset(node), Skew: func() (time.Duration, bool) { return 0, false }}
	f := &Factory{Out: p.out, Err: p.err, Getenv: func(string) string { return "" }, Now: time.Now, Window: func() (int, int) { return 0, 0 }}
	engine := &capture.Engine{Client: objects, Kube: connection.Kube, Cloud: p.cloud.Provider, Image: "kamino:test", Log: logr.Discard()}
	p.session = &session{Factory: f, options: &Options{Namespace: v1alpha1.DefaultNamespace, Log: logr.Discard()}, cluster: connection, provider: p.cloud.Provider, engine: engine}
	return p
}

func (p *unfinishedCapture) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// run runs so many passes, or fewer after the end of the capture, and returns their number.
func (p *unfinishedCapture) run(passes int) (made int) {
	p.Helper()
	for made < passes {
		result, err := p.session.engine.Pass(p.Context(), p.name)
		p.must(err)
		if made++; result.Done {
			break
		}
		time.Sleep(result.After)
	}
	return made
}

// takeOutput returns and clears the verb's output.
func (p *unfinishedCapture) takeOutput() string {
	defer p.out.Reset()
	return strings.TrimSpace(p.out.String())
}

// state of the version after the end of all running work.
func (p *unfinishedCapture) state(version string) cloud.State {
	p.Helper()
	time.Sleep(time.Hour)
	image, err := p.cloud.Image(p.Context(), cloud.ImageRef{Pool: p.pool, Version: version})
	p.must(err)
	return image.State
}

// TestCalledOffWhilePublishing interrupts a capture after each pass of publishing, lets the cloud continue or not, and
// cancels. The output of `cancel` is true, and every verb then works.
func TestCalledOffWhilePublishing(t *testing.T) {
	whole := 0
	synctest.Test(t, func(t *testing.T) { whole = newPress(t).run(1000) })
	if whole < 6 {
		t.Fatalf("publishing took only %d passes", whole)
	}
	stays, goes := 0, 0
	for passes := range whole {
		for _, meanwhile := range []time.Duration{0, 5 * time.Second, time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				p := newPress(t)
				p.run(passes)
				seen := &v1alpha1.Prototype{}
				p.must(p.session.cluster.Client.Get(t.Context(), client.ObjectKey{Name: p.name}, seen))
				if seen.Status.Terminal() {
					return // there is nothing to call off
				}
				time.Sleep(meanwhile)
				p.must(p.session.cancel(t.Context(), p.name, 0))
				reported := p.takeOutput()
				version := seen.Spec.Version
				moment := fmt.Sprintf("after %d passes and %s, cancel said %q", passes, meanwhile, reported)
				switch state := p.state(version); {
				case strings.Contains(reported, "the capture left no resources"):
					goes++
					if state != cloud.Absent {
						t.Errorf("%s, and version %s is %s", moment, version, state)
					}
				case strings.Contains(reported, "version "+version+" stays"):
					stays++
					if state != cloud.Complete {
						t.Errorf("%s, and version %s is %q", moment, version, state)
					}
					p.everyVerbLeadsOn(version, strings.Contains(reported, "names the version"))
				default:
					t.Errorf("%s", moment)
				}
				if left, err := p.cloud.Snapshots(t.Context(), p.pool); err != nil || len(left) > 0 {
					t.Errorf("%s, and the snapshots %v are left (%v)", moment, left, err)
				}
			})
		}
	}
	if stays == 0 || goes == 0 {
		t.Errorf("%d versions stayed and %d went: both must be met", stays, goes)
	}
}

// everyVerbLeadsOn from a version without a Prototype.
func (p *unfinishedCapture) everyVerbLeadsOn(version string, current bool) {
	p.Helper()
	ctx := context.Background()
	// A second capture on the same day makes the day's second version.
	d, err := (&runner.CaptureRequest{Cluster: p.session.cluster, Cloud: p.cloud.Provider, Now: p.session.Now, Node: "node-1"}).Decide(ctx)
	p.must(err)
	if d.Prototype.Spec.Version != version+"02" {
		p.Errorf("the same day's second try is %s", d.Prototype.Spec.Version)
	}
	refusals, err := p.session.engine.Refusals(ctx, d.Prototype)
	p.must(err)
	for _, r := range refusals {
		if strings.HasPrefix(r.Reason, "Version") || r.Reason == admission.CapturedToday {
			p.Errorf("the same day's second try is refused: %s", r.Message)
		}
	}
	if current {
		return
	}
	dry := changeFlags{dryRun: true, format: output.Text}
	if err := p.changing(dry).promote(ctx, version); err != nil {
		p.Errorf("it can't be promoted: %v", err)
	}
	if err := p.changing(dry).deleteVersion(ctx, version); err != nil {
		p.Errorf("it can't be retired: %v", err)
	}
	err = p.changing(dry).rollback(ctx, "", replaceFlags{})
	if way := fmt.Sprintf("`kamino promote pool1 %s`", version); err == nil || !strings.Contains(err.Error(), way) {
		p.Errorf("rollback does not say %s: %v", way, err)
	}
	p.must(p.changing(changeFlags{format: output.Text}).deleteVersion(ctx, version))
	if state := p.state(version); state != cloud.Absent {
		p.Errorf("it is retired, and is %s", state)
	}
}

// changing is a verb on the current pool.
func (p *unfinishedCapture) changing(flags changeFlags) *change {
	p.Helper()
	found, h, err := p.session.lookBack(context.Background(), "pool1", 0)
	p.must(err)
	return &change{session: p.session, changeFlags: flags, pool: found, history: h}
}
