package capture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// away lets the cloud fail all calls, or the calls with a prefix. Calls of the API server begin with a small letter.
func (s *testEnv) away(what string) {
	s.lose = func(call string) memory.Outcome {
		if unicode.IsUpper(rune(call[0])) && strings.HasPrefix(call, what) {
			return memory.FailBefore(cloud.Unavailable)
		}
		return memory.Pass()
	}
}

// serves reports whether the donor takes pods, and whether the donor is held.
func (s *testEnv) serves() (takesPods, held bool) {
	n := s.tracked("nodes", "", donorName).(*corev1.Node)
	return n.Spec.Unschedulable == s.cordoned, n.Annotations[v1alpha1.ReservationAnnotation] != ""
}

// whileAway makes passes for longer than any donor may be out of service.
func (s *testEnv) whileAway() {
	s.t.Helper()
	for until := s.clock.Now().Add(3 * time.Hour); s.clock.Now().Before(until); {
		result, _ := s.engine.Pass(context.Background(), s.name)
		if broken := s.cloud.World().Broken(); len(broken) > 0 {
			s.t.Fatal(broken)
		}
		if result.Done {
			return
		}
		s.tick(max(result.After, 30*time.Second))
	}
}

func (s *testEnv) record() v1alpha1.Record {
	s.t.Helper()
	record, err := v1alpha1.RecordOf(s.prototype())
	s.must(err)
	return record
}

// reachable brings the cloud back.
func (s *testEnv) reachable() { s.lose = nil }

// passes makes so many.
func (s *testEnv) passes(n int) {
	for range n {
		result, _ := s.engine.Pass(context.Background(), s.name)
		s.tick(max(result.After, 4*time.Second))
	}
}

// TestACloudThatStaysAway for hours, from any moment of a capture on. A donor that can serve takes pods. Once the cloud
// answers, the capture ends without leftovers.
func TestACloudThatStaysAway(t *testing.T) {
	short := testing.Short()
	for _, what := range []string{"", "Protection ", "ProtectFromScaleIn ", "Unprotect "} {
		for _, cordoned := range []bool{false, true} {
			if cordoned && what != "" {
				continue
			}
			served, kept := 0, 0
			for at := range 40 {
				if isSkipped(short, at, 0, 3) {
					continue
				}
				s := inFull(t, func(s *testEnv) { s.blocked, s.cordoned, s.apart = 2, cordoned, at%2 == 0 })
				s.passes(at)
				if s.prototype().Status.Terminal() {
					break
				}
				untouched := s.record().GeneralizeBootID == ""
				s.away(what)
				s.whileAway()
				takesPods, held := s.serves()
				record := s.record()
				if untouched && record.GeneralizeBootID != "" && what == "" {
					t.Errorf("away from pass %d on: the disk was touched without a cloud that could copy it: %s", at, verdict(s.prototype()))
				}
				n := s.tracked("nodes", "", donorName).(*corev1.Node)
				ready := n.Status.Conditions[0].Status == corev1.ConditionTrue
				could := ready && (record.LeaveBoot() == "" || record.Returning && n.Status.NodeInfo.BootID != record.LeaveBoot())
				switch {
				case held && could && !takesPods:
					t.Errorf("%q away from pass %d on: the donor could serve, and is kept from it: %s", what, at, verdict(s.prototype()))
				case held && could:
					served++
				case held:
					kept++
				}
				s.reachable()
				s.play()
				s.gaveBack()
				if t.Failed() {
					t.FailNow()
				}
			}
			if what == "" && (served == 0 || kept == 0) {
				t.Errorf("cordoned before: %t: %d served, %d could not", cordoned, served, kept)
			}
		}
	}
}

// drained is a capture that waits for a budget without end.
func drained(t *testing.T, options ...option) *testEnv {
	s := newTestEnv(t, append(options, func(s *testEnv) { s.blocked = 1 << 20 })...).decide()
	for range 20 {
		if n := s.tracked("nodes", "", donorName).(*corev1.Node); n.Spec.Unschedulable {
			return s
		}
		s.passes(1)
	}
	t.Fatal("the donor is not cordoned")
	return nil
}

// TestADeadlineWithoutACloud ends the capture with the usual message.
func TestADeadlineWithoutACloud(t *testing.T) {
	s := drained(t)
	recorder := events.NewFakeRecorder(200)
	s.engine.Recorder = recorder
	s.onPrototype(func(p *v1alpha1.Prototype) { p.Spec.Settings.Drain.Timeout.Duration = 5 * time.Hour })
	s.away("")
	for range 200 { // drained, the donor needs its cloud
		s.blocked = 0
		s.passes(1)
	}
	p := s.prototype()
	if p.Status.Failure == nil || p.Status.Failure.Reason != "DeadlineExceeded" || p.Status.Phase != v1alpha1.PhaseCleaningUp {
		t.Fatalf("the capture goes on: %s", verdict(p))
	}
	is := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDonorInService)
	if takesPods, held := s.serves(); !takesPods || !held || is == nil || is.Reason != Serving {
		t.Fatalf("it takes pods: %t, is held: %t, %+v", takesPods, held, is)
	}
	said := 0
	for len(recorder.Events) > 0 {
		if e := <-recorder.Events; strings.HasPrefix(e, "Warning "+Serving) {
			said++
		}
	}
	if said != 2 { // of the Node, and of the Prototype
		t.Errorf("%d events say that it serves", said)
	}
	s.reachable()
	s.failed(s.play(), "DeadlineExceeded")
}

// TestAConflictIsNoOutage: the kubelet writes its Node at any time, and Kamino reads the Node again. Each second write of
// the Node meets a conflict, and no event says that the donor waits for the cloud.
func TestAConflictIsNoOutage(t *testing.T) {
	s := newTestEnv(t).decide()
	recorder := events.NewFakeRecorder(1000)
	s.engine.Recorder = recorder
	writes, conflicts := 0, 0
	s.kube.PrependReactor("patch", "nodes", func(a kubetesting.Action) (bool, runtime.Object, error) {
		if writes++; writes%2 == 0 {
			return false, nil, nil
		}
		conflicts++
		return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), donorName, errors.New("the object has been modified"))
	})
	if p := s.play(); p.Status.Phase != v1alpha1.PhaseSucceeded || conflicts == 0 {
		t.Fatalf("%d conflicts: %s", conflicts, verdict(p))
	}
	for len(recorder.Events) > 0 {
		if e := <-recorder.Events; strings.HasPrefix(e, "Warning "+Serving) {
			t.Errorf("event %q", e)
		}
	}
}

// TestAnOrphanWithoutACloud serves, and stays reserved until the cloud answers.
func TestAnOrphanWithoutACloud(t *testing.T) {
	s := drained(t)
	p := s.prototype()
	p.Finalizers = nil
	s.must(s.clean.Update(t.Context(), p))
	s.must(s.clean.Delete(t.Context(), p))
	r, err := v1alpha1.ReservationOf(s.tracked("nodes", "", donorName).(*corev1.Node).Annotations)
	s.must(err)
	s.away("")
	if _, err := s.engine.Orphan(t.Context(), donorName, r.Holder); !cloud.Is(err, cloud.Unavailable) {
		t.Errorf("the cloud is away: %v", err)
	}
	if takesPods, held := s.serves(); !takesPods || !held {
		t.Errorf("it takes pods: %t, is held: %t", takesPods, held)
	}
	s.reachable()
	s.sweep()
	s.gaveBack()
}

// TestAWaitForTheCloudSaysSinceWhen: from the second failed pass in a row on, the progress has the time of the first and the
// cause. It stays the same until the cloud answers.
func TestAWaitForTheCloudSaysSinceWhen(t *testing.T) {
	s := newTestEnv(t).decide()
	s.passes(2)
	s.away("")
	since := s.clock.Now()
	s.passes(1)
	if said := s.prototype().Status.Progress; strings.Contains(said, "cloud since") {
		t.Errorf("after one error: %q", said)
	}
	s.passes(1)
	want := fmt.Sprintf("waiting for the cloud since %s: it fails, or cannot be reached (", clock24(since))
	first := s.prototype().Status.Progress
	if !strings.HasPrefix(first, want) {
		t.Fatalf("progress %q, want %q", first, want)
	}
	s.passes(5)
	if said := s.prototype().Status.Progress; !strings.HasPrefix(said, want) {
		t.Errorf("later: %q, want %q", said, want)
	}
	if is := meta.FindStatusCondition(s.prototype().Status.Conditions, v1alpha1.ConditionStalled); is != nil {
		t.Errorf("stalled after seconds: %+v", is)
	}
	for s.clock.Now().Sub(since) < cloudPatience+time.Minute {
		s.passes(1)
	}
	is := meta.FindStatusCondition(s.prototype().Status.Conditions, v1alpha1.ConditionStalled)
	if is == nil || is.Status != metav1.ConditionTrue || is.Reason != string(cloud.Unavailable) {
		t.Errorf("not stalled after %s: %+v", s.clock.Now().Sub(since), is)
	}
	s.reachable()
	s.passes(1)
	if said := s.prototype().Status.Progress; strings.Contains(said, "cloud since") {
		t.Errorf("the cloud answers, and the progress is %q", said)
	}
	if is := meta.FindStatusCondition(s.prototype().Status.Conditions, v1alpha1.ConditionStalled); is != nil {
		t.Errorf("the cloud answers, and the capture is stalled: %+v", is)
	}
}

// TestAHeldDonorWithoutACloudIsReportedSoon: a person hears after a minute that no cloud starts the donor, which serves nothing.
func TestAHeldDonorWithoutACloudIsReportedSoon(t *testing.T) {
	s := drained(t)
	s.away("")
	since := s.clock.Now()
	stalled := func() *metav1.Condition {
		return meta.FindStatusCondition(s.prototype().Status.Conditions, v1alpha1.ConditionStalled)
	}
	for s.clock.Now().Sub(since) < heldPatience {
		if is := stalled(); is != nil {
			t.Fatalf("stalled after %s: %+v", s.clock.Now().Sub(since), is)
		}
		s.passes(1)
	}
	s.passes(2)
	if is := stalled(); is == nil || is.Status != metav1.ConditionTrue || is.Reason != string(cloud.Unavailable) {
		t.Errorf("not stalled after %s: %+v", s.clock.Now().Sub(since), is)
	}
}

// TestAWaitForADecisionIsShown: while the engine decides about one capture, the others show what they wait for, and block no
// worker.
func TestAWaitForADecisionIsShown(t *testing.T) {
	s := newTestEnv(t).decide()
	s.engine.reserving.Lock()
	s.passes(2)
	p := s.prototype()
	if p.Status.Phase != v1alpha1.PhasePending || !strings.HasSuffix(p.Status.Progress, "until Kamino has decided about another capture") {
		t.Errorf("phase %q, progress %q", p.Status.Phase, p.Status.Progress)
	}
	s.engine.reserving.Unlock()
	if p := s.play(); p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
		t.Errorf("it does not continue: %s", verdict(p))
	}
}

// TestFortyTwoCapturesAtOnceAreNotSilent: eight workers, as in the controller, come to captures whose turn has not come. From
// the first pass on, each says what it waits for, and since when.
func TestFortyTwoCapturesAtOnceAreNotSilent(t *testing.T) {
	s := newTestEnv(t)
	names := make([]string, 42)
	for i := range names {
		names[i] = fmt.Sprintf("pool1-2026.03.14-%d", i)
		s.decide(func(p *v1alpha1.Prototype) { p.Name = names[i] })
	}
	round := func() (silent, waiting int) {
		var workers sync.WaitGroup
		turn := make(chan string, len(names))
		for _, name := range names {
			turn <- name
		}
		close(turn)
		for range 8 {
			workers.Go(func() {
				for name := range turn {
					_, _ = s.engine.Pass(t.Context(), name)
				}
			})
		}
		workers.Wait()
		for _, s.name = range names {
			switch p := s.prototype(); {
			case p.Status.Phase == "" || p.Status.Phase == v1alpha1.PhasePending && p.Status.Progress == "":
				silent++
				t.Logf("%s: phase %q, conditions %+v", p.Name, p.Status.Phase, p.Status.Conditions)
			case strings.HasPrefix(p.Status.Progress, "waiting since ") || strings.HasPrefix(p.Status.Progress, "waiting for prototype "):
				waiting++
			}
		}
		return silent, waiting
	}
	s.engine.reserving.Lock() // by a capture whose preflight is slow
	if silent, waiting := round(); silent != 0 || waiting != len(names) {
		t.Errorf("of %d captures %d say nothing, and %d say what they wait for", len(names), silent, waiting)
	}
	s.engine.reserving.Unlock()
	for i := range 5 {
		s.tick(4 * time.Second)
		if silent, _ := round(); silent != 0 {
			t.Errorf("round %d: %d captures say nothing", i, silent)
		}
	}
}
