package cloud

import "testing"

// TestRefusalsByMethod: what only prevents a stop is no obstacle to a copy of a donor in service.
func TestRefusalsByMethod(t *testing.T) {
	for reason, copies := range map[string]bool{
		StopTerminates: false, DonorProtected: false,
		DiskUnsupported: true, ManagedElsewhere: true, NodesWouldBeReplaced: true, PermissionMissing: true, PoolBeingDeleted: true,
		PoolNotCopyable: true, PoolUnsupported: true, RootDiskTooLarge: true, SystemUnsupported: true, TemplateUnsuitable: true, VersionExists: true,
	} {
		r := Refuse(reason, "it is so", "change it")
		for method, want := range map[bool]bool{false: true, true: copies} {
			if got := RefusalsFor(method, []Refusal{r}); (len(got) == 1) != want || r.HoldsFor(method) != want {
				t.Errorf("%s, by copy %t: %+v", reason, method, got)
			}
		}
	}
}
