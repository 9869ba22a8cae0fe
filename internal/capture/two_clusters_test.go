package capture

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// origins are the makers of a thing in the account. Only some are proven ours.
var origins = map[string]struct {
	cluster string
	// uid is the UID of the Prototype, unless ended: then an ended Prototype of this cluster made the thing.
	uid       string
	ended     bool
	isRemoved bool
}{
	"another cluster's":                         {cluster: "another-cluster", uid: "gone"},
	"another cluster's, with a UID of ours":     {cluster: "another-cluster", ended: true},
	"ours, of a forgotten capture":              {cluster: ourCluster, uid: "gone", isRemoved: true},
	"of an earlier version, forgotten":          {uid: "gone"},
	"of an earlier version, with its Prototype": {ended: true, isRemoved: true},
}

// endedPrototypeUID creates an ended Prototype, and returns its UID.
func (s *testEnv) endedPrototypeUID() string {
	s.t.Helper()
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "pool1-2026.03.12"}}
	p.Spec.Pool, p.Spec.Version = "pool1", "2026.03.12"
	s.must(s.clean.Create(context.Background(), p))
	p.Status.Phase = v1alpha1.PhaseFailed
	s.must(s.clean.Status().Update(context.Background(), p))
	return string(p.UID)
}

// TestASweepKnowsItsCluster: another cluster has a pool of the same name, and its capture is at work: its snapshot, unfinished version
// and trial stay. A thing without a cluster's tag is removed only if its Prototype is here.
func TestASweepKnowsItsCluster(t *testing.T) {
	for name, c := range origins {
		t.Run(name, func(t *testing.T) {
			v := published(t)
			uid := c.uid
			if c.ended {
				uid = v.endedPrototypeUID()
			}
			tags := map[string]string{cloud.TagPrototype: "pool1-2026.03.12", cloud.TagUID: uid}
			if c.cluster != "" {
				tags[cloud.TagCluster] = c.cluster
			}
			made, err := v.cloud.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: "pool1-2026.03.12", Instance: v.donor, Tags: tags})
			v.must(err)
			v.clock.Advance(time.Minute)
			_, err = v.cloud.EnsureTrial(
				t.Context(),
				cloud.TrialSpec{
					ImageRef:        cloud.ImageRef{Pool: v.pool, Version: triedVersion},
					Name:            "pool1-2026.03.12-trial-1",
					RemoveBootstrap: true,
					Tags:            tags,
				},
			)
			v.must(err)
			left, err := v.engine.Leftovers(t.Context(), []cloud.PoolID{v.pool}, nil)
			v.must(err)
			for _, kind := range []string{reservations.Snapshot, reservations.Trial} {
				if listed := slices.ContainsFunc(left, func(l reservations.Leftover) bool { return l.Kind == kind }); listed != c.isRemoved {
					t.Errorf("the %s is listed: %t", kind, listed)
				}
			}
			for range 4 {
				_, err = v.engine.SweepLeftovers(t.Context(), []cloud.PoolID{v.pool})
				v.must(err)
				v.clock.Advance(time.Minute)
			}
			w := v.cloud.World()
			hasSnapshot := slices.ContainsFunc(w.Snapshots, func(s memory.SnapshotView) bool { return s.Name == made.Name })
			if hasSnapshot == c.isRemoved || len(w.Trials) > 0 == c.isRemoved {
				t.Errorf("snapshot there: %t, trials %d; want both removed: %t", hasSnapshot, len(w.Trials), c.isRemoved)
			}
		})
	}
}

// TestACaptureRetiresVersionsOfItsCluster: of four old versions, the capture retires its own. A version of another
// cluster also takes no place among the versions to keep.
func TestACaptureRetiresVersionsOfItsCluster(t *testing.T) {
	for name, c := range origins {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t)
			uid := c.uid
			if c.ended {
				uid = s.endedPrototypeUID()
			}
			tags := map[string]string{cloud.TagUID: uid}
			if c.cluster != "" {
				tags[cloud.TagCluster] = c.cluster
			}
			s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: "2026.03.01", Tags: tags})
			for _, version := range []string{"2026.03.02", "2026.03.03", "2026.03.04"} {
				s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: version, Tags: ours()})
			}
			s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: "2026.03.05", Tags: map[string]string{cloud.TagCluster: "another-cluster"}})
			s.decide()
			p := s.play()
			s.succeeded(p)
			images, err := s.cloud.Images(t.Context(), s.pool)
			s.must(err)
			has := func(version string) bool {
				return slices.ContainsFunc(images, func(i cloud.Image) bool { return i.Version == version && i.State == cloud.Complete })
			}
			keep := int(p.Spec.Settings.Defaulted().Keep)
			if has("2026.03.01") == c.isRemoved || !has("2026.03.05") || keep != 3 || has("2026.03.02") || !has("2026.03.03") || !has("2026.03.04") {
				t.Errorf("retired %v of %d to keep, want the oldest: %t", p.Status.Retired, keep, c.isRemoved)
			}
		})
	}
}
