package capture

import (
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestRestoredEtcd restores the objects of each pass after the capture's end. The engine harms nothing, and a failure says that
// the version is complete.
func TestRestoredEtcd(t *testing.T) {
	for name, begin := range map[string]func(*testing.T) *testEnv{
		"a donor that returns": func(t *testing.T) *testEnv { return inFull(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			untrue := 0
			for at := 0; ; at++ {
				s := begin(t)
				var restore func()
				held := false
				p := s.play(func(pass int) {
					if pass == at {
						record, _ := v1alpha1.RecordOf(s.prototype())
						restore, held = s.backUp(), record.Reservation != nil || record.LeaveBoot() != ""
					}
				})
				if restore == nil {
					break
				}
				if p.Status.Phase != v1alpha1.PhaseSucceeded {
					t.Fatalf("pass %d: the capture has come to %s", at, p.Status.Phase)
				}
				before := s.cloud.World()
				restore()
				p = s.play()
				after := s.cloud.World()
				if is := after.Pools[0]; is.Recipe.Image != before.Pools[0].Recipe.Image || is.Capacity != before.Pools[0].Capacity {
					t.Errorf("restored pass %d: the pool is %+v, was %+v", at, is, before.Pools[0])
				}
				if f := p.Status.Failure; f != nil && held && !strings.Contains(f.Message, "the record is older than the cloud") {
					t.Errorf("restored pass %d: %s: %s", at, f.Reason, f.Message)
				} else if f != nil && held {
					untrue++
				}
			}
			if untrue == 0 {
				t.Error("no restored capture has failed")
			}
		})
	}
}

// backUp returns a function that writes the present Prototype, its donor and all Leases again, as a restore of etcd does.
func (s *testEnv) backUp() (restore func()) {
	nodes, leases := corev1.SchemeGroupVersion.WithResource("nodes"), coordinationv1.SchemeGroupVersion.WithResource("leases")
	p, donor := s.prototype(), s.tracked("nodes", "", donorName)
	if donor != nil {
		donor = donor.DeepCopyObject()
	}
	held, err := s.objects.List(leases, coordinationv1.SchemeGroupVersion.WithKind("Lease"), ourspace)
	s.must(err)
	held = held.DeepCopyObject()
	return func() {
		status := p.Status
		p.ResourceVersion = s.prototype().ResourceVersion
		s.must(s.clean.Update(s.t.Context(), p))
		p.Status = status
		s.must(s.clean.Status().Update(s.t.Context(), p))
		_ = s.objects.Delete(nodes, "", donorName) // perhaps absent
		if donor != nil {
			s.must(s.objects.Create(nodes, donor, ""))
		}
		for _, lease := range held.(*coordinationv1.LeaseList).Items {
			_ = s.objects.Delete(leases, ourspace, lease.Name) // perhaps absent
			s.must(s.objects.Create(leases, &lease, ourspace))
		}
	}
}
