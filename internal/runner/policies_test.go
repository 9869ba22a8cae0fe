package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/policy/policyfile"
	"github.com/kamino-dev/kamino/internal/pool"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

func writtenPolicy(name string, pools ...string) *v1alpha1.PrototypePolicy {
	p := policy.AdHoc(name, pools...)
	return &p
}

// policyStage holds the policies of a cluster with two pools with nodes, and one pool without nodes.
func policyStage(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *Policies {
	t.Helper()
	provider := memory.New(memory.Config{})
	for _, name := range []string{"pool1", "pool2", "empty"} {
		provider.AddPool(memory.PoolSpec{Name: name, Image: "generic"})
	}
	var nodes []*corev1.Node
	for _, name := range []string{"pool1", "pool2"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-of-" + name}}
		n.Spec.ProviderID = "memory:///pools/" + name + "/instances/1"
		nodes = append(nodes, n)
	}
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster.Connection{
		Kube:   fake.NewClientset(nodes[0], nodes[1]),
		Client: clientfake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(funcs).WithObjects(objects...).Build(),
	}
	return &Policies{Cluster: c, Pools: &pool.Finder{Cluster: c, Cloud: provider}}
}

func policyNames(all []v1alpha1.PrototypePolicy) (names []string) {
	for _, p := range all {
		names = append(names, p.Name+strings.Join(p.Spec.Pools.Names, "+"))
	}
	return names
}

// TestSelectedPolicies decide: the cluster's policies, the named policy, a file's policies, or an empty policy for the named
// pools.
func TestSelectedPolicies(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	text := "apiVersion: kamino.dev/v1alpha1\nkind: PrototypePolicy\nmetadata: {name: mine}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := []client.Object{writtenPolicy("a", "pool1"), writtenPolicy("b", "pool2")}
	for name, test := range map[string]struct {
		from  Policies
		want  []string
		class string
		why   string
	}{
		"all of the cluster":    {Policies{}, []string{"apool1", "bpool2"}, "", ""},
		"one of the cluster":    {Policies{Name: "b"}, []string{"bpool2"}, "", ""},
		"one that there is not": {Policies{Name: "c"}, nil, "refused", "policy c does not exist, and nothing was changed"},
		"a file":                {Policies{File: file}, []string{"mine"}, "", ""},
		"no file":               {Policies{File: file + "x"}, nil, "invalid", "no such file"},
		"a file of something":   {Policies{File: "policies.go"}, nil, "invalid", "policies.go: "},
		"made up for a pool":    {Policies{MadeUp: []string{"1", "nowhere"}}, []string{AdHocName + "memory:///pools/pool1+nowhere"}, "", ""},
	} {
		p := policyStage(t, interceptor.Funcs{}, cluster...)
		p.Name, p.File, p.MadeUp = test.from.Name, test.from.File, test.from.MadeUp
		got, err := p.Read(t.Context())
		var invalid *policyfile.Invalid
		class := ""
		switch {
		case refused(err):
			class = "refused"
		case errors.As(err, &invalid):
			class = "invalid"
		case err != nil:
			class = "error"
		}
		if class != test.class || !slices.Equal(policyNames(got), test.want) || err != nil && !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s: %v, %v", name, policyNames(got), err)
		}
	}
}

// TestTheClusterChecksAFile: a refusal carries the author's name of the policy; without an answer there is no verdict.
func TestTheClusterChecksAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	text := "apiVersion: kamino.dev/v1alpha1\nkind: PrototypePolicy\nmetadata: {name: mine, uid: theirs}\nspec: {settings: {keep: 1}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := field.ErrorList{field.Invalid(field.NewPath("spec", "settings", "keep"), 1, "should be 2 or more")}
	for name, test := range map[string]struct{ answer, want error }{
		"it refuses": {
			apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("PrototypePolicy").GroupKind(), "check-x7k2p", wrong),
			errors.New("policy mine: spec.settings.keep: Invalid value: 1: should be 2 or more"),
		},
		"it is away":         {apierrors.NewServiceUnavailable("away"), nil},
		"no right to ask it": {apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("prototypepolicies").GroupResource(), "", nil), nil},
	} {
		tried := 0
		p := policyStage(t, interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.CreateOption) error {
			if !slices.Contains(opts, client.CreateOption(client.DryRunAll)) {
				t.Error("it is written")
			}
			tried++
			return test.answer
		}})
		p.File = file
		got, err := p.Read(t.Context())
		if tried != 1 || (err == nil) != (test.want == nil) || err != nil && err.Error() != test.want.Error() {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (got[0].UID != "" || got[0].Spec.MaxConcurrent == 0) {
			t.Errorf("%s: %+v", name, got[0])
		}
	}
}

// TestSelectedPools about a requested pool, and about all pools.
func TestSelectedPools(t *testing.T) {
	missing := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, is := list.(*v1alpha1.PrototypePolicyList); is {
			return &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: 404}}
		}
		return c.List(ctx, list, opts...)
	}}
	twice := []client.Object{writtenPolicy("a", "pool1"), writtenPolicy("b", "pool1")}
	for name, test := range map[string]struct {
		funcs   interceptor.Funcs
		objects []client.Object
		named   string
		asked   string
		decided []string
		said    int
		missing bool
		none    string
		why     string
	}{
		"a policy for each": {objects: []client.Object{writtenPolicy("a", "pool1"), writtenPolicy("b", "pool2")},
			decided: []string{"pool1 by a", "pool2 by b"}},
		"a policy for the one": {objects: []client.Object{writtenPolicy("a", "pool1"), writtenPolicy("b", "pool2")}, asked: "2",
			decided: []string{"pool2 by b"}},
		"no policy for the one": {objects: []client.Object{writtenPolicy("a", "pool1")}, asked: "pool2",
			decided: []string{"pool2 by " + AdHocName}, none: "pool2"},
		"two for the one":             {objects: twice, asked: "pool1", decided: []string{"pool1 by " + AdHocName}, none: "pool1", said: 2},
		"two for one of all":          {objects: twice, said: 2},
		"a policy for no pool":        {objects: []client.Object{writtenPolicy("a", "nowhere")}, said: 1},
		"no policies":                 {},
		"no definitions":              {funcs: missing, decided: []string{"pool1 by " + AdHocName, "pool2 by " + AdHocName}, missing: true},
		"no definitions, one pool":    {funcs: missing, asked: "pool1", decided: []string{"pool1 by " + AdHocName}, none: "pool1"},
		"no definitions, one policy":  {funcs: missing, named: "a", why: ErrPoliciesMissing.Error()},
		"a pool without nodes":        {asked: "empty", why: "pool empty has no node in this cluster"},
		"an unknown pool":             {asked: "nowhere", why: `pool "nowhere" not found`},
		"a word that means two pools": {asked: "pool", why: "2 pools have pool in the name"},
	} {
		t.Run(name, func(t *testing.T) {
			p := policyStage(t, test.funcs, test.objects...)
			p.Name = test.named
			provider := p.Pools.Cloud.(*memory.Cloud).Provider
			engine := &capture.Engine{Client: p.Cluster.Client, Kube: p.Cluster.Kube, Cloud: provider, Namespace: "kamino-system", Now: nowThen}
			decider, _, err := NewDecider(t.Context(), p.Cluster, provider, engine, Options{Now: nowThen})
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Plan(t.Context(), decider, test.asked)
			if test.why != "" {
				if !refused(err) || !strings.Contains(err.Error(), test.why) {
					t.Errorf("%v does not say %q", err, test.why)
				}
				return
			}
			var decided []string
			for _, plan := range got.Pools {
				decided = append(decided, plan.Pool.Name+" by "+plan.Policy)
			}
			if err != nil || !slices.Equal(decided, test.decided) || len(got.Said) != test.said || got.Missing != test.missing || got.Unclaimed != test.none {
				t.Errorf("%v: %q, said %q, missing %t, unclaimed %q", err, decided, got.Said, got.Missing, got.Unclaimed)
			}
		})
	}
}

func nowThen() time.Time { return testNow }
