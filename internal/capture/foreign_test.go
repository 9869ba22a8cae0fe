package capture

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// before lets the world do something before the engine's first call of that name, once.
func (s *testEnv) before(call string, do func()) {
	done := false
	s.lose = func(what string) memory.Outcome {
		if !done && strings.HasPrefix(what, call+" ") {
			done = true
			do()
		}
		return memory.Pass()
	}
}

func (s *testEnv) nothingPublished() {
	s.t.Helper()
	if slices.ContainsFunc(s.calls(), func(c string) bool { return strings.HasPrefix(c, "EnsureImage ") || strings.HasPrefix(c, "SetRecipe ") }) {
		s.t.Error("something was made of it")
	}
}

// TestAForgedSnapshotOfAnotherDisk: tags can be written onto any snapshot. One of another node's disk, with all tags of the proven disk,
// never becomes a version.
func TestAForgedSnapshotOfAnotherDisk(t *testing.T) {
	s := newTestEnv(t).decide()
	s.before("EnsureSnapshot", func() {
		p := s.prototype()
		_, err := s.cloud.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: s.name, Instance: s.peer, Tags: map[string]string{
			cloud.TagUID: string(p.UID), cloud.TagCluster: ourCluster, cloud.TagProof: p.Status.Proof.Tag()}})
		s.must(err)
	})
	p := s.play()
	s.failed(p, CloudRefused)
	if !strings.Contains(p.Status.Failure.Message, "the proof is of disk") {
		t.Error(verdict(p))
	}
	if made := s.cloud.World().Images; len(made) > 0 {
		t.Errorf("published are %+v", made)
	}
}

// TestSnapshotBelongsToItsUID: a snapshot of the same name with another UID, or without a UID, is neither used
// nor deleted. The failure names the snapshot.
func TestSnapshotBelongsToItsUID(t *testing.T) {
	for name, tags := range map[string]map[string]string{
		"another's":        {cloud.TagUID: "another", cloud.TagPrototype: "pool1-2026.03.14", cloud.TagProof: "static/1/sha256:0"},
		"without an owner": {cloud.TagPrototype: "pool1-2026.03.14", cloud.TagProof: "static/1/sha256:0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t).decide()
			var made cloud.Snapshot
			s.before("EnsureSnapshot", func() {
				var err error
				made, err = s.cloud.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: s.name, Instance: s.donor, Tags: tags})
				s.must(err)
			})
			p := s.play()
			if p.Status.Failure == nil || p.Status.Failure.Reason != "OfOtherCapture" || !strings.Contains(p.Status.Failure.Message, made.ID) ||
				!strings.Contains(p.Status.Failure.Message, "Delete the snapshot") {
				t.Errorf("it ended so: %s", verdict(p))
			}
			s.nothingPublished()
			s.tick(time.Minute)
			left := s.cloud.World().Snapshots
			if len(left) != 1 || left[0].State == cloud.Deleting || left[0].Tags[cloud.TagUID] != tags[cloud.TagUID] {
				t.Errorf("snapshots: %+v", left)
			}
			if m := s.cloud.World().Instance(s.donor); m.Power != cloud.PowerRunning || m.ScaleInProtected {
				t.Errorf("the donor is %+v", m)
			}
		})
	}
}

// TestImageBelongsToPoolByProof: a version of our name that carries another UID, or not our proof, is never what the
// recipe names, nor deleted.
func TestImageBelongsToPoolByProof(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		tags         func(p *v1alpha1.Prototype) map[string]string
	}{
		{"another's", "OfOtherCapture", func(*v1alpha1.Prototype) map[string]string {
			return map[string]string{cloud.TagUID: "another", cloud.TagProof: "static/1/sha256:0"}
		}},
		{"without an owner", "OfOtherCapture", func(*v1alpha1.Prototype) map[string]string { return nil }},
		{"ours without a proof", "ProofLost", func(p *v1alpha1.Prototype) map[string]string {
			return map[string]string{cloud.TagUID: string(p.UID), cloud.TagPrototype: p.Name}
		}},
		{"ours with another proof", "ProofLost", func(p *v1alpha1.Prototype) map[string]string {
			return map[string]string{cloud.TagUID: string(p.UID), cloud.TagPrototype: p.Name, cloud.TagProof: "static/1/sha256:another"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTestEnv(t).decide()
			s.before("EnsureImage", func() {
				p := s.prototype()
				s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: p.Spec.Version, Tags: c.tags(p)})
			})
			p := s.play()
			s.failed(p, c.reason)
			if slices.ContainsFunc(s.calls(), func(c string) bool { return strings.HasPrefix(c, "SetRecipe ") }) {
				t.Error("the recipe was written")
			}
			if image, err := s.cloud.Image(t.Context(), s.ref(p)); err != nil || image.State != cloud.Complete {
				t.Errorf("the version is %s, %v", image.State, err)
			}
		})
	}
}

// TestOnlyValidProofMakesImage: before each image, the Prototype carries a proof valid for its NodeOrder, and the
// image gets that proof.
func TestOnlyValidProofMakesImage(t *testing.T) {
	asked := 0
	s := inFull(t)
	s.lose = func(what string) memory.Outcome {
		if strings.HasPrefix(what, "EnsureImage ") {
			asked++
			p := s.prototype()
			record, err := v1alpha1.RecordOf(p)
			s.must(err)
			proof := p.Status.Proof
			snapshot, err := s.cloud.Snapshot(t.Context(), s.donor, p.Name)
			s.must(err)
			if !record.Proves(proof, p.UID) || snapshot.Tags[cloud.TagProof] != proof.Tag() || proof.Order != record.Order.UID {
				t.Errorf("an image is made by the proof %+v of the snapshot %+v", proof, snapshot)
			}
		}
		return memory.Pass()
	}
	s.succeeded(s.play())
	if asked == 0 {
		t.Error("no image was made")
	}
}
