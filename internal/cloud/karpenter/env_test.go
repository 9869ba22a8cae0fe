package karpenter

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// start starts an API server with Karpenter's own definitions. No controller of Karpenter runs.
var start = sync.OnceValues(func() (*rest.Config, error) {
	environment.CRDDirectoryPaths = []string{"testdata/v1.14.1"}
	environment.ErrorIfCRDPathMissing = true
	return environment.Start()
})

var environment = apitest.Environment()

func TestMain(m *testing.M) {
	code := m.Run()
	if environment.Config != nil {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// images names images of a region as package aws does.
type images struct{}

func (images) NativeImage(_ context.Context, place, image string) (string, error) {
	version, own := strings.CutPrefix(image, place+"/")
	switch {
	case !own:
		return image, nil
	case strings.HasPrefix(version, "missing"):
		return "", &cloud.Error{Kind: cloud.NotFound, Message: "the image does not exist"}
	}
	return "ami-" + digest(version), nil
}

func (images) ImageText(_ context.Context, place, native string) (string, error) {
	for _, version := range []string{"v1", "v2"} {
		if native == "ami-"+digest(version) {
			return place + "/" + version, nil
		}
	}
	return native, nil
}

func (images) VersionOf(_ cloud.ImageFamily, image string) (string, bool) {
	_, version, own := strings.Cut(image, "/")
	return map[bool]string{true: version}[own], false
}

// testEnv is a cluster with a class and its NodePools. Names have the name of the test, because tests share the API server.
type testEnv struct {
	*testing.T
	*PoolProvider
	objects dynamic.Interface
	class   string
	id      cloud.PoolID
	// around sees each write of the provider to a class, and makes it.
	around func(do func() (*http.Response, error)) (*http.Response, error)
}

const (
	region   = "eu-central-1"
	stock    = "ami-0123456789abcdef0"
	guarded  = `[{nodes: "10%"}, {nodes: "0", reasons: [Drifted]}]`
	unguards = `[{nodes: "10%"}]`
)

// newTestEnv makes a class with an alias, as Karpenter's own documentation has it, and a NodePool with budgets.
func newTestEnv(t *testing.T, budgets string) *testEnv {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("the test needs a real API server, and KUBEBUILDER_ASSETS is not set: run `make test`")
	}
	config, err := start()
	if err != nil {
		t.Fatal(err)
	}
	e := &testEnv{T: t, class: strings.ReplaceAll(strings.ToLower(t.Name()), "/", "-")}
	e.id = poolOf(e.class)
	if e.objects, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	watched := rest.CopyConfig(config)
	watched.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return transport{e, next} }
	e.PoolProvider = New(images{}, func() (*rest.Config, error) { return watched, nil })
	e.apply(classes, `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: CLASS}
spec:
  amiSelectorTerms: [{alias: al2023@v20260101}]
  role: nodes
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: home}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: home}}]
  kubelet: {maxPods: 42}`)
	e.status(fmt.Sprintf(`{"amis":[{"id":%q,"requirements":[{"key":"kubernetes.io/arch","operator":"In","values":["amd64"]},`+
		`{"key":"karpenter.k8s.aws/instance-gpu-count","operator":"DoesNotExist"}]},`+
		`{"id":"ami-arm","requirements":[{"key":"kubernetes.io/arch","operator":"In","values":["arm64"]}]},`+
		`{"id":"ami-gpu","requirements":[{"key":"karpenter.k8s.aws/instance-gpu-count","operator":"Exists"}]}],`+
		`"subnets":[{"id":"subnet-1","zone":"eu-central-1a","zoneID":"euc1-az1"}]}`, stock))
	e.nodePool("free", budgets)
	return e
}

// transport passes each write to a class to the test.
type transport struct {
	e    *testEnv
	next http.RoundTripper
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	do := func() (*http.Response, error) { return t.next.RoundTrip(r) }
	if around := t.e.around; around != nil && r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/ec2nodeclasses/") {
		return around(do)
	}
	return do()
}

func (e *testEnv) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// apply creates an object, with the name of the class for CLASS.
func (e *testEnv) apply(kind schema.GroupVersionResource, text string) *unstructured.Unstructured {
	e.Helper()
	o := &unstructured.Unstructured{}
	e.must(yaml.Unmarshal([]byte(strings.ReplaceAll(text, "CLASS", e.class)), &o.Object))
	made, err := e.objects.Resource(kind).Create(e.Context(), o, metav1.CreateOptions{})
	e.must(err)
	e.Cleanup(func() {
		clean := []byte(`{"metadata":{"finalizers":null}}`)
		_, _ = e.objects.Resource(kind).Patch(context.Background(), made.GetName(), types.MergePatchType, clean, metav1.PatchOptions{})
		if err := e.objects.Resource(kind).Delete(context.Background(), made.GetName(), metav1.DeleteOptions{}); err != nil && !errors.IsNotFound(err) {
			e.Error(err)
		}
	})
	return made
}

// nodePool creates a NodePool of the class.
func (e *testEnv) nodePool(name, budgets string) {
	e.Helper()
	e.apply(pools, `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: CLASS-`+name+`}
spec:
  template:
    metadata: {labels: {example.com/tier: `+name+`}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: CLASS}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m]}
  disruption: {consolidateAfter: 30s, budgets: `+budgets+`}`)
}

// claim creates a NodeClaim of the class with an instance.
func (e *testEnv) claim(name, instance, image string) {
	e.Helper()
	made := e.apply(claims, `
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: CLASS-`+name+`
  labels: {karpenter.sh/nodepool: CLASS-free, node.kubernetes.io/instance-type: m6i.large, topology.kubernetes.io/zone: eu-central-1a}
  annotations: {karpenter.sh/nodepool-hash: "1", karpenter.k8s.aws/ec2nodeclass-hash: "2"}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: CLASS}
  requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]`)
	e.statusOf(claims, made.GetName(), fmt.Sprintf(`{"providerID":%q,"imageID":%q}`, instance, image))
}

func (e *testEnv) status(text string) { e.statusOf(classes, e.class, text) }

func (e *testEnv) statusOf(kind schema.GroupVersionResource, name, text string) {
	e.Helper()
	_, err := e.objects.Resource(kind).Patch(e.Context(), name, types.MergePatchType, []byte(`{"status":`+text+`}`), metav1.PatchOptions{}, "status")
	e.must(err)
}

// merge patches an object, as a person does.
func (e *testEnv) merge(kind schema.GroupVersionResource, name, patch string) {
	e.Helper()
	_, err := e.objects.Resource(kind).Patch(e.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	e.must(err)
}

// spec is the spec of the class in the API server.
func (e *testEnv) spec() map[string]any {
	e.Helper()
	return e.now().Object["spec"].(map[string]any)
}

func (e *testEnv) now() *unstructured.Unstructured {
	e.Helper()
	o, err := e.objects.Resource(classes).Get(e.Context(), e.class, metav1.GetOptions{})
	e.must(err)
	return o
}
