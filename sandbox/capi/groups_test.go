package capi_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/aws"
	"github.com/kamino-dev/kamino/internal/cloud/capi"
	"github.com/kamino-dev/kamino/internal/testing/cloudtest"
	"github.com/kamino-dev/kamino/sandbox/aws"
	"github.com/kamino-dev/kamino/sandbox/clock"
	simulated "github.com/kamino-dev/kamino/sandbox/fleet"
	simulation "github.com/kamino-dev/kamino/sandbox/region"
)

// amazon is the simulated AWS whose groups are the machine pools, and the provider's ImageProvider.
type amazon struct {
	server  *aws.Server
	web     *httptest.Server
	disks   *provider.ImageProvider
	ec2     *ec2.Client
	scaling *autoscaling.Client
	// snapshot is the source of all versions.
	snapshot string
}

const (
	amazonImage  = "ami-0123456789abcdef0"
	amazonSubnet = "subnet-00000000000000001"
)

// newAmazon starts the cloud. Its clock runs fast, because tests wait for its work.
func newAmazon(ctx context.Context, dir string, nodes client.Client) (*amazon, error) {
	key, secret := "AKIAIOSFODNN7EXAMPLE", rand.Text()
	server, err := aws.New(aws.Config{
		Dir: dir, Clock: clock.Clock{Scale: 1000}, Account: "123456789012", Region: region, Fleet: &nodeFleet{simulated.NewMemory(), nodes},
		Users:     []aws.User{{Name: "kamino", KeyID: key, Secret: secret}},
		Images:    []aws.Platform{{ID: amazonImage, Name: "al2023", Content: "platform:x86"}},
		Subnets:   []aws.Subnet{{ID: amazonSubnet, Zone: region + "a"}},
		Latencies: aws.Latencies{Standby: -1},
		Throttle:  aws.Throttle{ReadBurst: 1e6, WriteBurst: 1e6, GroupBurst: 1e6},
	})
	if err != nil {
		return nil, err
	}
	a := &amazon{server: server, web: httptest.NewTLSServer(server.Handler())}
	config := sdk.Config{Region: region, Credentials: credentials.NewStaticCredentialsProvider(key, secret, ""), BaseEndpoint: sdk.String(a.web.URL),
		HTTPClient: provider.WithPlainBodies(&http.Client{Transport: a.web.Client().Transport}), Retryer: func() sdk.Retryer { return sdk.NopRetryer{} }}
	a.ec2, a.scaling = ec2.NewFromConfig(config), autoscaling.NewFromConfig(config)
	a.disks, _ = provider.New(provider.Config{AWS: config})
	return a, a.shoot(ctx)
}

// shoot creates the snapshot from an instance outside all groups.
func (a *amazon) shoot(ctx context.Context) error {
	out, err := a.ec2.RunInstances(ctx, &ec2.RunInstancesInput{ImageId: sdk.String(amazonImage), InstanceType: "m6i.large", MinCount: sdk.Int32(1),
		MaxCount: sdk.Int32(1)})
	if err != nil {
		return err
	}
	id := cloud.InstanceID("aws:///" + sdk.ToString(out.Instances[0].Placement.AvailabilityZone) + "/" + sdk.ToString(out.Instances[0].InstanceId))
	for {
		shot, err := a.disks.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: "of-all", Instance: id})
		if err != nil {
			return err
		}
		if a.snapshot = shot.ID; shot.State == cloud.Complete {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (a *amazon) close() {
	a.web.Close()
	a.server.Close()
}

// nodeFleet creates the Nodes of machines.
type nodeFleet struct {
	*simulated.Memory
	nodes client.Client
}

func (f *nodeFleet) Launch(ctx context.Context, spec simulated.Spec) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: path.Base(spec.ID)}, Spec: corev1.NodeSpec{ProviderID: spec.ProviderID}}
	return errors.Join(f.Memory.Launch(ctx, spec), client.IgnoreAlreadyExists(f.nodes.Create(ctx, node)))
}

func (f *nodeFleet) Terminate(ctx context.Context, id string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: path.Base(id)}}
	return errors.Join(f.Memory.Terminate(ctx, id), client.IgnoreNotFound(f.nodes.Delete(ctx, node)))
}

// The names of an awsMachinePool and its namespace are equal, because the group has the name of its object.
const awsMachinePool = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachinePool
metadata: {name: NAMESPACE, namespace: NAMESPACE}
spec:
  minSize: 0
  maxSize: 10
  refreshPreferences: {disable: true}
  awsLaunchTemplate: {instanceType: m6i.large, ami: {id: ami-0123456789abcdef0}, sshKeyName: kept}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: NAMESPACE, namespace: NAMESPACE, annotations: {cluster.x-k8s.io/replicas-managed-by: autoscaler}}
spec:
  clusterName: home
  replicas: 3
  failureDomains: ["eu-central-1a"]
  template:
    metadata: {labels: {told: kept}}
    spec:
      clusterName: home
      version: v1.37.1
      bootstrap: {dataSecretName: boot}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachinePool, name: NAMESPACE}
`

// groupPool is a MachinePool on AWS.
type groupPool struct{ *pool }

func newGroupPool(t testing.TB, manifest string) groupPool {
	t.Helper()
	p := groupPool{newCluster(t, objects)}
	p.name, p.line, p.images = p.namespace, "home."+p.namespace+".mp", true
	p.makers.set(p.namespace, simulation.NewMaker(p.amazon.ec2, "home"))
	p.create(manifest)
	p.wait("all machines", func() bool { return p.isComplete() && p.group().ARN != "" })
	return p
}

// groupOf is a group as AWS shows the group.
type groupOf struct {
	ARN     string
	Desired int64
	// Refresh reports whether an instance refresh was ever begun.
	Refresh bool
}

func (p groupPool) group() (g groupOf) {
	p.t.Helper()
	out, err := p.amazon.scaling.DescribeAutoScalingGroups(context.Background(),
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{p.name}})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, of := range out.AutoScalingGroups {
		g.ARN, g.Desired = sdk.ToString(of.AutoScalingGroupARN), int64(sdk.ToInt32(of.DesiredCapacity))
	}
	refreshes, err := p.amazon.scaling.DescribeInstanceRefreshes(context.Background(),
		&autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: sdk.String(p.name)})
	if err != nil {
		p.t.Fatal(err)
	}
	g.Refresh = len(refreshes.InstanceRefreshes) > 0
	return g
}

func (p groupPool) at() cloud.ImageFamily { return cloud.ImageFamily{Place: region, Name: p.line} }

func (p groupPool) imageID(version string) string {
	return p.amazon.disks.ImageID(cloud.FamilyVersion{Family: p.at(), Version: version})
}

// publish creates complete versions.
func (p groupPool) publish(versions ...string) {
	p.t.Helper()
	for _, version := range versions {
		spec := cloud.VersionSpec{FamilyVersion: cloud.FamilyVersion{Family: p.at(), Version: version}, SnapshotID: p.amazon.snapshot,
			Tags: map[string]string{cloud.TagKubelet: "v1.37.1"}}
		p.wait("version "+version, func() bool {
			image, err := p.amazon.disks.EnsureImage(context.Background(), spec)
			if err != nil {
				p.t.Fatal(err)
			}
			return image.State == cloud.Complete
		})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, version := range versions {
		p.published[version] = cloud.Image{Version: version} // marks the pool as changed: see stock
	}
}

func (p groupPool) recipes() *capi.PoolProvider { return p.recipesBy(p.config) }

func (p groupPool) recipesBy(config *rest.Config) *capi.PoolProvider {
	p.t.Helper()
	made, err := capi.New(capi.Config{Management: config, Cluster: types.NamespacedName{Namespace: p.namespace, Name: "home"}, Images: p.amazon.disks})
	if err != nil {
		p.t.Fatal(err)
	}
	return made
}

func (p groupPool) id() cloud.PoolID {
	return cloud.PoolID("cluster.x-k8s.io/" + p.namespace + "/machinepools/" + p.name)
}

// factory is the AWSMachinePool.
func (p groupPool) factory() *unstructured.Unstructured {
	p.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1beta2")
	o.SetKind("AWSMachinePool")
	if err := p.client.Get(context.Background(), client.ObjectKey{Namespace: p.namespace, Name: p.name}, o); err != nil {
		p.t.Fatal(err)
	}
	return o
}

// change patches the AWSMachinePool, as a person does.
func (p groupPool) change(patch string) {
	p.t.Helper()
	if err := p.client.Patch(context.Background(), p.factory(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		p.t.Fatal(err)
	}
}

func (p groupPool) refreshes(on bool) {
	p.t.Helper()
	p.change(fmt.Sprintf(`{"spec":{"refreshPreferences":{"disable":%t}}}`, !on))
}

func (p groupPool) harness() cloudtest.RecipesHarness {
	return cloudtest.RecipesHarness{
		Harness: cloudtest.Harness{
			Pool: p.id(), Instances: p.instances(), Missing: "aws:///eu-central-1a/i-00000000000000000",
			Advance: func(testing.TB) { time.Sleep(pollInterval) }, Looks: 1200, RoomUnknown: true,
			List:        func(testing.TB) []cloud.InstanceID { return p.instances() },
			SetUpgrades: func(_ testing.TB, automatic bool) { p.refreshes(automatic) },
		},
		Recipes: cloud.RecipesOf(p.recipes()), ImageID: p.imageID,
		Publish: func(_ testing.TB, versions ...string) { p.publish(versions...) }, Look: p.amazon.disks.Instance,
	}
}

// TestRecipesOfGroups runs the suite on a MachinePool on AWS, with the real ImageProvider on a simulated AWS.
func TestRecipesOfGroups(t *testing.T) {
	suite(t, func(t *testing.T) *pool { return newGroupPool(t, withTwoMachines(awsMachinePool)).pool },
		func(p *pool) cloudtest.RecipesHarness { return groupPool{p}.harness() }, kindCases...)
}

// TestRefusedGroups: a setting that would let the provider roll instances is refused, and nothing changes.
func TestRefusedGroups(t *testing.T) {
	t.Parallel()
	p := newGroupPool(t, awsMachinePool)
	p.publish("2026.01.09")
	recipes, before := p.recipes(), p.instances()
	refused := func(reason string) {
		t.Helper()
		image, size := p.factory().Object["spec"], p.group().Desired
		change, err := recipes.RecipeChange(t.Context(), cloud.Target{Pool: p.id(), Version: "2026.01.09", Image: p.imageID("2026.01.09")}, false)
		if err != nil || !slices.Equal(reasons(change.Refusals), []string{reason}) {
			t.Errorf("refusals %v, want %s: %v", change.Refusals, reason, err)
		}
		if err := recipes.SetRecipe(t.Context(), change); !cloud.Is(err, cloud.Refused) {
			t.Errorf("the write ends with %v", err)
		}
		if found, err := recipes.PreflightRecipe(t.Context(), cloud.PreflightSpec{Pool: p.id(), Instance: before[0]}); err != nil ||
			!slices.Contains(reasons(found), reason) {
			t.Errorf("a preflight finds %v, %v", found, err)
		}
		if now := p.factory().Object["spec"]; fmt.Sprint(now) != fmt.Sprint(image) || p.group().Desired != size || !slices.Equal(before, p.instances()) {
			t.Errorf("it was changed: %v, and was %v", now, image)
		}
	}
	p.refreshes(true)
	refused("NodesWouldBeReplaced")
	p.refreshes(false)
	// An object with the ID of a foreign group is refused.
	other := groupPool{&pool{management: p.management, t: t, name: p.name + "-other"}}
	_, err := p.amazon.scaling.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: sdk.String(other.name), MinSize: sdk.Int32(0), MaxSize: sdk.Int32(9), DesiredCapacity: sdk.Int32(0),
		VPCZoneIdentifier: sdk.String(amazonSubnet),
		LaunchTemplate:    &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateName: sdk.String(p.name), Version: sdk.String("$Latest")},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.change(`{"metadata":{"annotations":{"cluster.x-k8s.io/paused":"by the test"}}}`)
	p.wait("the provider to leave it alone", func() bool {
		p.change(fmt.Sprintf(`{"spec":{"providerID":%q}}`, other.group().ARN))
		pool, err := recipes.Pool(t.Context(), p.id())
		return err == nil && slices.ContainsFunc(pool.Refusals, func(r cloud.Refusal) bool {
			return r.Reason == "ClusterAPIPending" && strings.Contains(r.Message, "which is not the group of the pool")
		})
	})
}

// TestGroupProvider proves the refusal: a refresh replaces all instances.
func TestGroupProvider(t *testing.T) {
	t.Parallel()
	p := newGroupPool(t, awsMachinePool)
	p.refreshes(true)
	p.publish("2026.01.09")
	native, err := p.amazon.disks.NativeImage(t.Context(), region, p.imageID("2026.01.09"))
	if err != nil {
		t.Fatal(err)
	}
	p.change(fmt.Sprintf(`{"spec":{"awsLaunchTemplate":{"ami":{"id":%q}}}}`, native))
	p.wait("an instance refresh", func() bool { return p.group().Refresh })
}

// TestGroupProviderOverwrites: the provider resumes suspended processes. A changed image cancels a running instance refresh, even
// with disabled refreshes, and deletes older versions of the launch template.
func TestGroupProviderOverwrites(t *testing.T) {
	t.Parallel()
	p := newGroupPool(t, awsMachinePool)
	name := sdk.String(p.name)
	ok := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(p.amazon.scaling.SuspendProcesses(t.Context(),
		&autoscaling.SuspendProcessesInput{AutoScalingGroupName: name, ScalingProcesses: []string{"AZRebalance", "InstanceRefresh"}}))
	p.wait("resumed processes", func() bool {
		out, err := p.amazon.scaling.DescribeAutoScalingGroups(t.Context(),
			&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{p.name}})
		return err == nil && len(out.AutoScalingGroups[0].SuspendedProcesses) == 0
	})
	versions := []string{"2026.01.09", "2026.01.10", "2026.01.11"}
	p.publish(versions...)
	var ids []string
	for _, id := range p.instances() {
		ids = append(ids, path.Base(string(id)))
	}
	// The refresh waits for protected instances.
	ok(p.amazon.scaling.SetInstanceProtection(t.Context(),
		&autoscaling.SetInstanceProtectionInput{AutoScalingGroupName: name, InstanceIds: ids, ProtectedFromScaleIn: sdk.Bool(true)}))
	ok(p.amazon.scaling.StartInstanceRefresh(t.Context(), &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: name}))
	for _, version := range versions {
		native, err := p.amazon.disks.NativeImage(t.Context(), region, p.imageID(version))
		ok(native, err)
		p.change(fmt.Sprintf(`{"spec":{"awsLaunchTemplate":{"ami":{"id":%q}}}}`, native))
		p.wait("a template with version "+version, func() bool {
			out, err := p.amazon.ec2.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: name})
			return err == nil && len(out.LaunchTemplateVersions) <= 3 &&
				slices.ContainsFunc(out.LaunchTemplateVersions, func(v ec2types.LaunchTemplateVersion) bool {
					return sdk.ToString(v.LaunchTemplateData.ImageId) == native
				})
		})
	}
	out, err := p.amazon.scaling.DescribeInstanceRefreshes(t.Context(), &autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: name})
	ok(out, err)
	if r := out.InstanceRefreshes; len(r) != 1 || r[0].Status != autoscalingtypes.InstanceRefreshStatusCancelled &&
		r[0].Status != autoscalingtypes.InstanceRefreshStatusCancelling {
		t.Errorf("the refreshes are %+v", r)
	}
}

// TestRightsOfGroups: the rights that `kamino manifests --management` prints for AWS suffice for all work on a
// MachinePool.
func TestRightsOfGroups(t *testing.T) {
	t.Parallel()
	p := newGroupPool(t, awsMachinePool)
	p.publish("2026.01.09")
	_, _, config := p.account("aws")
	recipes, donor := p.recipesBy(config), p.instances()[2]
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p.wait("the rights", func() bool {
		found, err := recipes.PreflightRecipe(t.Context(), cloud.PreflightSpec{Pool: p.id(), Instance: donor})
		return err == nil && len(found) == 0
	})
	all, err := recipes.Permissions(t.Context(), p.id())
	must(err)
	actions := map[string]bool{}
	for _, one := range all {
		actions[one.Action] = one.Allowed
	}
	for action, want := range map[string]bool{
		"patch awsmachinepools.infrastructure.cluster.x-k8s.io": true,
		"patch machinepools.cluster.x-k8s.io":                   false, "autoscaling:UpdateAutoScalingGroup": false, "ec2:CreateLaunchTemplateVersion": false, // which Kamino does not need
	} {
		if actions[action] != want {
			t.Errorf("%s is printed: %t, want %t", action, actions[action], want)
		}
	}
	change, err := recipes.RecipeChange(t.Context(), cloud.Target{Pool: p.id(), Version: "2026.01.09", Image: p.imageID("2026.01.09")}, false)
	must(err)
	must(recipes.SetRecipe(t.Context(), change))
	_, err = p.amazon.scaling.SetDesiredCapacity(t.Context(),
		&autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(p.name), DesiredCapacity: sdk.Int32(4)})
	must(err)
	p.wait("a fourth instance, of the version", func() bool {
		instances, err := recipes.Instances(t.Context(), p.id())
		must(err)
		return len(instances) == 4 && slices.ContainsFunc(instances, func(i cloud.Instance) bool { return i.Image == p.imageID("2026.01.09") })
	})
	p.runTrial(recipes, cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: p.id(), Version: "2026.01.09"}, Name: "of-rights",
		To: p.imageID("2026.01.09")}, func() {})
	p.runWorkshop(recipes, p.id())
	if g := p.group(); g.Desired != 4 || len(p.instances()) != 4 {
		t.Errorf("the group is %+v, with %v", g, p.instances())
	}
}
