package sandboxtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
	"github.com/kamino-dev/kamino/sandbox/unverified"
)

// Env is the environment of a test: a pool, and a namespace with Kamino's objects. Tests run in parallel, because
// each namespace has its own Lease.
type Env struct {
	*testing.T
	Sandbox *Sandbox
	// Pool is the pool's name in the sandbox. Group is the name in the cloud and in Prototypes.
	Pool, Group string
	// Namespace for kamino's Leases and Secrets, and PodNamespace for the generalize pods.
	Namespace, PodNamespace string
	// Machines of the pool when the environment was ready, and the names of their Nodes. Donor is the first Node.
	Machines []machine.Status
	Nodes    []string
	Donor    string
	// Environ are variables of the processes, as NAME=VALUE, on top of the sandbox's.
	Environ []string
	// Before is the pool's state when the environment was ready.
	Before PoolState

	ready     time.Time
	processes []*Process
	barrier   *Barrier
}

// EnvOptions are the options of an environment.
type EnvOptions struct {
	// Pool as on the command line, such as "name=a,nodes=2".
	Pool string
	// Namespace is v1alpha1.DefaultNamespace, with the default namespace for pods. Empty: two new ones, kamino-<pool> and
	// kamino-<pool>-generalize.
	Namespace string
	// Shared keeps the pool when the test ends.
	Shared bool
}

// NewEnv creates a pool as on the command line, such as "name=a,nodes=2", and a new namespace.
func (s *Sandbox) NewEnv(t *testing.T, description string) *Env {
	t.Helper()
	return s.NewEnvWith(t, EnvOptions{Pool: description})
}

// NewEnvWith is NewEnv with options.
func (s *Sandbox) NewEnvWith(t *testing.T, o EnvOptions) *Env {
	t.Helper()
	s.Install(t)
	spec, err := pool.Parse(o.Pool)
	if err != nil {
		t.Fatal(err)
	}
	e := &Env{T: t, Sandbox: s, Pool: spec.Name, Namespace: o.Namespace, PodNamespace: v1alpha1.DefaultGeneralizeNamespace}
	if o.Shared {
		e.Machines = s.SharedPool(t, o.Pool)
	} else {
		e.Machines = s.Pool(t, o.Pool)
	}
	for _, m := range e.Machines {
		e.Nodes = append(e.Nodes, m.Node)
	}
	e.Donor, e.Group = e.Nodes[0], e.CloudPool().Group
	if e.Namespace == "" {
		e.Namespace, e.PodNamespace = "kamino-"+e.Pool, "kamino-"+e.Pool+"-generalize"
		s.Namespaces(t, e.Namespace, e.PodNamespace)
	}
	e.Environ = s.Rights(t, e.Namespace)
	t.Cleanup(e.cleanUp)
	e.Before, e.ready = e.State(), time.Now()
	return e
}

// cleanUp deletes the Prototypes of a failed test, because other tests could wait for the captures.
func (e *Env) cleanUp() {
	if !e.Failed() {
		return
	}
	ctx := context.Background()
	_ = e.Kube().CoordinationV1().Leases(e.Namespace).Delete(ctx, v1alpha1.LeaseName, metav1.DeleteOptions{})
	all, _ := e.prototypes(ctx)
	for _, p := range all {
		e.Logf("prototype %s is %s: failure %+v, trial %+v, donor %+v", p.Name, p.Status.Phase, p.Status.Failure, p.Status.Trial, p.Status.Donor)
		_, _ = e.PrototypeClient().Patch(ctx, p.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		_ = e.PrototypeClient().Delete(ctx, p.Name, metav1.DeleteOptions{})
	}
}

// Must fails the test if there is an error.
func (e *Env) Must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// Kube is the administrator's client of the cluster.
func (e *Env) Kube() kubernetes.Interface { return e.Sandbox.Kube() }

// Start starts kamino with the rights of its users in the environment's namespaces.
func (e *Env) Start(args ...string) *Process {
	e.Helper()
	return e.StartProgram("kamino", append(slices.Clone(args), e.NamespaceFlags()...)...)
}

// NamespaceFlags name the environment's namespaces to kamino.
func (e *Env) NamespaceFlags() []string {
	return []string{"--namespace", e.Namespace, "--generalize-namespace", e.PodNamespace}
}

// StartProgram starts one of the sandbox's programs with the environment's variables. Start kubectl with
// Sandbox.Start instead, because kubectl does not work behind a barrier, where users have no credential.
func (e *Env) StartProgram(program string, args ...string) *Process {
	e.Helper()
	p := e.Sandbox.Start(e.T, e.Environ, program, args...)
	e.processes = append(e.processes, p)
	return p
}

// Capture starts a capture of a node without a trial. The capture does not wait for donors of other tests.
func (e *Env) Capture(node string, flags ...string) *Process {
	e.Helper()
	return e.Start(CaptureArgs(e.T, node, flags...)...)
}

// CaptureWith is Capture with settings, in YAML's flow form without the outer braces.
func (e *Env) CaptureWith(node, settings string, flags ...string) *Process {
	e.Helper()
	return e.Start(append(unverified.Capture(node, "-f", SettingsFile(e.T, settings)), flags...)...)
}

// CaptureArgs are the arguments of Capture.
func CaptureArgs(t testing.TB, node string, flags ...string) []string {
	t.Helper()
	return append(unverified.Capture(node, "-f", SettingsFile(t, "")), flags...)
}

// atOnce is the limit of captures at once for commands of tests, which run in parallel.
const atOnce = 100

// SettingsFile writes a file for `kamino capture -f`: settings in YAML's flow form without the outer braces, and a limit with
// which the capture does not wait for donors of other tests.
func SettingsFile(t testing.TB, settings string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, "maxConcurrent: %d\nsettings: {%s}\n", atOnce, settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// StartController starts the controller, and returns when the controller holds the Lease. A controller handles all
// Prototypes of the cluster: the test must not run in parallel with other tests.
func (e *Env) StartController(flags ...string) *Process {
	e.Helper()
	p := e.Start(append([]string{"controller", "--health-probe-bind-address", "0"}, flags...)...)
	p.WaitOutput("controller holds the Lease")
	return p
}

// FreeLease deletes the Lease of a killed process. Otherwise, the Lease would expire after half a minute.
func (e *Env) FreeLease() {
	e.Helper()
	err := e.Kube().CoordinationV1().Leases(e.Namespace).Delete(e.Context(), v1alpha1.LeaseName, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		e.Must(err)
	}
}

// Kill kills a process and frees the Lease.
func (e *Env) Kill(p *Process) {
	e.Helper()
	p.Kill()
	e.FreeLease()
}

// Eventually waits until done returns true.
func (e *Env) Eventually(what string, done func() (ok bool, state string)) {
	e.Helper()
	Eventually(e.T, "pool "+e.Pool+": "+what, done)
}

// Fault adds a fault to the cloud until remove is called, or the test ends. Use a Path with e.Group, so that other
// tests do not get the fault. Do not fail reads of the pool: the environments of all tests list the pools.
func (e *Env) Fault(f fault.Fault) (remove func()) {
	e.Helper()
	return e.Sandbox.Fault(e.T, f)
}

// PrototypeClient is a client for Prototypes.
func (e *Env) PrototypeClient() dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(e.Sandbox.Config()).Resource(v1alpha1.GroupVersion.WithResource("prototypes"))
}

// Prototypes of the pool, sorted by name.
func (e *Env) Prototypes() []v1alpha1.Prototype {
	e.Helper()
	all, err := e.prototypes(context.WithoutCancel(e.Context()))
	e.Must(err)
	return all
}

func (e *Env) prototypes(ctx context.Context) (all []v1alpha1.Prototype, err error) {
	list, err := e.PrototypeClient().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		var p v1alpha1.Prototype
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &p); err != nil {
			return nil, err
		}
		if p.Spec.Pool == e.Group {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b v1alpha1.Prototype) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Prototype is the only Prototype of the pool; nil if the pool has none. The test fails if there are more.
func (e *Env) Prototype() *v1alpha1.Prototype {
	e.Helper()
	all := e.Prototypes()
	switch len(all) {
	case 0:
		return nil
	case 1:
		return &all[0]
	}
	e.Fatalf("pool %s has %d Prototypes", e.Pool, len(all))
	return nil
}

// WaitPrototype waits until the pool's only Prototype is in a state, and returns the Prototype.
func (e *Env) WaitPrototype(what string, is func(*v1alpha1.Prototype) bool) (p *v1alpha1.Prototype) {
	e.Helper()
	e.Eventually(what, func() (bool, string) {
		if p = e.Prototype(); p == nil {
			return false, "there is no Prototype"
		}
		return is(p), fmt.Sprintf("Prototype %s is %s, %s; failure %+v, trial %+v", p.Name, p.Status.Phase, p.Status.Progress, p.Status.Failure, p.Status.Trial)
	})
	return p
}

// InPhase reports whether a Prototype is in a phase, for WaitPrototype.
func InPhase(phase v1alpha1.Phase) func(*v1alpha1.Prototype) bool {
	return func(p *v1alpha1.Prototype) bool { return p.Status.Phase == phase }
}

// Ended reports whether a capture has succeeded or failed, without remaining work.
func Ended(p *v1alpha1.Prototype) bool {
	record, err := v1alpha1.RecordOf(p)
	ended := p.Status.Phase == v1alpha1.PhaseFailed || p.Status.Phase == v1alpha1.PhaseSucceeded
	return err == nil && ended && record.Reservation == nil && len(p.Finalizers) == 0
}

// Node returns the current Node.
func (e *Env) Node(name string) *corev1.Node {
	e.Helper()
	n, err := e.Kube().CoreV1().Nodes().Get(e.Context(), name, metav1.GetOptions{})
	e.Must(err)
	return n
}

// MachinesNow returns the current machines of the pool, sorted by ID.
func (e *Env) MachinesNow() []machine.Status {
	e.Helper()
	return e.Sandbox.MachinesOf(e.T, e.Pool)
}

// Machine of a node of the pool.
func (e *Env) Machine(node string) machine.Status {
	e.Helper()
	for _, m := range e.MachinesNow() {
		if m.Node == node {
			return m
		}
	}
	e.Fatalf("node %s has no machine", node)
	return machine.Status{}
}

// CloudPool returns the current state of the pool in the cloud.
func (e *Env) CloudPool() control.Pool {
	e.Helper()
	all, err := e.Sandbox.Pools(e.Context())
	e.Must(err)
	for _, p := range all {
		if p.Name == e.Pool {
			return p
		}
	}
	e.Fatalf("there is no pool %s", e.Pool)
	return control.Pool{}
}

// VersionOf returns the pool's version with this image, or an empty string.
func (e *Env) VersionOf(image string) string {
	e.Helper()
	version, err := e.Sandbox.VersionOf(e.Context(), e.Pool, image)
	e.Must(err)
	return version
}

// NextVersion is the version in the recipe; empty if the image is no version of the pool.
func (e *Env) NextVersion() string {
	e.Helper()
	return e.VersionOf(e.CloudPool().Image)
}

// Versions of the pool in the cloud.
func (e *Env) Versions() []region.Version {
	e.Helper()
	all, err := e.Sandbox.Versions(e.Context(), e.Pool)
	e.Must(err)
	return all
}

// Tags returns the tags of a version in the cloud. An empty name means the only version.
func (e *Env) Tags(version string) map[string]string {
	e.Helper()
	all := e.Versions()
	for _, v := range all {
		if v.Name == version || version == "" && len(all) == 1 {
			return v.Tags
		}
	}
	e.Fatalf("pool %s has the versions %v, not %q", e.Pool, all, version)
	return nil
}

// Resize changes the pool's size as an autoscaler would, and does not wait for the nodes.
func (e *Env) Resize(nodes int64) {
	e.Helper()
	_, err := e.Sandbox.Scale(e.Context(), e.Pool, control.Scale{Nodes: nodes}, func(control.Event) {})
	e.Must(err)
}

// Grow adds a node to the pool, and returns its machine when the node is Ready.
func (e *Env) Grow() machine.Status {
	e.Helper()
	joins, err := e.Sandbox.Scale(e.Context(), e.Pool, control.Scale{Nodes: e.CloudPool().Capacity + 1, Wait: true}, func(control.Event) {})
	if err != nil || len(joins) != 1 {
		e.Fatalf("pool %s grew by %d nodes: %v", e.Pool, len(joins), err)
	}
	return e.Machine(joins[0].Node)
}

// Spoil gives a defect to an existing version, or with an empty name to the next version.
func (e *Env) Spoil(version string, d disk.Defect) {
	e.Helper()
	_, err := e.Sandbox.Spoil(e.Context(), e.Pool, control.Spoil{Version: version, Defect: d})
	e.Must(err)
}

// MachinesOfVersions returns all machines that were built from versions of the pool, inside or outside the pool.
func (e *Env) MachinesOfVersions() []machine.Status {
	e.Helper()
	versions := e.Versions()
	return slices.DeleteFunc(e.Sandbox.Fleet().Machines(), func(m machine.Status) bool {
		return !slices.ContainsFunc(versions, func(v region.Version) bool { return strings.EqualFold(v.ID, m.Image) })
	})
}

// Requests to the cloud with the pool's name in the path, since the environment was ready.
func (e *Env) Requests() []requestlog.Request {
	e.Helper()
	all := e.Sandbox.Cloud().Requests()
	if len(all) > 0 && all[0].Time.After(e.ready) {
		e.Fatal("the cloud has forgotten requests")
	}
	return slices.DeleteFunc(all, func(r requestlog.Request) bool {
		return !r.Time.After(e.ready) || !strings.Contains(strings.ToLower(r.Path), strings.ToLower(e.Group))
	})
}

// Writes are the changes among Requests, such as "snapshot put". Refused requests are included.
func (e *Env) Writes() (writes []string) {
	e.Helper()
	for _, r := range e.Requests() {
		if r.Class == requestlog.Write {
			writes = append(writes, r.Noun+" "+r.Operation)
		}
	}
	return writes
}

// CountWrites counts a change among Writes.
func (e *Env) CountWrites(write string) (n int) {
	e.Helper()
	for _, w := range e.Writes() {
		if w == write {
			n++
		}
	}
	return n
}

// ResetWrites resets Requests and Writes.
func (e *Env) ResetWrites() { e.ready = time.Now() }
