package azure

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/internal/cloud"
)

func TestPoolsOf(t *testing.T) {
	p := newARM(t).provider()
	for _, test := range []struct {
		name, id string
		want     cloud.PoolID
		says     string
	}{
		{name: "Uniform", id: string(testInstance), want: testPool},
		{name: "another case", id: "azure:///SUBSCRIPTIONS/" + testSubscription +
			"/resourcegroups/RG1/providers/microsoft.compute/virtualmachinescalesets/Pool1/virtualmachines/0", want: testPool},
		{name: "Flexible", id: "azure://" + testScope + "/providers/Microsoft.Compute/virtualMachines/pool1_ab12", says: "Flexible orchestration"},
		{name: "not a VM", id: "azure://" + testScope + "/providers/Microsoft.Compute/disks/d", says: "not a VM of a scale set"},
		{name: "another cloud", id: "aws:///us-east-1a/i-0123", says: "not the provider ID of an Azure VM"},
		{name: "no resource", id: "azure://nothing", says: "not an Azure resource ID"},
		{name: "empty", id: "", says: "not the provider ID of an Azure VM"},
	} {
		t.Run(test.name, func(t *testing.T) {
			found, err := p.PoolsOf(t.Context(), []cloud.NodeValues{{ProviderID: cloud.InstanceID(test.id)}})
			if err != nil || len(found) != 1 || found[0].Pool != test.want {
				t.Fatalf("got %+v, %v, want %q", found, err, test.want)
			}
			if test.says != "" {
				if !strings.Contains(found[0].Why, test.says) {
					t.Errorf("%q does not say %q", found[0].Why, test.says)
				}
				return
			}
			if name := p.PoolName(found[0].Pool); name != "pool1" {
				t.Errorf("name %q", name)
			}
		})
	}
}

func TestSameInstance(t *testing.T) {
	p := newARM(t).provider()
	upper := cloud.InstanceID("azure://" + strings.ToUpper(strings.TrimPrefix(string(testInstance), "azure://")))
	if !p.SameInstance(testInstance, upper) {
		t.Error("IDs that differ in case are two instances")
	}
	if p.SameInstance(testInstance, testInstance+"1") {
		t.Error("instances 0 and 01 are one")
	}
}

func TestNameLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scaleSet{
			group: rapid.StringMatching(`[-\w._()]{1,90}`).Draw(t, "group"),
			name:  rapid.StringMatching(`[a-z][a-z0-9-]{0,63}`).Draw(t, "name"),
		}
		capture := rapid.StringMatching(`[a-z][a-z0-9.-]{0,120}`).Draw(t, "capture")
		for _, name := range []string{s.gallery(), s.definition(), snapshotName(capture)} {
			if len(name) > 80 {
				t.Fatalf("%s is longer than 80", name)
			}
		}
		if strings.ContainsAny(s.gallery(), "-()") {
			t.Fatalf("gallery %s holds what Azure does not take", s.gallery())
		}
		other := capture + "x"
		if snapshotName(capture) == snapshotName(other) {
			t.Fatalf("two captures share the snapshot %s", snapshotName(capture))
		}
	})
}

func TestResourceNames(t *testing.T) {
	s := scaleSet{group: "my-group-1", name: "k8s-pool1-12345678-vmss"}
	if got := s.gallery(); got != "SIG_my_group_1" {
		t.Errorf("gallery %s", got)
	}
	if got := s.definition(); got != "kamino-k8s-pool1-12345678-vmss-prototype" {
		t.Errorf("definition %s", got)
	}
}

func TestVersionOf(t *testing.T) {
	s := scaleSet{subscription: testSubscription, group: "rg1", name: "pool1"}
	for _, test := range []struct {
		id, version string
		latest, ok  bool
	}{
		{id: testDefinition, latest: true, ok: true},
		{id: testDefinition + "/versions/latest", latest: true, ok: true},
		{id: strings.ToUpper(testDefinition) + "/VERSIONS/2026.11.21", version: "2026.11.21", ok: true},
		{id: testDefinition + "2/versions/2026.11.21"},
		{id: testDefinition + "/versions/"},
		{id: "/subscriptions/x/resourceGroups/y/providers/Microsoft.Compute/images/z"},
		{id: ""},
	} {
		version, latest, ok := s.versionOf(test.id)
		if version != test.version || latest != test.latest || ok != test.ok {
			t.Errorf("%s: got %q, %v, %v", test.id, version, latest, ok)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	for _, good := range []string{"2026.11.21", "0.0.1", "2026.01.05"} {
		if err := checkVersion(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "latest", "2026.11", "2026.11.21.1", "2026.11.-1", "1.2.2147483648", "../x.1.2"} {
		wantKind(t, checkVersion(bad), cloud.Invalid)
	}
}
