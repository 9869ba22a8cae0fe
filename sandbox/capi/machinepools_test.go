package capi_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/capi"
	"github.com/kamino-dev/kamino/internal/testing/cloudtest"
	sandbox "github.com/kamino-dev/kamino/sandbox/capi"
)

const (
	groupID     = "/subscriptions/s/resourceGroups/g"
	azurePrefix = "azure://" + groupID + "/providers/Microsoft.Compute/"
	galleryID   = groupID + "/providers/Microsoft.Compute/galleries/SIG_g/images/"
)

// imageText returns the image of a machine's spec in one line.
func imageText(image any) string {
	of, _ := image.(map[string]any)
	if id, is := of["id"].(string); is {
		return id
	}
	gallery, _ := of["computeGallery"].(map[string]any)
	return galleryID + fmt.Sprint(gallery["name"]) + "/versions/" + fmt.Sprint(gallery["version"])
}

// memorySets are scale sets in memory with instances that run at once, and their Nodes.
type memorySets struct {
	nodes client.Client
	mu    sync.Mutex
	sets  map[string]*memorySet
}

type memorySet struct {
	sandbox.ScaleSet
	next int
	at   map[string]time.Time
}

func (s *memorySets) Get(_ context.Context, pool sandbox.Machine) (sandbox.ScaleSet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.sets[pool.UID]
	if set == nil {
		return sandbox.ScaleSet{}, nil
	}
	seen := set.ScaleSet
	seen.Instances = slices.Clone(set.Instances)
	return seen, nil
}

func nodeOfInstance(pool sandbox.Machine, number string) string {
	return pool.Namespace + "-" + pool.Name + "-" + number
}

func (s *memorySets) Apply(ctx context.Context, pool sandbox.Machine, capacity int64) error {
	image, _, _ := unstructured.NestedFieldCopy(pool.Spec, "template", "image")
	for _, i := range s.apply(pool, image, capacity) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeOfInstance(pool, i.Number)}, Spec: corev1.NodeSpec{ProviderID: i.ProviderID}}
		if err := s.nodes.Create(ctx, node); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return nil
}

func (s *memorySets) apply(pool sandbox.Machine, image any, capacity int64) (made []sandbox.ScaleSetInstance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.sets[pool.UID]
	if set == nil {
		set = &memorySet{at: map[string]time.Time{}}
		s.sets[pool.UID] = set
	}
	set.There, set.Image, set.Capacity = true, image, capacity
	for int64(len(set.Instances)) < capacity {
		number := strconv.Itoa(set.next)
		set.next++
		id := azurePrefix + "virtualMachineScaleSets/" + pool.Namespace + "-" + pool.Name + "/virtualMachines/" + number
		i := sandbox.ScaleSetInstance{ProviderID: id, Number: number, Image: image, Runs: true}
		set.at[id] = time.Now().UTC().Truncate(time.Second)
		set.Instances, made = append(set.Instances, i), append(made, i)
	}
	return made
}

func (s *memorySets) Drop(ctx context.Context, pool sandbox.Machine, number string) (bool, error) {
	s.mu.Lock()
	if set := s.sets[pool.UID]; set != nil {
		before := len(set.Instances)
		set.Instances = slices.DeleteFunc(set.Instances, func(i sandbox.ScaleSetInstance) bool { return i.Number == number })
		set.Capacity -= int64(before - len(set.Instances))
	}
	s.mu.Unlock()
	return true, client.IgnoreNotFound(s.nodes.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeOfInstance(pool, number)}}))
}

func (s *memorySets) find(id cloud.InstanceID) (cloud.Instance, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, set := range s.sets {
		for _, i := range set.Instances {
			if strings.EqualFold(i.ProviderID, string(id)) {
				return cloud.Instance{ID: id, Power: cloud.PowerRunning, Image: imageText(i.Image), CreatedAt: set.at[i.ProviderID]}, true
			}
		}
	}
	return cloud.Instance{}, false
}

// setGate starts CAPZ with its feature gate on or off, as its Deployment shows. No pod is necessary.
func (m *management) setGate(ctx context.Context, on bool) error {
	d := sandbox.Gate(on)
	if err := client.IgnoreNotFound(m.client.Delete(ctx, d.DeepCopy())); err != nil {
		return err
	}
	if err := m.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.Namespace}}); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	if err := m.client.Create(ctx, d); err != nil {
		return err
	}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1}
	return m.client.Status().Update(ctx, d)
}

const azureObjects = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: AzureCluster
metadata: {name: home, namespace: NAMESPACE}
spec: {location: westeurope, resourceGroup: g, subscriptionID: s, controlPlaneEndpoint: {host: 127.0.0.1, port: 6443}}
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
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AzureCluster, name: home}
`

const azurePool = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: AzureMachinePool
metadata: {name: workers, namespace: NAMESPACE}
spec:
  location: westeurope
  strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
  template: {vmSize: Standard_D2s_v5, image: {id: /an/image}, osDisk: {osType: Linux}, sshPublicKey: kept, terminateNotificationTimeout: 10}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: workers, namespace: NAMESPACE}
spec:
  clusterName: home
  replicas: 3
  failureDomains: ["2"]
  template:
    metadata: {labels: {told: kept}}
    spec:
      clusterName: home
      version: v1.37.1
      bootstrap: {dataSecretName: boot}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AzureMachinePool, name: workers}
`

// machinePool is a MachinePool on Azure.
type machinePool struct{ *pool }

func newMachinePool(t testing.TB, manifest string) machinePool {
	t.Helper()
	p := machinePool{newPoolOf(t, azureObjects, manifest)}
	p.line = "home.workers.mp"
	return p
}

func (p machinePool) imageID(version string) string {
	return galleryID + p.line + "/versions/" + version
}

// Image implements capi.Images.
func (p machinePool) Image(_ context.Context, ref cloud.FamilyVersion) (cloud.Image, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if image, found := p.published[ref.Version]; found && ref.Family == (cloud.ImageFamily{Place: groupID, Name: p.line}) {
		return image, nil
	}
	return cloud.Image{Version: ref.Version}, nil
}

// NativeImage implements capi.Images.
func (p machinePool) NativeImage(_ context.Context, _, image string) (string, error) {
	version, own := strings.CutPrefix(image, p.imageID(""))
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.published[version]; own && !there {
		return "", &cloud.Error{Kind: cloud.NotFound, Op: "name", Resource: image, Message: "the version is not there"}
	}
	return image, nil
}

// ImageText implements capi.Images.
func (p machinePool) ImageText(_ context.Context, _, native string) (string, error) {
	return native, nil
}

// VersionOf implements capi.Images.
func (p machinePool) VersionOf(line cloud.ImageFamily, image string) (version string, latest bool) {
	version, own := strings.CutPrefix(image, galleryID+line.Name+"/versions/")
	if !own {
		return "", false
	}
	return version, false
}

// InstancesOf implements capi.Images.
func (p machinePool) InstancesOf(_ context.Context, ids []cloud.InstanceID) (map[cloud.InstanceID]cloud.Instance, error) {
	found := map[cloud.InstanceID]cloud.Instance{}
	for _, id := range ids {
		if m, there := p.scaleSets.find(id); there {
			found[id] = m
		}
	}
	return found, nil
}

// MaxModels implements capi.Images. Nothing here counts models, as a scale set would.
func (p machinePool) MaxModels() int { return 0 }

func (p machinePool) recipes() *capi.PoolProvider {
	p.t.Helper()
	made, err := capi.New(capi.Config{Management: p.config, Cluster: types.NamespacedName{Namespace: p.namespace, Name: "home"}, Images: p})
	if err != nil {
		p.t.Fatal(err)
	}
	return made
}

func (p machinePool) instance(_ context.Context, id cloud.InstanceID) (cloud.Instance, error) {
	if m, found := p.scaleSets.find(id); found {
		return m, nil
	}
	if vm, found := p.fleet.find(id); found {
		return cloud.Instance{ID: id, Power: cloud.PowerRunning, Image: vm.image, CreatedAt: vm.at}, nil
	}
	return cloud.Instance{}, &cloud.Error{Kind: cloud.NotFound, Op: "look at", Resource: string(id)}
}

func (p machinePool) id() cloud.PoolID {
	return cloud.PoolID("cluster.x-k8s.io/" + p.namespace + "/machinepools/" + p.name)
}

// factory is the AzureMachinePool.
func (p machinePool) factory() *unstructured.Unstructured {
	p.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1beta1")
	o.SetKind("AzureMachinePool")
	if err := p.client.Get(context.Background(), client.ObjectKey{Namespace: p.namespace, Name: p.name}, o); err != nil {
		p.t.Fatal(err)
	}
	return o
}

// change patches the AzureMachinePool, as a person does.
func (p machinePool) change(patch string) {
	p.t.Helper()
	if err := p.client.Patch(context.Background(), p.factory(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		p.t.Fatal(err)
	}
}

func (p machinePool) surge(n int) {
	p.t.Helper()
	p.change(fmt.Sprintf(`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":%d}}}}`, n))
}

func (p machinePool) harness() cloudtest.RecipesHarness {
	return cloudtest.RecipesHarness{
		Harness: cloudtest.Harness{
			Pool: p.id(), Instances: p.instances(), Missing: azurePrefix + "virtualMachineScaleSets/none/virtualMachines/7",
			Advance: func(testing.TB) { time.Sleep(pollInterval) }, Looks: 1200, RoomUnknown: true,
			List: func(testing.TB) []cloud.InstanceID { return p.instances() },
			SetUpgrades: func(_ testing.TB, automatic bool) {
				p.surge(map[bool]int{true: 1}[automatic])
			},
		},
		Recipes: cloud.RecipesOf(p.recipes()), ImageID: p.imageID,
		Publish: func(_ testing.TB, versions ...string) { p.publish(versions...) }, Look: p.instance,
	}
}

// publish makes complete versions.
func (p machinePool) publish(versions ...string) {
	p.pool.publish(versions...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, version := range versions {
		image := p.published[version]
		image.ID = p.imageID(version)
		p.published[version] = image
	}
}

// TestRecipesOfMachinePools runs the suite on a MachinePool on Azure, with a provider that would roll out changes
// unless prevented.
func TestRecipesOfMachinePools(t *testing.T) {
	suite(t, func(t *testing.T) *pool { return newMachinePool(t, withTwoMachines(azurePool)).pool },
		func(p *pool) cloudtest.RecipesHarness { return machinePool{p}.harness() }, kindCases...)
}

// reasons of refusals, in order.
func reasons(found []cloud.Refusal) (all []string) {
	for _, r := range found {
		all = append(all, r.Reason)
	}
	return all
}

// wantRefused requires that a promotion of the pool is refused for these reasons, and that nothing changes.
func (p machinePool) wantRefused(version string, want ...string) {
	p.t.Helper()
	meant := func() (all [3]any) {
		pool := p.get("MachinePool", p.name).Object
		all[0], _, _ = unstructured.NestedFieldNoCopy(p.factory().Object, "spec", "template")
		all[1], _, _ = unstructured.NestedFieldNoCopy(pool, "spec", "template")
		all[2], _, _ = unstructured.NestedFieldNoCopy(pool, "spec", "replicas")
		return all
	}
	recipes, before, was := p.recipes(), p.instances(), meant()
	change, err := recipes.RecipeChange(p.t.Context(), cloud.Target{Pool: p.id(), Version: version, Image: p.imageID(version)}, false)
	if err != nil || !slices.Equal(reasons(change.Refusals), want) {
		p.t.Errorf("refusals %v, want %v: %v", change.Refusals, want, err)
	}
	if err := recipes.SetRecipe(p.t.Context(), change); !cloud.Is(err, cloud.Refused) {
		p.t.Errorf("the write ends with %v", err)
	}
	if now := p.instances(); !slices.Equal(before, now) || !reflect.DeepEqual(was, meant()) {
		p.t.Errorf("it was changed: it had %v and has %v", before, now)
	}
}

func (p machinePool) size() int64 {
	n, _, _ := unstructured.NestedInt64(p.get("MachinePool", p.name).Object, "spec", "replicas")
	return n
}

// TestMachinePoolsWithRollouts proves the refusals: a foreign write makes the provider replace all instances.
func TestMachinePoolsWithRollouts(t *testing.T) {
	if shared == nil {
		t.Skip("KAMINO_CLUSTERAPI_BIN and KUBEBUILDER_ASSETS are not set: `make test-long` sets them")
	}
	gate := func(on bool) {
		t.Helper()
		if err := shared.setGate(t.Context(), on); err != nil {
			t.Fatal(err)
		}
	}
	defer gate(true)
	p := newMachinePool(t, azurePool)
	p.publish("2026.01.09")
	// rolls requires that a foreign write of an image replaces all instances.
	rolls := func(image string) {
		t.Helper()
		before := p.instances()
		p.change(fmt.Sprintf(`{"spec":{"template":{"image":{"id":%q}}}}`, image))
		p.wait("three instances of "+image, func() bool {
			now := p.instances()
			return len(now) == 3 && !slices.ContainsFunc(now, func(id cloud.InstanceID) bool {
				m, err := p.instance(t.Context(), id)
				return slices.Contains(before, id) || err != nil || m.Image != image
			})
		})
	}

	gate(false)
	p.wantRefused("2026.01.09", "NodesWouldBeReplaced")
	rolls("/image/without-gate")

	gate(true)
	p.surge(1)
	p.wantRefused("2026.01.09", "NodesWouldBeReplaced")
	rolls("/image/with-surge")

	if err := p.client.Delete(t.Context(), sandbox.Gate(true)); err != nil {
		t.Fatal(err)
	}
	p.surge(0)
	p.wantRefused("2026.01.09", "NodesWouldBeReplaced")
}

// TestForeignMachinePools: with a foreign owner of the replicas, the provider keeps instances even without its gate.
func TestForeignMachinePools(t *testing.T) {
	if shared == nil {
		t.Skip("KAMINO_CLUSTERAPI_BIN and KUBEBUILDER_ASSETS are not set: `make test-long` sets them")
	}
	if err := shared.setGate(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	defer shared.setGate(t.Context(), true) //nolint:errcheck // the next test would show an error
	p := newMachinePool(t, strings.Replace(azurePool, "kind: MachinePool\nmetadata: {name: workers, namespace: NAMESPACE}",
		"kind: MachinePool\nmetadata: {name: workers, namespace: NAMESPACE, annotations: {cluster.x-k8s.io/replicas-managed-by: autoscaler}}", 1))
	p.surge(1)
	p.publish("2026.01.09")
	recipes, before := p.recipes(), p.instances()
	change, err := recipes.RecipeChange(t.Context(), cloud.Target{Pool: p.id(), Version: "2026.01.09", Image: p.imageID("2026.01.09")}, false)
	if err != nil || len(change.Refusals) > 0 {
		t.Fatalf("%v: %+v", err, change.Refusals)
	}
	if err := recipes.SetRecipe(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if found, err := recipes.PreflightRecipe(t.Context(), cloud.PreflightSpec{Pool: p.id(), Instance: before[0]}); err != nil || len(found) > 0 {
		t.Errorf("%v, %+v", err, found)
	}

	o := p.factory()
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	if err := p.scaleSets.Apply(t.Context(), sandbox.Machine{UID: string(o.GetUID()), Namespace: p.namespace, Name: p.name, Spec: spec}, 4); err != nil {
		t.Fatal(err)
	}
	p.change(`{"metadata":{"annotations":{"touched":"to be looked at"}}}`)
	p.wait("a fourth instance of the version, and the size in the MachinePool", func() bool { return len(p.instances()) == 4 && p.size() == 4 })
	images := map[string]int{}
	for _, id := range p.instances() {
		m, err := p.instance(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		images[m.Image]++
	}
	if want := map[string]int{"/an/image": 3, p.imageID("2026.01.09"): 1}; !maps.Equal(images, want) {
		t.Errorf("instances by image: %v", images)
	}
}
