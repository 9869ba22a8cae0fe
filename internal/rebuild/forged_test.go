package rebuild

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// forge writes a reservation as a rebuild has it, with a holder that any account can compute.
func (s *testEnv) forge(name string, asked bool) {
	s.t.Helper()
	n, now := s.node(name), metav1.NewTime(s.clock.Now())
	r := v1alpha1.Reservation{Holder: s.replacement().holder(), ReservedAt: now, Unschedulable: true,
		Annotations: map[string]*string{"evil.example/key": new(string)}}
	r.Rebuild = &v1alpha1.Rebuild{From: bad, To: good, Policy: "all", BootID: n.Status.NodeInfo.BootID, StartedAt: now}
	if asked {
		r.Rebuild.AskedAt = &now
	}
	n.Annotations = map[string]string{v1alpha1.ReservationAnnotation: jsonOf(s.t, r)}
	s.must(s.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
}

// TestAForgedRebuildMovesNothing, whether its cloud is said to be asked or not, and whichever client goes on with it: a policy's controller,
// which advances a node that says so, or a person's command, which looks for more.
func TestAForgedRebuildMovesNothing(t *testing.T) {
	for _, asked := range []bool{false, true} {
		for _, name := range []string{"good-0", "bad-0"} {
			s := newTestEnv(t, 2)
			s.forge(name, asked)
			before := s.node(name)
			for range 50 {
				_, _ = s.policy(nil).Advance(t.Context(), name)
				s.must(s.pause(t.Context(), 10*time.Second))
			}
			if diff := cmp.Diff(before.ObjectMeta, s.node(name).ObjectMeta); diff != "" || s.node(name).Spec.Unschedulable {
				t.Errorf("%s, asked %t: the Node was changed, cordoned %t:\n%s", name, asked, s.node(name).Spec.Unschedulable, diff)
			}
			if s.rebuilds() > 0 {
				t.Errorf("%s, asked %t: it was rebuilt", name, asked)
			}
			result, err := s.replacement().Run(t.Context(), s.show, s.pause)
			if err != nil {
				t.Errorf("%s, asked %t: %v", name, asked, err)
			}
			if diff := cmp.Diff(before.ObjectMeta, s.node(name).ObjectMeta); diff != "" || s.cloud.World().Instance(s.nodes[name]).Boots != 1 {
				t.Errorf("%s, asked %t: a person's rebuild takes it: %+v\n%s", name, asked, result, diff)
			}
		}
	}
}

func jsonOf(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestARebuildWhosePolicyIsGone begins nothing: a node that was only reserved is released, and one whose cloud was asked is rebuilt to
// its end.
func TestARebuildWhosePolicyIsGone(t *testing.T) {
	gone := func(r *Replacement) { r.Policy.Gone = true }
	for _, asked := range []bool{false, true} {
		s := newTestEnv(t, 1)
		_, err := s.policy(nil).Take(t.Context())
		s.must(err)
		for i := 0; asked && i < 20 && s.rebuilds() == 0; i++ {
			_, err := s.policy(nil).Advance(t.Context(), "bad-0")
			s.must(err)
			s.must(s.pause(t.Context(), 0))
		}
		for range 40 {
			_, _ = s.policy(gone).Advance(t.Context(), "bad-0")
			s.must(s.pause(t.Context(), 0))
		}
		want := map[bool]string{false: bad, true: good}[asked]
		s.wantClean(want, "bad-0")
		leases, err := s.replacement().reservations().All(t.Context())
		if s.must(err); len(leases) > 0 {
			t.Errorf("asked %t: leases are left: %+v", asked, leases)
		}
	}
}

// TestUncordonedNodeIsNotRebuilt is not rebuilt under them for a policy: a person has uncordoned it.
func TestUncordonedNodeIsNotRebuilt(t *testing.T) {
	s := newTestEnv(t, 1)
	_, err := s.policy(nil).Take(t.Context())
	s.must(err)
	n := s.node("bad-0")
	held, err := v1alpha1.ReservationOf(n.Annotations)
	s.must(err)
	now := metav1.NewTime(s.clock.Now())
	held.Rebuild.AskedAt = &now
	_, err = s.replacement().reservations().Note(t.Context(), n, *held)
	s.must(err)
	for range 20 {
		_, _ = s.policy(nil).Advance(t.Context(), "bad-0")
		s.must(s.pause(t.Context(), 0))
	}
	if s.node("bad-0").Spec.Unschedulable || s.rebuilds() > 0 {
		t.Errorf("cordoned %t, %d rebuilds", s.node("bad-0").Spec.Unschedulable, s.rebuilds())
	}
}
