package cli

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/manifest"
)

// TestDefinitionsAreReplaced runs `kamino crds --apply` on a connection that has an older definition: what that
// one has too much goes, and what it lacks comes.
func TestDefinitionsAreReplaced(t *testing.T) {
	connection := startCluster(t)
	wanted, err := manifest.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	const old = "prototypes.kamino.dev"
	found := definition(old)
	if err := connection.Client.Get(t.Context(), client.ObjectKey{Name: old}, found); err != nil {
		t.Fatal(err)
	}
	setColumns(t, found, []any{map[string]any{"name": "Outdated", "type": "string", "jsonPath": ".spec.pool"}})
	if err := connection.Client.Update(t.Context(), found, client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}

	var out bytes.Buffer
	f := NewFactory()
	f.Out, f.Err = &out, t.Output()
	f.Connect = func(*Options) (*cluster.Connection, error) { return connection, nil }
	for i, want := range []string{old + ": updated\n", old + ": unchanged\n"} {
		out.Reset()
		if code := f.Run(t.Context(), []string{"crds", "--apply"}); code != ExitDone {
			t.Fatalf("run %d ended with %d", i, code)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("run %d says\n%swant %s", i, out.String(), want)
		}
	}
	for _, definition := range wanted {
		if !strings.Contains(out.String(), definition.GetName()+": unchanged\n") {
			t.Errorf("%s is not settled:\n%s", definition.GetName(), out.String())
		}
	}
	if err := connection.Client.Get(t.Context(), client.ObjectKey{Name: old}, found); err != nil {
		t.Fatal(err)
	}
	for _, column := range columns(t, found) {
		if column.(map[string]any)["name"] == "Outdated" {
			t.Error("what another field manager wrote into the old definition is still there")
		}
	}
}

// columns of a definition's only version.
func columns(t *testing.T, d *unstructured.Unstructured) []any {
	t.Helper()
	columns, _, err := unstructured.NestedSlice(onlyVersion(t, d), "additionalPrinterColumns")
	if err != nil {
		t.Fatal(err)
	}
	return columns
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
