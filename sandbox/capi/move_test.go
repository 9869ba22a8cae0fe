package capi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kamino-dev/kamino/internal/cloud"
	sandbox "github.com/kamino-dev/kamino/sandbox/capi"
)

// secondCluster is a second management cluster with its own controllers, for machines of the same fleet.
type secondCluster struct {
	management
	dir string
	// lag is how much later than of everything else Cluster API hears there of MachineDeployments, as a time.Duration.
	lag atomic.Int64
}

func newOther(t *testing.T) *secondCluster {
	t.Helper()
	if shared == nil {
		t.Skip("KAMINO_CLUSTERAPI_BIN and KUBEBUILDER_ASSETS are not set: `make test-long` sets them")
	}
	env := &envtest.Environment{ControlPlaneStartTimeout: maxWait, ControlPlaneStopTimeout: maxWait}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	config.QPS, config.Burst = 1000, 2000
	o := &secondCluster{management: management{config: config, kubeconfig: env.KubeConfig, fleet: shared.fleet}, dir: t.TempDir()}
	if o.client, err = client.New(config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"from": shared.kubeconfig, "to": o.kubeconfig, "late": o.lateKubeconfig(t)} {
		if err := os.WriteFile(filepath.Join(o.dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start, stop := context.WithTimeout(t.Context(), maxWait)
	defer stop()
	controllers, err := sandbox.Start(start,
		sandbox.Options{Bin: os.Getenv("KAMINO_CLUSTERAPI_BIN"), Config: config, Kubeconfig: filepath.Join(o.dir, "late"), Dir: o.dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = controllers.Stop() })
	o.controllers = controllers
	ended := make(chan error, 1)
	go func() {
		ended <- sandbox.RunInfrastructure(t.Context(), config, map[string]sandbox.Maker{"AWSMachine": o.fleet}, logr.Discard())
	}()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return o
}

// lateKubeconfig returns a kubeconfig with a proxy that delays watches of MachineDeployments.
func (o *secondCluster) lateKubeconfig(t *testing.T) []byte {
	t.Helper()
	to, err := url.Parse(o.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	if proxy.Transport, err = rest.TransportFor(o.config); err != nil {
		t.Fatal(err)
	}
	proxy.FlushInterval, proxy.ErrorLog = -1, log.New(io.Discard, "", 0)
	proxy.ModifyResponse = func(r *http.Response) error {
		if strings.HasSuffix(r.Request.URL.Path, "/machinedeployments") && r.Request.URL.Query().Get("watch") == "true" {
			r.Body = slowReader{r.Body, &o.lag}
		}
		return nil
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["late"] = &clientcmdapi.Cluster{Server: server.URL}
	kubeconfig.Contexts["late"] = &clientcmdapi.Context{Cluster: "late"}
	kubeconfig.CurrentContext = "late"
	content, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// slowReader delays what it reads.
type slowReader struct {
	io.ReadCloser
	long *atomic.Int64
}

func (l slowReader) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	time.Sleep(time.Duration(l.long.Load()))
	return n, err
}

// moveHere moves a pool's Cluster here with the real clusterctl, and returns the pool in this cluster.
func (o *secondCluster) moveHere(p *pool) *pool {
	p.t.Helper()
	moved := &pool{management: &o.management, t: p.t, namespace: p.namespace, name: p.name, line: p.line, published: p.published}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "boot"}, StringData: map[string]string{"value": "nothing"}},
	} {
		if err := o.client.Create(p.t.Context(), object); err != nil {
			p.t.Fatal(err)
		}
	}
	command := exec.CommandContext(p.t.Context(), filepath.Join(os.Getenv("KAMINO_CLUSTERAPI_BIN"), "clusterctl"), "move",
		"--namespace", p.namespace, "--kubeconfig", filepath.Join(o.dir, "from"), "--to-kubeconfig", filepath.Join(o.dir, "to"))
	command.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "XDG_CONFIG_HOME="+o.dir)
	if out, err := command.CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %v\n%s", command.Args, err, out)
	}
	moved.setControlPlaneReady("home")
	return moved
}

// errDied is the error of a write after the death of the process.
var errDied = errors.New("the process has died")

// dyingTransport lets a number of successful writes through.
type dyingTransport struct {
	http.RoundTripper
	mu   *sync.Mutex
	left *int
}

func (m dyingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Method == http.MethodGet {
		return m.RoundTripper.RoundTrip(r)
	}
	if *m.left == 0 {
		return nil, errDied
	}
	answer, err := m.RoundTripper.RoundTrip(r)
	if err == nil && answer.StatusCode < http.StatusBadRequest {
		*m.left--
	}
	return answer, err
}

// removeUntilDeath begins to remove an instance in a process that dies after a number of writes.
func (p *pool) removeUntilDeath(id cloud.InstanceID, writes int) {
	p.t.Helper()
	left, config := writes, rest.CopyConfig(p.config)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return dyingTransport{inner, &sync.Mutex{}, &left} })
	remover := p.recipesBy(config)
	deadline := time.Now().Add(maxWait)
	for left > 0 {
		_, err := remover.EnsureRemoved(p.t.Context(), id)
		if err != nil && left > 0 && !cloud.Is(err, cloud.Unavailable) && !cloud.Is(err, cloud.Conflict) {
			p.t.Fatal(err)
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("after %v the removal has %d of %d writes to go", maxWait, left, writes)
		}
	}
}

// removalWrites is the number of writes of a removal. Their objects are the Machine twice, the pool, the set, the
// pool, and the Machine.
const removalWrites = 6

// TestClusterMoved moves a Cluster to another management cluster after each write of a removal. A process for the
// new cluster finishes the removal, and removes one place and one machine. Before, a missing object is not reported
// as gone.
func TestClusterMoved(t *testing.T) {
	t.Parallel()
	o := newOther(t)
	for writes := 1; writes <= removalWrites; writes++ {
		t.Run(fmt.Sprintf("after %d writes", writes), func(t *testing.T) {
			t.Parallel()
			p := newPool(t, deployment)
			before := p.instances()
			donor := before[0]
			if err := p.recipes().ProtectFromScaleIn(t.Context(), donor, cloud.TokenUnprotected); err != nil {
				t.Fatal(err)
			}
			p.removeUntilDeath(donor, writes)
			if writes == removalWrites { // clusterctl fails if a machine is deleted during its discovery
				p.waitGone(donor)
			}
			moved := o.moveHere(p)
			p.wantMoved(donor)

			moved.wait("the donor is gone", func() bool {
				state, err := moved.recipes().EnsureRemoved(t.Context(), donor)
				if err != nil && !cloud.Is(err, cloud.Unavailable) {
					t.Fatal(err)
				}
				return err == nil && state == cloud.Absent
			})
			moved.wait("the pool is whole", func() bool { return slices.Equal(moved.instances(), before[1:]) })
			moved.wantAtWork(2)
			if err := moved.recipes().SetCapacity(t.Context(), moved.id(), 2, 3); err != nil {
				t.Fatal(err)
			}
			moved.wait("three machines", func() bool { return len(moved.instances()) == 3 })
			if there := moved.instances(); !slices.Contains(there, before[1]) || !slices.Contains(there, before[2]) {
				t.Errorf("of %v there are %v", before, there)
			}
		})
	}
}

// TestClusterAPILag: Cluster API sees the pool's pause and new size long after all other changes, even after the
// deletion of a Machine. Cluster API must neither fill the removed place nor select a Machine to delete.
func TestClusterAPILag(t *testing.T) {
	t.Parallel()
	o := newOther(t)
	p := newPool(t, deployment)
	before := p.instances()
	p = o.moveHere(p)
	p.wait("its machines", func() bool { return slices.Equal(p.instances(), before) })
	p.wait("Cluster API is at work", func() bool { return observed(*p.get("MachineDeployment", p.name)) })
	changes := p.setGenerations()
	o.lag.Store(int64(20 * time.Second))
	p.wait("the donor is gone", func() bool {
		state, err := p.recipes().EnsureRemoved(t.Context(), before[0])
		if err != nil && !cloud.Is(err, cloud.Unavailable) {
			t.Fatal(err)
		}
		return err == nil && state == cloud.Absent
	})
	o.lag.Store(0)
	p.wait("Cluster API knows of it", func() bool { return observed(*p.get("MachineDeployment", p.name)) })
	p.wantAtWork(2)
	if now := p.instances(); !slices.Equal(now, before[1:]) {
		t.Errorf("of %v there are %v", before, now)
	}
	if changes = p.setGenerations() - changes; changes != 1 {
		t.Errorf("the pool's set was given another size %d times, and not once", changes)
	}
}

// setGenerations returns the sum of the generations of the pool's sets.
func (p *pool) setGenerations() (all int64) {
	for _, set := range p.list("MachineSet") {
		all += set.GetGeneration()
	}
	return all
}

// deletingTransport deletes a Machine just before the first write to the Machine arrives.
type deletingTransport struct {
	http.RoundTripper
	once *sync.Once
	away func(name string)
}

func (v deletingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, name, of := strings.Cut(r.URL.Path, "/machines/"); of && r.Method == http.MethodPatch {
		v.once.Do(func() { v.away(name) })
	}
	return v.RoundTripper.RoundTrip(r)
}

// TestMachineGoneBeforeAWrite: if the Machine is gone before a write of the removal, the result is Absent without
// an error.
func TestMachineGoneBeforeAWrite(t *testing.T) {
	t.Parallel()
	p := newPool(t, deployment)
	donor, config := p.instances()[0], rest.CopyConfig(p.config)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return deletingTransport{inner, &sync.Once{}, func(name string) {
			m := p.get("Machine", name)
			if err := p.client.Delete(t.Context(), m); err != nil {
				t.Error(err)
			}
			if err := p.client.Patch(t.Context(), m,
				client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		}}
	})
	if state, err := p.recipesBy(config).EnsureRemoved(t.Context(), donor); err != nil || state != cloud.Absent {
		t.Errorf("it is %v, %v", state, err)
	}
	p.wantAtWork(3)
}

// waitGone waits until no Machine has an instance.
func (p *pool) waitGone(id cloud.InstanceID) {
	p.t.Helper()
	p.wait("machine of "+string(id)+" is gone", func() bool {
		return !slices.ContainsFunc(p.list("Machine"), func(m unstructured.Unstructured) bool {
			of, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
			return of == string(id)
		})
	})
}

// wantAtWork requires equal sizes of pool and sets, and no mark of a removal.
func (p *pool) wantAtWork(size int64) {
	p.t.Helper()
	md, sets := p.get("MachineDeployment", p.name), int64(0)
	for _, set := range p.list("MachineSet") {
		sets += sizeOf(set)
	}
	if sizeOf(*md) != size || sets != size {
		p.t.Errorf("the pool wants %d machines, and its sets %d; want %d", sizeOf(*md), sets, size)
	}
	for _, key := range []string{"cluster.x-k8s.io/paused", "kamino.dev/place-of"} {
		if value, kept := md.GetAnnotations()[key]; kept {
			p.t.Errorf("the pool keeps %s: %q", key, value)
		}
	}
}

// TestDeletionHookRemoved: a user removes the hook during a removal, so the Machine is deleted without Kamino. The
// pool works again. If the set knew of the removal, the pool has one place less; else the place is filled again. No
// other machine is deleted.
func TestDeletionHookRemoved(t *testing.T) {
	t.Parallel()
	for writes, size := range map[int]int64{3: 3, 4: 2} {
		t.Run(fmt.Sprintf("after %d writes", writes), func(t *testing.T) {
			t.Parallel()
			p := newPool(t, deployment)
			before := p.instances()
			p.removeUntilDeath(before[0], writes)
			for _, m := range p.list("Machine") {
				if m.GetDeletionTimestamp() != nil {
					p.merge("Machine", m.GetName(), `{"metadata":{"annotations":{"pre-drain.delete.hook.machine.cluster.x-k8s.io/kamino":null}}}`)
				}
			}
			p.waitGone(before[0])
			p.wait("the pool is whole", func() bool { return int64(len(p.instances())) == size })
			state, err := p.recipes().EnsureRemoved(t.Context(), before[0])
			if err != nil || state != cloud.Absent {
				t.Fatalf("%s, %v", state, err)
			}
			p.wantAtWork(size)
			if now := p.instances(); !slices.Contains(now, before[1]) || !slices.Contains(now, before[2]) {
				t.Errorf("of %v there are %v", before, now)
			}
		})
	}
}

// wantMoved requires that each call for a missing Cluster reports only the missing Cluster.
func (p *pool) wantMoved(donor cloud.InstanceID) {
	p.t.Helper()
	r, ctx, trial := p.recipes(), p.t.Context(), cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: p.poolID(), Version: "2026.03.14"}, Name: "one"}
	workshop := cloud.WorkshopSpec{Pool: p.poolID(), Name: "one", Tags: ofOwner}
	for what, err := range map[string]error{
		"EnsureRemoved": errorOf(r.EnsureRemoved(ctx, donor)), "Protection": errorOf(r.Protection(ctx, donor)),
		"ProtectFromScaleIn": r.ProtectFromScaleIn(ctx, donor, cloud.TokenUnprotected), "Unprotect": r.Unprotect(ctx, donor, cloud.TokenUnprotected),
		"Pool": errorOf(r.Pool(ctx, trial.Pool)), "SetCapacity": r.SetCapacity(ctx, trial.Pool, 2, 3), "Instances": errorOf(r.Instances(ctx, trial.Pool)),
		"PoolsOf": errorOf(r.PoolsOf(ctx, []cloud.NodeValues{{ProviderID: donor}})), "Trial": errorOf(r.Trial(ctx, trial)),
		"EndTrial": errorOf(r.EndTrial(ctx, trial)), "EnsureTrial": errorOf(r.EnsureTrial(ctx, trial)),
		"Workshop": errorOf(r.Workshop(ctx, workshop)), "EndWorkshop": errorOf(r.EndWorkshop(ctx, workshop)),
		"EnsureWorkshop": errorOf(r.EnsureWorkshop(ctx, workshop)),
	} {
		if !cloud.Is(err, cloud.Unavailable) || !strings.Contains(err.Error(), "--management-kubeconfig") {
			p.t.Errorf("%s of a Cluster that was moved: %v", what, err)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

// TestPausedClusterIsWaitedFor: while a Cluster is paused, nothing is written, and a missing object is not reported
// as gone.
func TestPausedClusterIsWaitedFor(t *testing.T) {
	t.Parallel()
	p := newPool(t, deployment)
	p.publish("2026.03.14")
	r, ctx, donor := p.recipes(), t.Context(), p.instances()[0]
	change, err := r.RecipeChange(ctx, cloud.Target{Pool: p.id(), Version: "2026.03.14", Image: p.imageID("2026.03.14")}, false)
	if err != nil {
		t.Fatal(err)
	}
	p.merge("Cluster", "home", `{"spec":{"paused":true}}`)
	stamps := func() (all []string) {
		for _, kind := range []string{"MachineDeployment", "MachineSet", "Machine", "AWSMachine", "AWSMachineTemplate"} {
			for _, o := range p.list(kind) {
				all = append(all, fmt.Sprint(kind, o.GetName(), o.GetUID(), o.GetAnnotations(), o.GetDeletionTimestamp(), o.Object["spec"]))
			}
		}
		return all
	}
	before := stamps()
	const missing = cloud.InstanceID("aws:///eu-central-1a/i-0fffffffffffffff0")
	trial := cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: p.id(), Version: "2026.03.14"}, Name: "one", To: p.imageID("2026.03.14")}
	workshop := cloud.WorkshopSpec{Pool: p.id(), Name: "one", Tags: ofOwner}
	for what, err := range map[string]error{
		"EnsureRemoved": errorOf(r.EnsureRemoved(ctx, donor)), "EnsureRemoved of none": errorOf(r.EnsureRemoved(ctx, missing)),
		"Protection none":    errorOf(r.Protection(ctx, missing)),
		"ProtectFromScaleIn": r.ProtectFromScaleIn(ctx, donor, cloud.TokenUnprotected), "Unprotect": r.Unprotect(ctx, donor, cloud.TokenUnprotected),
		"SetCapacity": r.SetCapacity(ctx, p.id(), 3, 4), "SetRecipe": r.SetRecipe(ctx, change),
		"Instances": errorOf(r.Instances(ctx, p.id())), "Trial": errorOf(r.Trial(ctx, trial)), "EnsureTrial": errorOf(r.EnsureTrial(ctx, trial)),
		"EndTrial": errorOf(r.EndTrial(ctx, trial)), "Workshop": errorOf(r.Workshop(ctx, workshop)),
		"EnsureWorkshop": errorOf(r.EnsureWorkshop(ctx, workshop)), "EndWorkshop": errorOf(r.EndWorkshop(ctx, workshop)),
	} {
		if !cloud.Is(err, cloud.Unavailable) || !strings.Contains(err.Error(), "paused") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now := stamps(); !slices.Equal(now, before) {
		t.Errorf("of a paused Cluster there were\n%s\nand are\n%s", strings.Join(before, "\n"), strings.Join(now, "\n"))
	}
	if hold, err := r.Protection(ctx, donor); err != nil || hold.Protected {
		t.Errorf("the hold of a machine that is there: %+v, %v", hold, err)
	}
	p.merge("Cluster", "home", `{"spec":{"paused":null}}`)
	if err := r.SetRecipe(ctx, change); err != nil {
		t.Error(err)
	}
}
