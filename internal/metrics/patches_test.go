package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/kamino-dev/kamino/internal/cloud/registry"
	"github.com/kamino-dev/kamino/internal/policy"
)

// TestPendingPatches: an unknown number of patches has no sample, and is never zero.
func TestPendingPatches(t *testing.T) {
	m := New(nil, registry.All()...)
	m.Patches([]policy.Patches{
		{Pool: policy.PoolRef{Name: "a"}, Known: true, Packages: 3, Security: 2},
		{Pool: policy.PoolRef{Name: "b"}, Unchecked: "RepositoryNotRead"},
		{Pool: policy.PoolRef{Name: "c"}, Known: true, Packages: 1, Unchecked: "made up", Quarantined: true},
		{Pool: policy.PoolRef{Name: "a"}, Known: true, Packages: 1},
	})
	want := `
# HELP kamino_pool_patches_quarantined 1 while the pending patches of the pool have failed on a pioneer, else 0, by pool.
# TYPE kamino_pool_patches_quarantined gauge
kamino_pool_patches_quarantined{pool="a"} 0
kamino_pool_patches_quarantined{pool="b"} 0
kamino_pool_patches_quarantined{pool="c"} 1
# HELP kamino_pool_patches_unchecked 1 while the last check for patches of the pool had no answer, by pool and reason.
# TYPE kamino_pool_patches_unchecked gauge
kamino_pool_patches_unchecked{pool="b",reason="RepositoryNotRead"} 1
kamino_pool_patches_unchecked{pool="c",reason="Other"} 1
# HELP kamino_pool_pending_patches Patches that nodes of the pool's image lack, at the last check that read all repositories, by pool and set.
# TYPE kamino_pool_pending_patches gauge
kamino_pool_pending_patches{pool="a",set="all"} 3
kamino_pool_pending_patches{pool="a",set="security"} 2
kamino_pool_pending_patches{pool="c",set="all"} 1
kamino_pool_pending_patches{pool="c",set="security"} 0
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), "kamino_pool_pending_patches", "kamino_pool_patches_unchecked",
		"kamino_pool_patches_quarantined"); err != nil {
		t.Error(err)
	}
}
