package definition

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/manifest"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m)) }

const one = "prototypes.kamino.dev"

// TestDefinitionsAreReplaced on an API server with an older definition: extra fields go, and missing fields come. Another
// time, nothing changes.
func TestDefinitionsAreReplaced(t *testing.T) {
	c := apitest.Client(t)
	outdate(t, c)
	version := ""
	for range 2 {
		if err := apply(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if outdated(t, c) {
			t.Error("what another field manager wrote into the old definition is still there")
		}
		is := get(t, c).GetResourceVersion()
		if version != "" && version != is {
			t.Error("the same definition is written again")
		}
		version = is
	}
}

// TestEverySingleCallLost: any lost call, before or after its effect, ends the command; the same command again completes
// the work.
func TestEverySingleCallLost(t *testing.T) {
	real := apitest.Client(t)
	lost := errors.New("lost")
	for _, after := range []bool{false, true} {
		for n, calls := 0, 1; n < calls; n++ {
			outdate(t, real)
			seen := 0
			lose := func(do func() error) error {
				if seen++; seen-1 != n {
					return do()
				}
				if after {
					return errors.Join(lost, do())
				}
				return lost
			}
			faulty := interceptor.NewClient(real, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					return lose(func() error { return c.Get(ctx, key, o, opts...) })
				},
				Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
					return lose(func() error { return c.Apply(ctx, o, opts...) })
				},
			})
			err := apply(t.Context(), faulty)
			if calls = max(calls, seen); seen > n && !errors.Is(err, lost) {
				t.Errorf("call %d: %v", n, err)
			}
			if err := apply(t.Context(), real); err != nil || outdated(t, real) {
				t.Errorf("call %d, the second time: %v", n, err)
			}
		}
	}
}

// TestInstall: the installation has all manifests, and a repeated installation changes nothing. An API server without
// ValidatingAdmissionPolicies gets the rest.
func TestInstall(t *testing.T) {
	connection, err := cluster.New(apitest.Server(t), "kamino/test")
	if err != nil {
		t.Fatal(err)
	}
	o := manifest.Options{DeleteTrialNodes: true}
	want, err := manifest.Installation(o)
	if err != nil || len(want) < 20 {
		t.Fatalf("%d objects, %v", len(want), err)
	}
	old := interceptor.NewClient(connection.Client, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if text, _ := json.Marshal(o); strings.Contains(string(text), `"kind":"ValidatingAdmissionPolicy`) {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "validatingadmissionpolicies"}, "")
			}
			return c.Apply(ctx, o, opts...)
		},
	})
	for _, test := range []struct {
		client   client.Client
		policies bool
	}{{old, false}, {connection.Client, true}, {connection.Client, true}} {
		if err := Install(t.Context(), test.client, o); err != nil {
			t.Fatal(err)
		}
		for _, object := range want {
			err := connection.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object.DeepCopy())
			if isPolicy := strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy"); (err == nil) != (test.policies || !isPolicy) {
				t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
	}
}

func TestServed(t *testing.T) {
	for name, test := range map[string]struct {
		status any
		want   bool
	}{
		"new":     {nil, false},
		"null":    {map[string]any{"conditions": nil}, false},
		"not yet": {map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "False"}}}, false},
		"another": {map[string]any{"conditions": []any{map[string]any{"type": "NamesAccepted", "status": "True"}}}, false},
		"served": {map[string]any{"conditions": []any{map[string]any{"type": "NamesAccepted"},
			map[string]any{"type": "Established", "status": "True"}}}, true},
		"no condition": {map[string]any{"conditions": []any{"Established"}}, false},
	} {
		if got := served(&unstructured.Unstructured{Object: map[string]any{"status": test.status}}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestServedNeedsNoRight: an account without any right in Kamino's group learns which kinds the API server serves.
func TestServedNeedsNoRight(t *testing.T) {
	config := rest.CopyConfig(apitest.Server(t))
	config.Impersonate = rest.ImpersonationConfig{UserName: "nothing", Groups: []string{"system:authenticated"}}
	c, err := cluster.New(config, "test")
	if err != nil {
		t.Fatal(err)
	}
	for resource, want := range map[string]bool{"nodeorders": true, "prototypes": true, "foreign": false} {
		if got, err := c.Served(t.Context(), resource); got != want || err != nil {
			t.Errorf("%s: served %t, want %t: %v", resource, got, want, err)
		}
	}
}

// outdate writes a definition that differs from this build.
func outdate(t *testing.T, c client.Client) {
	t.Helper()
	found := get(t, c)
	setColumns(t, found, []any{map[string]any{"name": "Outdated", "type": "string", "jsonPath": ".spec.pool"}})
	if err := c.Update(t.Context(), found, client.FieldOwner("another-user")); err != nil {
		t.Fatal(err)
	}
}

func outdated(t *testing.T, c client.Client) bool {
	t.Helper()
	text, err := get(t, c).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "Outdated\"")
}

func get(t *testing.T, c client.Client) *unstructured.Unstructured {
	t.Helper()
	found := named(one)
	if err := c.Get(t.Context(), client.ObjectKey{Name: one}, found); err != nil {
		t.Fatal(err)
	}
	return found
}

func setColumns(t *testing.T, d *unstructured.Unstructured, columns []any) {
	t.Helper()
	v := onlyVersion(t, d)
	v["additionalPrinterColumns"] = columns
	if err := unstructured.SetNestedSlice(d.Object, []any{v}, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
}

func onlyVersion(t *testing.T, d *unstructured.Unstructured) map[string]any {
	t.Helper()
	versions, _, err := unstructured.NestedSlice(d.Object, "spec", "versions")
	if err != nil || len(versions) != 1 {
		t.Fatalf("versions of %s: %v, %v", d.GetName(), versions, err)
	}
	return versions[0].(map[string]any)
}
