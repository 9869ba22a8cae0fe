// Package running tests the copy of a disk while its machine runs: orders, pods and proofs of the product on the machines and the cloud of
// the sandbox, with the test as the engine.
package running

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/quiesce"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/machine/kernel"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == kernel.Verb {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(kernel.Main(ctx, forgetful{}, os.Args[2:]))
	}
	os.Exit(sandboxtest.Main(m, world.Options{Cloud: pool.AWS, TimeScale: 200}, &sandbox))
}

// forgets is a file on a machine whose kernel does not flush.
const forgets = "run/sandbox/forgets"

// forgetful is the kernel of the sandbox, except on machines with the file forgets: there nothing is flushed or frozen.
type forgetful struct{ kernel.Running }

func (f forgetful) Open(t *tree.Tree) (quiesce.Volume, error) {
	v, err := f.Running.Open(t)
	if _, wrong := t.Lstat(forgets); wrong == nil {
		return lazy{v}, err
	}
	return v, err
}

type lazy struct{ quiesce.Volume }

func (lazy) Flush() error { return nil }

func (l lazy) Guard(context.Context, string) (quiesce.Guard, error) { return l, nil }

func (lazy) Freeze() (string, error) { return "", nil }

func (lazy) Thaw(ctx context.Context, answers <-chan bool) (time.Duration, string) {
	return 0, quiesce.Late(ctx, answers)
}

// env is a pool whose first node is the donor, and whose second node cleans the copy.
type env struct {
	*sandboxtest.Env
	client  client.Client
	orders  int
	profile v1alpha1.Profile
}

func newEnv(t *testing.T, name string) *env {
	t.Helper()
	e := &env{Env: sandbox.NewEnv(t, "nodes=2,name="+name), profile: v1alpha1.ProfileBootstrap}
	log.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	e.Must(v1alpha1.AddToScheme(scheme))
	var err error
	e.client, err = client.New(sandbox.Config(), client.Options{Scheme: scheme})
	e.Must(err)
	return e
}

func (e *env) donor() machine.Status { return e.Machines[0] }

func (e *env) workshop() machine.Status { return e.Machines[1] }

// holder is the object that the orders are for.
var holder = v1alpha1.Holder{Name: "copy-of-a-running-disk", UID: "0bde4000-0000-4000-8000-000000000001"}

// order is an order with its pod.
type order struct {
	e *env
	*v1alpha1.NodeOrder
	record v1alpha1.OrderRecord
}

// carryOut makes an order, its key and its pod.
func (e *env) carryOut(spec v1alpha1.NodeOrderSpec, verb string, args ...string) *order {
	e.Helper()
	private, public, err := v1alpha1.NewOrderKey()
	e.Must(err)
	e.orders++
	name := fmt.Sprintf("%s-%d", verb, e.orders)
	spec.Holder, spec.PodName, spec.Key, spec.Generalize.Profile = holder, name, public, e.profile
	o := &order{e: e, NodeOrder: &v1alpha1.NodeOrder{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.PodNamespace}, Spec: spec}}
	e.Must(e.client.Create(e.Context(), o.NodeOrder))
	e.Must(node.CreateOrderKey(e.Context(), e.Kube(), o.NodeOrder, private))
	pod := node.OrderPod(o.NodeOrder, world.NodeImage+":test", verb, append([]string{"--prototype", holder.Name, "--uid", string(holder.UID)}, args...)...)
	pod, err = e.Kube().CoreV1().Pods(e.PodNamespace).Create(e.Context(), pod, metav1.CreateOptions{})
	e.Must(err)
	o.record = v1alpha1.OrderRecord{Namespace: o.Namespace, UID: o.UID, Key: public, Pod: pod.UID}
	return o
}

// await waits for a report of the pod.
func (o *order) await(what string, is func(r *v1alpha1.Report) bool) (report *v1alpha1.Report) {
	o.e.Helper()
	o.e.Eventually(what, func() (bool, string) {
		pod, gone := o.e.Kube().CoreV1().Pods(o.Namespace).Get(o.e.Context(), o.Name, metav1.GetOptions{}) // before the report that it may have written
		o.e.Must(o.e.client.Get(o.e.Context(), client.ObjectKeyFromObject(o.NodeOrder), o.NodeOrder))
		var err error
		report, err = v1alpha1.ReportOf(o.NodeOrder, o.record)
		o.e.Must(err)
		if report != nil && is(report) {
			return true, ""
		}
		if gone != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			o.e.Fatalf("pod %s ended before %s (%v); its report is %s; status %+v", o.Name, what, gone, o.Status.Report, pod.Status.ContainerStatuses)
		}
		return false, fmt.Sprintf("report %s, pod %v, %v", o.Status.Report, pod.Status.Phase, pod.Status.ContainerStatuses)
	})
	return report
}

// say gives the pod the engine's word.
func (o *order) say(word v1alpha1.Word) {
	o.e.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.MomentAnnotation, word)
	o.e.Must(o.e.client.Patch(o.e.Context(), o.NodeOrder, client.RawPatch("application/merge-patch+json", patch)))
}

func (o *order) isIn(states ...v1alpha1.MomentState) func(r *v1alpha1.Report) bool {
	return func(r *v1alpha1.Report) bool { return r.Moment != nil && slices.Contains(states, r.Moment.State) }
}

// quiesce orders the moment of a copy on the donor.
func (e *env) quiesce(flags ...string) *order {
	e.Helper()
	random := make([]byte, 32)
	_, _ = rand.Read(random)
	boot := e.Node(e.Donor).Status.NodeInfo.BootID
	return e.carryOut(v1alpha1.NodeOrderSpec{
		NodeName: e.Donor, Method: v1alpha1.OrderQuiesce, Token: boot, Moment: &v1alpha1.OrderMoment{Nonce: hex.EncodeToString(random)},
	}, "quiesce", append(slices.Clone(flags), "--root", node.HostMount, "--boot-id", boot)...)
}

// moment is a copy of the donor's disk, with the flags that identify it.
type moment struct {
	*v1alpha1.Moment
	snapshot string
	flags    []string
}

// take takes the copy in the freeze. A busy host may answer after the second that a freeze lasts; then another order begins.
func (e *env) take() moment {
	e.Helper()
	for range 10 {
		o := e.quiesce()
		o.await("the node is quiet", o.isIn(v1alpha1.MomentQuiet))
		o.say(v1alpha1.WordProceed)
		o.await("the disk stands", o.isIn(v1alpha1.MomentNow, v1alpha1.MomentOver))
		snapshot := e.snapshot(e.volumeOf(e.donor()))
		o.say(v1alpha1.WordAccepted)
		m := o.await("the moment is over", o.isIn(v1alpha1.MomentOver)).Moment
		if m.InTime {
			return moment{m, snapshot, []string{
				"--machine-id", m.MachineID, "--root-uuid", m.RootUUID, "--nonce-name", string(o.UID), "--nonce", o.Spec.Moment.Nonce,
			}}
		}
		e.Logf("not in time: %s", m.Message)
	}
	e.Fatal("no copy was in time")
	return moment{}
}

// snapshot asks for a snapshot of a volume.
func (e *env) snapshot(volume string) string {
	e.Helper()
	snap, err := sandbox.AWS().EC2().CreateSnapshot(e.Context(), &ec2.CreateSnapshotInput{VolumeId: &volume})
	e.Must(err)
	return *snap.SnapshotId
}

// volumeOf is the root volume of a machine.
func (e *env) volumeOf(m machine.Status) string {
	e.Helper()
	out, err := sandbox.AWS().EC2().DescribeInstances(e.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{m.ID}})
	e.Must(err)
	i := out.Reservations[0].Instances[0]
	for _, d := range i.BlockDeviceMappings {
		if *d.DeviceName == *i.RootDeviceName {
			return *d.Ebs.VolumeId
		}
	}
	e.Fatalf("instance %s has no root volume", m.ID)
	return ""
}

// completed waits for a snapshot.
func (e *env) completed(snapshot string) {
	e.Helper()
	e.Eventually("snapshot "+snapshot+" is complete", func() (bool, string) {
		out, err := sandbox.AWS().EC2().DescribeSnapshots(e.Context(), &ec2.DescribeSnapshotsInput{SnapshotIds: []string{snapshot}})
		e.Must(err)
		return out.Snapshots[0].State == "completed", fmt.Sprint(out.Snapshots[0].State)
	})
}

// attach makes a volume from a snapshot, and gives it to the workshop.
func (e *env) attach(snapshot string) (volume string) {
	e.Helper()
	e.completed(snapshot)
	instances, err := sandbox.AWS().EC2().DescribeInstances(e.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{e.workshop().ID}})
	e.Must(err)
	made, err := sandbox.AWS().EC2().CreateVolume(e.Context(), &ec2.CreateVolumeInput{
		SnapshotId: &snapshot, AvailabilityZone: instances.Reservations[0].Instances[0].Placement.AvailabilityZone,
	})
	e.Must(err)
	state := func(want string) {
		e.Eventually("volume "+*made.VolumeId+" is "+want, func() (bool, string) {
			out, err := sandbox.AWS().EC2().DescribeVolumes(e.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{*made.VolumeId}})
			e.Must(err)
			v := out.Volumes[0]
			return string(v.State) == want || len(v.Attachments) > 0 && string(v.Attachments[0].State) == want, fmt.Sprint(v.State, v.Attachments)
		})
	}
	state("available")
	device := "/dev/sdf"
	_, err = sandbox.AWS().EC2().AttachVolume(e.Context(), &ec2.AttachVolumeInput{VolumeId: made.VolumeId, InstanceId: &e.Machines[1].ID, Device: &device})
	e.Must(err)
	state("attached")
	return *made.VolumeId
}

// clean orders the work on the copy.
func (e *env) clean(m moment, volume, serial string) *order {
	e.Helper()
	o := e.carryOut(v1alpha1.NodeOrderSpec{
		NodeName: e.workshop().Node, Method: v1alpha1.OrderCopy, Token: m.snapshot + "@" + serial,
	}, "generalize", append([]string{
		"--device", node.HostMount + "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_" + strings.ReplaceAll(volume, "-", ""),
		"--serial", serial, "--snapshot", m.snapshot, "--machine-root", node.HostMount, "--profile", string(e.profile),
	}, m.flags...)...)
	o.record.Copy = &v1alpha1.CopiedDisk{Snapshot: m.snapshot, Device: serial}
	return o
}

// result is the report about the copy.
func (o *order) result() *v1alpha1.Report {
	o.e.Helper()
	return o.await("the copy is cleaned or discarded", func(r *v1alpha1.Report) bool { return r.Proof != nil || r.Unproven != nil })
}

// discarded asserts that a copy has no proof, for a reason.
func (o *order) discarded(reason, says string) {
	o.e.Helper()
	r := o.result()
	if u := r.Unproven; u == nil || u.Reason != reason || !strings.Contains(u.Message, says) ||
		!(v1alpha1.Record{Order: &o.record}).Answers(u, holder.UID) {
		o.e.Errorf("the report is %+v, %+v, want %s: %s", r.Proof, u, reason, says)
	}
}

// write writes a file on the donor's disk.
func (e *env) write(path, text string) {
	e.Helper()
	path = filepath.Join(e.donor().Disk, path)
	e.Must(os.MkdirAll(filepath.Dir(path), 0o755))
	e.Must(os.WriteFile(path, []byte(text), 0o644))
}
