package reservations

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// removed returns a capture of a pool of three. The donor is gone for ten minutes and the pool is to replace the donor.
func removed(t *testing.T, at time.Time, change func(*v1alpha1.Prototype, *v1alpha1.Record)) *v1alpha1.Prototype {
	t.Helper()
	p := &v1alpha1.Prototype{}
	p.Spec.PoolID = "memory:///pool1"
	released := metav1.NewMicroTime(at)
	p.Status.Donor = &v1alpha1.DonorStatus{ReleasedAt: &released, State: v1alpha1.DonorRemoved}
	r := v1alpha1.Record{Replacement: &v1alpha1.DonorReplacement{Target: 3, Removing: true}}
	change(p, &r)
	r.UID = p.UID
	p.Status.Record = &r
	return p
}

// TestPendingReplacement tests all records of a replacement, all ends of a capture and all pool sizes against
// a second definition of a vacancy.
func TestPendingReplacement(t *testing.T) {
	gone := time.Date(2026, 1, 12, 12, 0, 0, 0, time.UTC)
	cases, lasting := 0, 0
	for bits := range 1 << 6 {
		has := func(bit int) bool { return bits&(1<<bit) != 0 }
		held, leaves, growFirst, removing, isReleased, ended := has(0), has(1), has(2), has(3), has(4), has(5)
		for _, patience := range []time.Duration{0, time.Hour} { // 0 is the default, 15 minutes
			p := removed(t, gone, func(p *v1alpha1.Prototype, r *v1alpha1.Record) {
				p.Spec.Settings.OutOfService.ReadyTimeout.Duration = patience
				if held {
					r.Reservation = &v1alpha1.Reservation{}
				}
				r.Replacement.GrowFirst, r.Replacement.Removing = growFirst, removing
				if !leaves {
					r.Replacement = nil
				}
				if !isReleased {
					p.Status.Donor = nil
				}
				if ended {
					p.Status.Phase = v1alpha1.PhaseFailed
				}
			})
			v, vacant := PendingReplacementOf(p)
			want := !held && leaves && !growFirst && removing && isReleased
			if vacant != want {
				t.Errorf("held %t, leaves %t, grew first %t, removing %t, released %t, ended %t: vacant %t",
					held, leaves, growFirst, removing, isReleased, ended, vacant)
			}
			if !vacant {
				continue
			}
			if v.Pool != "memory:///pool1" || v.Size != 3 {
				t.Errorf("%+v", v)
			}
			for ready := range 5 {
				for _, after := range []time.Duration{0, 15*time.Minute - time.Second, 15 * time.Minute, time.Hour - time.Second, time.Hour} {
					late := after >= 15*time.Minute && (patience == 0 || after >= patience)
					got := v.Lasts(ready, gone.Add(after))
					if want := ready < 3 && !late; got != want {
						t.Errorf("%d of 3 are Ready %s later, where a replacement may take %s: lasts %t", ready, after, patience, got)
					}
					if cases++; got {
						lasting++
					}
				}
			}
		}
	}
	if cases != 2*2*5*5 || lasting != 2*3*(2+4) {
		t.Errorf("%d cases, %d of them lasting, prove little", cases, lasting)
	}
}

// TestUnreadableRecord is no vacancy: the donor may still be held, and other code counts held nodes.
func TestUnreadableRecord(t *testing.T) {
	p := removed(t, time.Time{}, func(*v1alpha1.Prototype, *v1alpha1.Record) {})
	p.Status.Record.UID = "another"
	if v, vacant := PendingReplacementOf(p); vacant {
		t.Errorf("%+v", v)
	}
}
