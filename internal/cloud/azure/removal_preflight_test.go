package azure

import (
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const locksPath = string(testPool) + "/virtualMachines/0/providers/Microsoft.Authorization/locks"

// TestRemovalPreflight: obstacles to the removal of the donor, or to growth before the removal, refuse only the
// affected kind of capture.
func TestRemovalPreflight(t *testing.T) {
	usage := func(name string, used, limit string) func(*fakeARM) {
		return func(a *fakeARM) {
			a.lists[fold(usagesPath)] = []any{object(a.t, `{"name": {"value": "`+name+`"}, "currentValue": `+used+`, "limit": `+limit+`, "unit": "Count"}`)}
		}
	}
	locked := func(a *fakeARM) {
		a.lists[fold(locksPath)] = []any{object(a.t,
			`{"id": "`+testScope+`/providers/Microsoft.Authorization/locks/keep", "name": "keep", "properties": {"level": "CanNotDelete"}}`)}
	}
	for _, test := range []struct {
		name, pool string
		world      func(*fakeARM)
		removes    []string // refusals of a removal; grows: refusals of a removal after growth
		grows      []string
		says       string
	}{
		{name: "nothing in the way"},
		{name: "a lock", world: locked, removes: []string{cloud.DonorProtected}, says: "lock keep (CanNotDelete) on " + testScope + " prevents"},
		{name: "locks may not be listed", world: func(a *fakeARM) { a.next("GET", locksPath, armError(403, "AuthorizationFailed", "no")) }},
		{name: "the cores of its family", world: usage("standardDSv5Family", "9", "10"), grows: []string{string(cloud.QuotaExceeded)},
			says: "too small for another Standard_D2s_v5"},
		{name: "the last cores of its family", world: usage("standardDSv5Family", "8", "10")},
		{name: "all cores", world: usage("cores", "10", "10"), grows: []string{string(cloud.QuotaExceeded)}, says: "2 more needed"},
		{name: "machines", world: usage("virtualMachines", "10", "10"), grows: []string{string(cloud.QuotaExceeded)}, says: "1 more needed"},
		{name: "cores of others", world: usage("standardESv5Family", "10", "10")},
		{name: "a size of no rule", pool: `{"sku": {"name": "Standard_M128-32ms"}}`, world: usage("cores", "10", "10")},
		{name: "quotas unknown", world: func(a *fakeARM) {
			a.next("GET", usagesPath, armError(403, "AuthorizationFailed", "no"))
			a.next("GET", usagesPath, armError(403, "AuthorizationFailed", "no"))
		}},
		{name: "a thousand", pool: `{"sku": {"capacity": 1000}}`, grows: []string{cloud.PoolAtMaximum}, says: "Azure's limit is 1000"},
		{name: "one less", pool: `{"sku": {"capacity": 999}}`},
		{name: "a placement group", pool: `{"sku": {"capacity": 100}, "properties": {"singlePlacementGroup": true}}`,
			grows: []string{cloud.PoolAtMaximum}, says: "Azure's limit is 100"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, spec := range []cloud.PreflightSpec{{}, {Removes: true}, {Removes: true, Grows: true}} {
				a := ready(t, test.pool, "")
				a.lists[fold(locksPath)] = []any{}
				if test.world != nil {
					test.world(a)
				}
				spec.Pool, spec.Instance, spec.Version = testPool, testInstance, testVersion
				found, err := a.provider().Preflight(t.Context(), spec)
				if err != nil {
					t.Fatal(err)
				}
				var want []string
				if spec.Removes {
					want = append(want, test.removes...)
				}
				if spec.Grows {
					want = append(want, test.grows...)
				}
				if !slices.Equal(reasons(found), append([]string{}, want...)) {
					t.Fatalf("%+v finds %v, want %v", spec, found, want)
				}
				if len(found) > 0 && !strings.Contains(found[0].Message, test.says) {
					t.Errorf("message %q does not say %q", found[0].Message, test.says)
				}
				if made := a.made(); len(made) != 0 {
					t.Errorf("a look sent %v", made)
				}
			}
		})
	}
}
