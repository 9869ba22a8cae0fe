package cloudtest

import (
	"context"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var clusterCases = []testCase{
	{"of two clusters in an account, each knows its own snapshots, versions and trials", clustersAreApart},
	{"of two clusters in an account, each knows its own workshops and copies", clustersCopyApart},
}

// seenBy returns the provider of a cluster.
func (s suite) seenBy(cluster string) suite {
	s.p = cloud.InCluster(s.p, func(context.Context) (string, error) { return cluster, nil })
	return s
}

// clustersAreApart makes a snapshot, a version and a trial for cluster one, and a snapshot for cluster two.
func clustersAreApart(t *testing.T, s suite) {
	one, two := s.seenBy("cluster-one"), s.seenBy("cluster-two")
	one.publish(t, firstVersion)
	one.ensureSnapshot(t, cloud.SnapshotSpec{Name: "pool-2026.01.08", Instance: s.a, Tags: owned("pool-2026.01.08", "u8")})
	two.ensureSnapshot(t, cloud.SnapshotSpec{Name: "pool-2026.01.09", Instance: s.a, Tags: owned("pool-2026.01.09", "u9")})
	s.start(t, s.a)
	spec := trialSpec(s, "trial-of-one")
	delete(spec.Tags, cloud.TagCluster)
	begun := beginTrial(t, one, spec)
	for _, c := range []struct {
		suite
		snapshot string
		version  cloud.Origin
		trials   int
	}{{one, "pool-2026.01.08", cloud.Own, 1}, {two, "pool-2026.01.09", cloud.Foreign, 0}} {
		snapshots := c.listSnapshots(t, s.Pool)
		if len(snapshots) != 1 || snapshots[0].Name != c.snapshot || snapshots[0].Origin != cloud.Own {
			t.Errorf("the cluster of snapshot %s sees the snapshots %+v", c.snapshot, snapshots)
		}
		if trials := got(c.p.Trials(t.Context(), s.Pool))(t); len(trials) != c.trials || len(trials) > 0 && trials[0].Origin != cloud.Own {
			t.Errorf("the cluster of snapshot %s sees the trials %+v", c.snapshot, trials)
		}
		if images := got(c.p.Images(t.Context(), s.Pool))(t); len(images) != 1 || images[0].Origin != c.version {
			t.Errorf("the cluster of snapshot %s sees the versions %+v", c.snapshot, images)
		}
	}
	endTrial(t, s, got(one.p.Trials(t.Context(), s.Pool))(t)[0], begun.Instances...)
}

// clustersCopyApart makes a workshop and a copy for cluster one.
func clustersCopyApart(t *testing.T, s suite) {
	needWorkshops(t, s)
	needCopies(t, s)
	one, two := s.seenBy("cluster-one"), s.seenBy("cluster-two")
	spec := workshopSpec(s, "workshop-of-one")
	delete(spec.Tags, cloud.TagCluster)
	m := beginWorkshop(t, one, spec)
	copied := copySpec(t, one, m.ID)
	delete(copied.Tags, cloud.TagCluster)
	attachCopy(t, one, copied)
	for _, c := range []struct {
		suite
		has int
	}{{one, 1}, {two, 0}} {
		workshops, copies := got(c.p.Workshops(t.Context(), s.Pool))(t), got(c.p.Copies(t.Context(), s.Pool))(t)
		if len(workshops) != c.has || len(copies) != c.has || c.has > 0 && (workshops[0].Origin != cloud.Own || copies[0].Origin != cloud.Own) {
			t.Errorf("a cluster with %d of each sees the workshops %+v and the copies %+v", c.has, workshops, copies)
		}
	}
	endCopy(t, one, got(one.p.Copies(t.Context(), s.Pool))(t)[0])
	endWorkshop(t, one, got(one.p.Workshops(t.Context(), s.Pool))(t)[0], m)
}
