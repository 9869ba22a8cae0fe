package capi_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/capi"
	"github.com/kamino-dev/kamino/internal/testing/cloudtest"
	sandbox "github.com/kamino-dev/kamino/sandbox/capi"
	simulation "github.com/kamino-dev/kamino/sandbox/region"
)

// management is the single management cluster of this package's tests. Each test has its own namespace.
type management struct {
	config      *rest.Config
	client      client.Client
	controllers *sandbox.Controllers
	fleet       *fleet
	makers      *makers
	scaleSets   *memorySets
	amazon      *amazon
	// kubeconfig of the workload cluster of every Cluster. The management cluster is its own workload cluster.
	kubeconfig []byte
}

var shared *management

func TestMain(m *testing.M) {
	bin := os.Getenv("KAMINO_CLUSTERAPI_BIN")
	if bin == "" || os.Getenv("KUBEBUILDER_ASSETS") == "" {
		os.Exit(m.Run()) // each test says so
	}
	// Tests wait far more than they work. The command line has precedence.
	_ = flag.Set("test.parallel", "8")
	code, err := run(m, bin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M, bin string) (code int, err error) {
	dir, err := os.MkdirTemp("", "kamino-clusterapi-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	env := &envtest.Environment{ControlPlaneStartTimeout: maxWait, ControlPlaneStopTimeout: maxWait}
	config, err := env.Start()
	if err != nil {
		return 0, err
	}
	defer env.Stop() //nolint:errcheck // as the process ends
	config.QPS, config.Burst = 1000, 2000
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	start, stop := context.WithTimeout(ctx, maxWait)
	defer stop()
	controllers, err := sandbox.Start(start, sandbox.Options{Bin: bin, Config: config, Kubeconfig: kubeconfig, Dir: dir})
	if err != nil {
		return 0, err
	}
	defer controllers.Stop() //nolint:errcheck // as the process ends
	shared = &management{config: config, kubeconfig: env.KubeConfig, controllers: controllers, fleet: &fleet{machines: map[string]*builtMachine{}}}
	if shared.client, err = client.New(config, client.Options{}); err != nil {
		return 0, err
	}
	shared.fleet.nodes = shared.client
	shared.makers = &makers{Maker: shared.fleet, own: map[string]sandbox.Maker{}}
	ended := make(chan error, 3)
	go func() {
		ended <- sandbox.RunInfrastructure(ctx, config, map[string]sandbox.Maker{"AWSMachine": shared.makers, "AzureMachine": shared.makers}, logr.Discard())
	}()
	if err := shared.setGate(ctx, true); err != nil {
		return 0, err
	}
	shared.scaleSets = &memorySets{nodes: shared.client, sets: map[string]*memorySet{}}
	go func() { ended <- sandbox.RunMachinePools(ctx, config, shared.scaleSets, logr.Discard()) }()
	if shared.amazon, err = newAmazon(start, filepath.Join(dir, "aws"), shared.client); err != nil {
		return 0, err
	}
	defer shared.amazon.close()
	groups := simulation.NewGroups(shared.amazon.ec2, shared.amazon.scaling, amazonSubnet, "home")
	go func() { ended <- sandbox.RunGroups(ctx, config, groups, time.Second, logr.Discard()) }()
	code = m.Run()
	cancel()
	if err := errors.Join(<-ended, <-ended, <-ended); err != nil {
		return 0, err
	}
	if kept := os.Getenv("KAMINO_KEEP"); kept != "" {
		_ = os.CopyFS(kept, os.DirFS(dir))
	}
	return code, nil
}

// fleet creates a machine in memory and a Node for each object, at once.
type fleet struct {
	kubelets
	mu       sync.Mutex
	machines map[string]*builtMachine
	made     int
}

type builtMachine struct {
	id    cloud.InstanceID
	image string
	at    time.Time
}

func (f *fleet) Ensure(ctx context.Context, m sandbox.Machine) (string, sandbox.MachineState, error) {
	id := f.ensure(m)
	return id, sandbox.Running, f.join(ctx, m, id)
}

func (f *fleet) ensure(m sandbox.Machine) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	have := f.machines[m.UID]
	if have == nil {
		ami, _, _ := unstructured.NestedString(m.Spec, "ami", "id")
		f.made++
		have = &builtMachine{id: cloud.InstanceID(fmt.Sprintf("aws:///eu-central-1a/i-%017x", f.made)), image: ami, at: time.Now().UTC().Truncate(time.Second)}
		if m.Kind == "AzureMachine" {
			have.id, have.image = cloud.InstanceID(azurePrefix+"virtualMachines/"+m.Namespace+"-"+m.Name), imageText(m.Spec["image"])
		}
		f.machines[m.UID] = have
	}
	return string(have.id)
}

func (f *fleet) Remove(ctx context.Context, m sandbox.Machine) (bool, error) {
	f.mu.Lock()
	delete(f.machines, m.UID)
	f.mu.Unlock()
	return true, f.leave(ctx, m)
}

func (f *fleet) find(id cloud.InstanceID) (builtMachine, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, have := range f.machines {
		if have.id == id {
			return *have, true
		}
	}
	return builtMachine{}, false
}

// pool is a MachineDeployment in its own namespace. Images are only names.
type pool struct {
	*management
	t         testing.TB
	namespace string
	name      string
	line      string
	stock     *suitePools // nil if no stock takes the pool back
	fresh     string      // state of the unchanged pool
	// images: the pool has real versions, not only the names in published, and the versions outlive a test.
	images bool

	mu        sync.Mutex
	published map[string]cloud.Image
}

const region = "eu-central-1"

const ground = `
apiVersion: v1
kind: Namespace
metadata: {name: NAMESPACE}
---
apiVersion: v1
kind: Secret
metadata: {name: boot, namespace: NAMESPACE}
stringData: {value: nothing}
`

const objects = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSCluster
metadata: {name: home, namespace: NAMESPACE}
spec: {region: eu-central-1, controlPlaneEndpoint: {host: 127.0.0.1, port: 6443}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: ExternalControlPlane
metadata: {name: home, namespace: NAMESPACE}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: home, namespace: NAMESPACE}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: ExternalControlPlane, name: home}
  controlPlaneEndpoint: {host: 127.0.0.1, port: 6443}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSCluster, name: home}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachineTemplate
metadata: {name: workers-1, namespace: NAMESPACE, labels: {cluster.x-k8s.io/cluster-name: home}}
spec: {template: {spec: {instanceType: m7i.large, ami: {id: ami-generic}, sshKeyName: kept}}}
`

const deployment = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: workers, namespace: NAMESPACE}
spec:
  clusterName: home
  replicas: 3
  rollout: {strategy: {type: OnDelete}}
  template:
    spec:
      clusterName: home
      version: v1.37.1
      bootstrap: {dataSecretName: boot}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachineTemplate, name: workers-1}
`

const machineSet = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata: {name: workers, namespace: NAMESPACE}
spec:
  clusterName: home
  replicas: 3
  selector: {matchLabels: {pool: workers}}
  template:
    metadata: {labels: {pool: workers}}
    spec:
      clusterName: home
      version: v1.37.1
      bootstrap: {dataSecretName: boot}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachineTemplate, name: workers-1}
`

var made sync.Mutex
var count int

// newNamespace makes a namespace for a pool.
func newNamespace(t testing.TB) *pool {
	t.Helper()
	if shared == nil {
		t.Skip("KAMINO_CLUSTERAPI_BIN and KUBEBUILDER_ASSETS are not set: `make test-long` sets them")
	}
	made.Lock()
	count++
	p := &pool{management: shared, t: t, namespace: fmt.Sprintf("pool-%d", count), name: "workers", line: "home.workers", published: map[string]cloud.Image{}}
	made.Unlock()
	p.create(ground)
	secret := &corev1.Secret{Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": p.kubeconfig}, ObjectMeta: metav1.ObjectMeta{
		Namespace: p.namespace, Name: "home-kubeconfig", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "home"},
	}}
	if err := p.client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.leave)
	return p
}

// leave ends the use of a pool by a test. An unchanged pool can serve the next test.
func (p *pool) leave() {
	if p.stock == nil || !p.stock.putBack(p) {
		p.deleteClusters()
	}
}

// suitePools has the pools of a suite, because many cases end early when a pool lacks an ability.
type suitePools struct {
	mu     sync.Mutex
	unused []*pool
}

// pool returns an unchanged pool, or creates a pool.
func (s *suitePools) pool(t *testing.T, made func() *pool) *pool {
	t.Helper()
	s.mu.Lock()
	n := len(s.unused)
	if n == 0 {
		s.mu.Unlock()
		p := made()
		p.stock, p.fresh = s, p.state()
		return p
	}
	p := s.unused[n-1]
	s.unused = s.unused[:n-1]
	s.mu.Unlock()
	p.t = t
	t.Cleanup(p.leave)
	return p
}

// putBack puts a pool back if the pool is as before the test.
func (s *suitePools) putBack(p *pool) bool {
	if p.t.Failed() || p.images && len(p.published) > 0 || p.state() != p.fresh {
		return false
	}
	clear(p.published)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unused = append(s.unused, p)
	return true
}

// state returns everything in the management cluster and in the group about the pool, except for statuses and
// counters of writes.
func (p *pool) state() string {
	var text strings.Builder
	for _, kind := range []string{
		"Cluster", "MachineDeployment", "MachineSet", "MachinePool", "Machine", "AWSMachineTemplate", "AWSMachinePool", "AWSMachine",
		"AzureMachineTemplate", "AzureMachinePool", "AzureMachine",
	} {
		for _, o := range p.list(kind) {
			meta := maps.Clone(o.Object["metadata"].(map[string]any))
			for _, moves := range []string{"generation", "managedFields", "resourceVersion"} {
				delete(meta, moves)
			}
			messages, err := json.Marshal([]any{kind, meta, o.Object["spec"]})
			if err != nil {
				p.t.Fatal(err)
			}
			fmt.Fprintln(&text, string(messages))
		}
	}
	if p.images {
		fmt.Fprintf(&text, "%+v", groupPool{p}.group())
	}
	return text.String()
}

// kindCases lists the cases of the suite whose code depends on the kind of the pool, by words of their names. All
// other cases run on a MachineDeployment only.
var kindCases = []string{
	"looks change nothing in a fresh pool", "preflight", "a pool shows itself", "a node names its pool", "nodes come in their order",
	"RecipeChange shows what is", "SetRecipe pins", "a change made from another recipe is a conflict", "running instances are not changed by SetRecipe",
	"new instances are built from the version", "would roll a new", "SetRecipe gives a recipe back", "the list shows each instance",
	"the list shows the version", "a trial apart builds", "a trial apart belongs to no pool",
	"a workshop is built from",
}

// suite runs the cases for recipes on pools that made creates: cases with one of these words in their names, or all
// cases.
func suite(t *testing.T, made func(*testing.T) *pool, harness func(*pool) cloudtest.RecipesHarness, cases ...string) {
	t.Parallel()
	var s suitePools
	t.Cleanup(func() {
		for _, p := range s.unused {
			p.t = t
			p.deleteClusters()
		}
	})
	cloudtest.RunRecipes(t, func(t *testing.T) cloudtest.RecipesHarness {
		if len(cases) > 0 && !slices.ContainsFunc(cases, func(words string) bool { return strings.Contains(t.Name(), strings.ReplaceAll(words, " ", "_")) }) {
			t.Skip("this case runs with a MachineDeployment")
		}
		t.Parallel()
		return harness(s.pool(t, func() *pool { return made(t) }))
	})
}

// deleteClusters deletes an unused Cluster. Cluster API watches all Nodes for each Cluster, which are the Nodes of all
// Clusters here.
func (p *pool) deleteClusters() {
	ctx := context.WithoutCancel(p.t.Context())
	for _, cluster := range p.list("Cluster") {
		err := p.client.Delete(ctx, &cluster)
		if err == nil {
			err = p.client.Patch(ctx, &cluster, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		}
		if client.IgnoreNotFound(err) != nil {
			p.t.Error(err)
		}
	}
}

// setControlPlaneReady sets the status of a control plane that an external controller runs.
func (p *pool) setControlPlaneReady(name string) {
	p.t.Helper()
	plane := &unstructured.Unstructured{}
	plane.SetAPIVersion("controlplane.cluster.x-k8s.io/v1beta2")
	plane.SetKind("ExternalControlPlane")
	plane.SetNamespace(p.namespace)
	plane.SetName(name)
	up := client.RawPatch(types.MergePatchType,
		[]byte(`{"status":{"version":"v1.37.1","externalManagedControlPlane":true,"initialization":{"controlPlaneInitialized":true}}}`))
	if err := p.client.Status().Patch(p.t.Context(), plane, up); err != nil {
		p.t.Fatal(err)
	}
}

// newCluster creates the Cluster of a future pool.
func newCluster(t testing.TB, objects string) *pool {
	t.Helper()
	p := newNamespace(t)
	p.create(objects)
	p.setControlPlaneReady("home")
	return p
}

// newPool creates a pool on AWS and waits for its machines.
func newPool(t testing.TB, manifest string) *pool {
	t.Helper()
	return newPoolOf(t, objects, manifest)
}

// newPoolOf creates a Cluster with a pool, and waits for its machines.
func newPoolOf(t testing.TB, objects, manifest string) *pool {
	t.Helper()
	p := newCluster(t, objects)
	p.create(manifest)
	p.wait("all machines", p.isComplete)
	return p
}

// isComplete reports whether the pool has its wanted number of machines.
func (p *pool) isComplete() bool {
	for _, kind := range []string{"MachineDeployment", "MachinePool", "MachineSet"} {
		if above := p.list(kind); len(above) > 0 {
			return int64(len(p.instances())) == sizeOf(above[0])
		}
	}
	return false
}

// withTwoMachines reduces a pool to two machines, which suffice for a suite.
func withTwoMachines(manifest string) string {
	return strings.Replace(manifest, "replicas: 3", "replicas: 2", 1)
}

// create makes the objects of a manifest.
func (p *pool) create(manifest string) {
	p.t.Helper()
	for document := range strings.SplitSeq(strings.ReplaceAll(manifest, "NAMESPACE", p.namespace), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			p.t.Fatal(err)
		}
		if err := p.client.Create(p.t.Context(), o); err != nil {
			p.t.Fatalf("create %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// maxWait limits the wait for other processes, to end a test that hangs. pollInterval is the time between two
// reads, because reads slow these processes down.
const (
	maxWait      = 10 * time.Minute
	pollInterval = 250 * time.Millisecond
)

// wait looks until something is so.
func (p *pool) wait(what string, done func() bool) {
	p.t.Helper()
	deadline := time.Now().Add(maxWait)
	for !done() {
		if time.Now().After(deadline) {
			p.t.Fatalf("after %v: no %s\n%s", maxWait, what, p.status())
		}
		time.Sleep(pollInterval)
	}
}

// status describes the objects in the namespace with their conditions, for the failure text of a wait.
func (p *pool) status() string {
	var text strings.Builder
	for _, kind := range []string{"Cluster", "MachineDeployment", "MachineSet", "MachinePool", "Machine"} {
		for _, o := range p.list(kind) {
			spec, _ := json.Marshal(o.Object["spec"])
			fmt.Fprintf(&text, "%s %s %v: %s\n", kind, o.GetName(), o.GetAnnotations(), spec)
			conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
			for _, c := range conditions {
				if messages := c.(map[string]any); messages["message"] != nil && messages["message"] != "" {
					fmt.Fprintf(&text, "\t%v is %v: %v\n", messages["type"], messages["status"], messages["message"])
				}
			}
		}
	}
	return text.String() + strings.Join(p.controllers.LogLines(`"`+p.namespace+"/", 30), "\n")
}

// list returns the namespace's objects of a kind of the core API.
func (p *pool) list(kind string) []unstructured.Unstructured {
	p.t.Helper()
	found, err := p.find(p.client, kind)
	if err != nil {
		p.t.Fatal(err)
	}
	return found
}

func (p *pool) find(as client.Client, kind string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	list.SetKind(kind + "List")
	switch {
	case strings.HasPrefix(kind, "AWS"):
		list.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1beta2")
	case strings.HasPrefix(kind, "Azure"):
		list.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1beta1")
	}
	err := as.List(context.Background(), list, client.InNamespace(p.namespace))
	return list.Items, err
}

func (p *pool) get(kind, name string) *unstructured.Unstructured {
	p.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	o.SetKind(kind)
	if err := p.client.Get(context.Background(), client.ObjectKey{Namespace: p.namespace, Name: name}, o); err != nil {
		p.t.Fatal(err)
	}
	return o
}

// instances returns the running instances whose Machines have Nodes, are not deleted, and were observed by Cluster
// API.
func (p *pool) instances() []cloud.InstanceID {
	p.t.Helper()
	var ids []cloud.InstanceID
	for _, m := range p.list("Machine") {
		id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
		there, _, _ := unstructured.NestedBool(m.Object, "status", "initialization", "infrastructureProvisioned")
		node, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
		if id != "" && there && node != "" && m.GetDeletionTimestamp() == nil && metav1.GetControllerOf(&m) != nil {
			ids = append(ids, cloud.InstanceID(id))
		}
	}
	slices.Sort(ids)
	return ids
}

// Image implements capi.Images.
func (p *pool) Image(_ context.Context, ref cloud.FamilyVersion) (cloud.Image, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if image, found := p.published[ref.Version]; found && ref.Family == (cloud.ImageFamily{Place: region, Name: p.line}) {
		return image, nil
	}
	return cloud.Image{Version: ref.Version}, nil
}

// ImageID implements capi.Images.
func (p *pool) ImageID(ref cloud.FamilyVersion) string { return p.imageID(ref.Version) }

func (p *pool) imageID(version string) string { return region + "/kamino/" + p.line + "/" + version }

// NativeImage implements capi.Images.
func (p *pool) NativeImage(_ context.Context, place, image string) (string, error) {
	version, own := strings.CutPrefix(image, place+"/kamino/"+p.line+"/")
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.published[version]; own && !there {
		return "", &cloud.Error{Kind: cloud.NotFound, Op: "name", Resource: image, Message: "the version is not there"}
	}
	if own {
		return "ami-" + version, nil
	}
	return image, nil
}

// ImageText implements capi.Images.
func (p *pool) ImageText(_ context.Context, _, native string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for version := range maps.Keys(p.published) {
		if native == "ami-"+version {
			return p.imageID(version), nil
		}
	}
	return native, nil
}

// Groups implements capi.Images: this cloud has no groups.
func (p *pool) Groups() cloud.PoolProvider { return cloud.PoolProvider{} }

// InstancesOf implements capi.Images: only MachinePools are asked for, and these pools are none.
func (p *pool) InstancesOf(context.Context, []cloud.InstanceID) (map[cloud.InstanceID]cloud.Instance, error) {
	return nil, &cloud.Error{Kind: cloud.Unsupported, Message: "no pool of this cloud is a MachinePool"}
}

// MaxModels implements capi.Images.
func (p *pool) MaxModels() int { return 0 }

// VersionOf implements capi.Images.
func (p *pool) VersionOf(line cloud.ImageFamily, image string) (version string, latest bool) {
	version, _ = strings.CutPrefix(image, line.Place+"/kamino/"+line.Name+"/")
	if version == image {
		return "", false
	}
	return version, false
}

// publish makes complete versions.
func (p *pool) publish(versions ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, version := range versions {
		p.published[version] = cloud.Image{Version: version, ID: p.imageID(version), State: cloud.Complete, Percent: 100,
			Tags: map[string]string{cloud.TagKubelet: "v1.37.1"}}
	}
}

// recipes returns the pool's PoolProvider with all rights.
func (p *pool) recipes() *capi.PoolProvider {
	p.t.Helper()
	return p.recipesBy(p.config)
}

// recipesBy are the pool's by a client's configuration.
func (p *pool) recipesBy(config *rest.Config) *capi.PoolProvider {
	p.t.Helper()
	made, err := capi.New(capi.Config{Management: config, Cluster: types.NamespacedName{Namespace: p.namespace, Name: "home"}, Images: p})
	if err != nil {
		p.t.Fatal(err)
	}
	return made
}

// instance reads an instance in its cloud.
func (p *pool) instance(_ context.Context, id cloud.InstanceID) (cloud.Instance, error) {
	have, found := p.fleet.find(id)
	if !found {
		return cloud.Instance{}, &cloud.Error{Kind: cloud.NotFound, Op: "look at", Resource: string(id)}
	}
	text, _ := p.ImageText(context.Background(), region, have.image)
	return cloud.Instance{ID: id, Power: cloud.PowerRunning, Image: text, CreatedAt: have.at}, nil
}

func (p *pool) id() cloud.PoolID {
	kind := "machinedeployments"
	if len(p.list("MachineDeployment")) == 0 {
		kind = "machinesets"
	}
	return cloud.PoolID("cluster.x-k8s.io/" + p.namespace + "/" + kind + "/" + p.name)
}

// poolID returns the ID of a MachineDeployment, which need not exist.
func (p *pool) poolID() cloud.PoolID {
	return cloud.PoolID("cluster.x-k8s.io/" + p.namespace + "/machinedeployments/" + p.name)
}

func sizeOf(o unstructured.Unstructured) int64 {
	size, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	return size
}

func (p *pool) harness() cloudtest.RecipesHarness {
	return cloudtest.RecipesHarness{
		Harness: cloudtest.Harness{
			Pool: p.id(), Instances: p.instances(), Missing: "aws:///eu-central-1a/i-0123456789abcdef0",
			Advance: func(testing.TB) { time.Sleep(pollInterval) }, Looks: 1200, RoomUnknown: true,
			List: func(testing.TB) []cloud.InstanceID { return p.instances() },
			SetUpgrades: func(_ testing.TB, automatic bool) {
				strategy := "OnDelete"
				if automatic {
					strategy = "RollingUpdate"
				}
				p.merge("MachineDeployment", p.name, fmt.Sprintf(`{"spec":{"rollout":{"strategy":{"type":%q}}}}`, strategy))
			},
		},
		Recipes: cloud.RecipesOf(p.recipes()), ImageID: p.imageID,
		Publish: func(_ testing.TB, versions ...string) { p.publish(versions...) }, Look: p.instance,
	}
}

// merge patches an object of the core API.
func (p *pool) merge(kind, name, change string) {
	p.t.Helper()
	if err := p.client.Patch(context.Background(), p.get(kind, name), client.RawPatch(types.MergePatchType, []byte(change))); err != nil {
		p.t.Fatal(err)
	}
}

// TestRecipes runs the whole suite for recipes with the controllers of Cluster API.
func TestRecipes(t *testing.T) {
	suite(t, func(t *testing.T) *pool { return newPool(t, withTwoMachines(deployment)) }, (*pool).harness)
}

// TestRecipesOfSets runs the suite on a MachineSet without an owner. Such a set has no rollout strategy.
func TestRecipesOfSets(t *testing.T) {
	suite(t, func(t *testing.T) *pool { return newPool(t, withTwoMachines(machineSet)) }, func(p *pool) cloudtest.RecipesHarness {
		h := p.harness()
		h.SetUpgrades = nil
		return h
	}, kindCases...)
}
