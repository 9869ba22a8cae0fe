package capture

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// TestARecordThatAnOlderDefinitionDrops: if the definition of an older version drops the record, the write is an error with
// the command that replaces the definition.
func TestARecordThatAnOlderDefinitionDrops(t *testing.T) {
	c := apitest.Client(t)
	e, n := &Engine{Client: c}, 0
	write := func() error {
		n++
		p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("outdated-%d", n)}, Spec: v1alpha1.PrototypeSpec{
			Pool: "outdated", Version: "2026.03.14", Settings: v1alpha1.Settings{}.Defaulted(), Donor: v1alpha1.Donor{NodeName: "n", ProviderID: "memory:///1"},
		}}
		if err := c.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return e.rooms().store.commit(t.Context(), fromPrototype(p, v1alpha1.Record{}), func(s *v1alpha1.PrototypeStatus) {
			s.Record = &v1alpha1.Record{UID: p.UID, DiskCheckStartedAt: &metav1.Time{Time: time.Now()}}
		})
	}
	// until writes until the API server follows the definition, which takes a moment.
	until := func(when string, done func(error) bool) {
		t.Helper()
		err := write()
		for end := time.Now().Add(time.Minute); !done(err) && time.Now().Before(end); err = write() {
			time.Sleep(100 * time.Millisecond)
		}
		if !done(err) {
			t.Errorf("%s: %v", when, err)
		}
	}
	if err := write(); err != nil {
		t.Fatalf("with the definition of this version: %v", err)
	}
	restore := dropField(t, c, "record")
	until("without the record", func(err error) bool { return errors.Is(err, errOutdatedDefinition) })
	restore()
	until("again with the record", func(err error) bool { return err == nil })
}

// dropField removes a field of the status from the definition of Prototypes. restore brings the field back.
func dropField(t *testing.T, c client.Client, field string) (restore func()) {
	t.Helper()
	get := func() *unstructured.Unstructured {
		d := &unstructured.Unstructured{}
		d.SetGroupVersionKind(cluster.DefinitionKind)
		if err := c.Get(t.Context(), client.ObjectKey{Name: "prototypes.kamino.dev"}, d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	update := func(versions []any) {
		d := get()
		if err := unstructured.SetNestedSlice(d.Object, versions, "spec", "versions"); err != nil {
			t.Fatal(err)
		}
		if err := c.Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	before, _, err := unstructured.NestedSlice(get().Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	after, _, _ := unstructured.NestedSlice(get().Object, "spec", "versions")
	unstructured.RemoveNestedField(after[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "status", "properties", field)
	update(after)
	return func() { update(before) }
}
