package conformance

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/azure"
)

// TestInstancesAtOnce: without recipes of Azure, one call reads instances of scale sets and single VMs. Except for
// power, the result equals single reads.
func TestInstancesAtOnce(t *testing.T) {
	w := newCloudEnv(t, options{})
	disks, err := provider.NewDisks(t.Context(), w.partialConfig())
	w.must(err)
	reader := cloud.DisksOf(disks) // as the product has it
	if most := reader.MaxModels(); most == 0 || most != w.p.MaxImages(w.pool) {
		t.Errorf("a scale set that is elsewhere is of %d images at most", most)
	}
	ids := append(w.list(), w.vm("md-0-abcde"))
	seen, err := reader.InstancesOf(t.Context(), append([]cloud.InstanceID{"nonsense", vmID("md-0-zzzzz"), w.list()[0][:len(w.list()[0])-1] + "99"}, ids...))
	w.must(err)
	want := map[cloud.InstanceID]cloud.Instance{}
	for _, id := range ids {
		m, err := disks.Instance(t.Context(), id)
		w.must(err)
		if m.Image == "" || m.CreatedAt.IsZero() || m.Pool != "" {
			t.Errorf("%s: %+v", id, m)
		}
		if seen[id].Power == cloud.PowerUnknown {
			m.Power = cloud.PowerUnknown
		}
		want[id] = m
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("at once (-alone +together):\n%s", diff)
	}
}
