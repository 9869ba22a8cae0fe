package capi_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kamino-dev/kamino/internal/cloud"
	sandbox "github.com/kamino-dev/kamino/sandbox/capi"
)

// secondCluster is a second management cluster with its own controllers, for machines of the same fleet.
type secondCluster struct {
	management
	dir string
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
	for name, content := range map[string][]byte{"from": shared.kubeconfig, "to": o.kubeconfig} {
		if err := os.WriteFile(filepath.Join(o.dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start, stop := context.WithTimeout(t.Context(), maxWait)
	defer stop()
	controllers, err := sandbox.Start(start,
		sandbox.Options{Bin: os.Getenv("KAMINO_CLUSTERAPI_BIN"), Config: config, Kubeconfig: filepath.Join(o.dir, "to"), Dir: o.dir})
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

// TestClusterMoved moves a Cluster to another management cluster while a workshop runs. A process for the new cluster ends the workshop,
// and the pool keeps its machines. In the previous cluster, a missing object is not reported as gone.
func TestClusterMoved(t *testing.T) {
	t.Parallel()
	o := newOther(t)
	p := newPool(t, withTwoMachines(deployment))
	before, spec := p.instances(), cloud.WorkshopSpec{Pool: p.id(), Name: "moved", Tags: ofOwner}
	p.wait("workshop", func() bool {
		have, err := p.recipes().EnsureWorkshop(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		return have.State == cloud.Complete
	})
	workshop := instanceOf(*p.workshopMachine())
	moved := o.moveHere(p)
	p.wantMoved(before[0])

	moved.wait("the pool's machines", func() bool { return slices.Equal(moved.instances(), before) })
	if found, err := moved.recipes().Workshop(t.Context(), spec); err != nil || found.State == cloud.Absent {
		t.Errorf("the workshop is %+v, %v", found, err)
	}
	moved.wait("end of the workshop", func() bool {
		state, err := moved.recipes().EndWorkshop(t.Context(), spec)
		if err != nil && !cloud.Is(err, cloud.Unavailable) {
			t.Fatal(err)
		}
		return err == nil && state == cloud.Absent
	})
	if _, runs := o.fleet.find(workshop); runs || len(moved.list("Machine")) != 2 || !slices.Equal(moved.instances(), before) {
		t.Errorf("the workshop runs: %t; of the instances %v there are %v", runs, before, moved.instances())
	}
}

// wantMoved requires that each call for a missing Cluster reports only the missing Cluster.
func (p *pool) wantMoved(donor cloud.InstanceID) {
	p.t.Helper()
	r, ctx, trial := p.recipes(), p.t.Context(), cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: p.poolID(), Version: "2026.03.14"}, Name: "one"}
	workshop := cloud.WorkshopSpec{Pool: p.poolID(), Name: "one", Tags: ofOwner}
	for what, err := range map[string]error{
		"Pool": errorOf(r.Pool(ctx, trial.Pool)), "Instances": errorOf(r.Instances(ctx, trial.Pool)),
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

// TestPausedClusterIsWaitedFor: while a Cluster is paused, nothing is written, and a missing object is not reported as gone.
func TestPausedClusterIsWaitedFor(t *testing.T) {
	t.Parallel()
	p := newPool(t, deployment)
	p.publish("2026.03.14")
	r, ctx := p.recipes(), t.Context()
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
	trial := cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: p.id(), Version: "2026.03.14"}, Name: "one", To: p.imageID("2026.03.14")}
	workshop := cloud.WorkshopSpec{Pool: p.id(), Name: "one", Tags: ofOwner}
	for what, err := range map[string]error{
		"SetRecipe": r.SetRecipe(ctx, change),
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
	p.merge("Cluster", "home", `{"spec":{"paused":null}}`)
	if err := r.SetRecipe(ctx, change); err != nil {
		t.Error(err)
	}
}
