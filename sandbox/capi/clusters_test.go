package capi_test

import (
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestSweepLeavesSnapshotsOfTheOtherCluster: two clusters in one account and region have a MachineDeployment of one name. The sweep of
// one removes the snapshot of its own lost capture, and leaves that of the other's running capture.
func TestSweepLeavesSnapshotsOfTheOtherCluster(t *testing.T) {
	s := newTestEnv(t, 1)
	donor, pools := instanceOf(s.list("Machine")[0]), []cloud.PoolID{s.id()}
	for day, cluster := range map[string]string{"2026.03.12": clusterID, "2026.03.13": "another-cluster"} {
		name := s.pool.name + "-" + day
		_, err := s.cloud.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: name, Instance: donor,
			Tags: map[string]string{cloud.TagPrototype: name, cloud.TagUID: "uid-" + day, cloud.TagCluster: cluster}})
		s.must(err)
	}
	s.clock.Advance(time.Minute)
	for range 3 {
		_, err := s.engine.SweepLeftovers(t.Context(), pools)
		s.must(err)
		s.clock.Advance(time.Minute)
	}
	left := s.cloud.World().Snapshots
	if len(left) != 1 || left[0].Name != s.pool.name+"-2026.03.13" || left[0].State != cloud.Complete {
		t.Errorf("snapshots: %+v", left)
	}
}
