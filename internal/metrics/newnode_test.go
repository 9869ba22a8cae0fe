package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// TestPoolJoins: new values replace earlier values; of two pools with one name the worse pool is shown.
func TestPoolJoins(t *testing.T) {
	m := New(nil)
	m.Joins([]PoolJoins{{Pool: "gone", Version: "1"}})
	m.Joins([]PoolJoins{
		{Pool: "a", Version: "3", Of: joinhealth.Tally{Joined: 2, Failed: 1, Waiting: 4, Median: time.Minute}, Stays: true},
		{Pool: "a", Version: "9"},
		{Pool: "b", Version: "1", Of: joinhealth.Tally{Joined: 1}, Suspect: "2", OfSuspect: joinhealth.Tally{Failed: 2}, RolledBack: true},
		{Pool: "c"},
	})
	m.CountRollback("b")
	want := `
# HELP kamino_pool_joins Nodes of the pool's current version, and of a version after an automatic rollback, by pool, version and join result.
# TYPE kamino_pool_joins gauge
kamino_pool_joins{outcome="failed",pool="a",version="3"} 1
kamino_pool_joins{outcome="joined",pool="a",version="3"} 2
kamino_pool_joins{outcome="waiting",pool="a",version="3"} 4
kamino_pool_joins{outcome="failed",pool="b",version="1"} 0
kamino_pool_joins{outcome="joined",pool="b",version="1"} 1
kamino_pool_joins{outcome="waiting",pool="b",version="1"} 0
kamino_pool_joins{outcome="failed",pool="b",version="2"} 2
kamino_pool_joins{outcome="joined",pool="b",version="2"} 0
kamino_pool_joins{outcome="waiting",pool="b",version="2"} 0
# HELP kamino_pool_nodes_do_not_join 1 while the pool stays on a version whose nodes do not join, else 0, by pool.
# TYPE kamino_pool_nodes_do_not_join gauge
kamino_pool_nodes_do_not_join{pool="a"} 1
kamino_pool_nodes_do_not_join{pool="b"} 0
kamino_pool_nodes_do_not_join{pool="c"} 0
# HELP kamino_pool_rolled_back 1 after an automatic rollback of the pool until a user acknowledges the rollback, else 0, by pool.
# TYPE kamino_pool_rolled_back gauge
kamino_pool_rolled_back{pool="a"} 0
kamino_pool_rolled_back{pool="b"} 1
kamino_pool_rolled_back{pool="c"} 0
# HELP kamino_rollbacks_total Automatic rollbacks, by pool.
# TYPE kamino_rollbacks_total counter
kamino_rollbacks_total{pool="a"} 0
kamino_rollbacks_total{pool="b"} 1
kamino_rollbacks_total{pool="c"} 0
kamino_rollbacks_total{pool="gone"} 0
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), "kamino_pool_joins", "kamino_pool_nodes_do_not_join", "kamino_pool_rolled_back",
		"kamino_rollbacks_total"); err != nil {
		t.Error(err)
	}
}
