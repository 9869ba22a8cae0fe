package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/testing/memory"
	"github.com/kamino-dev/kamino/internal/trial"
)

// copyEnv is an environment of captures by copy, with the pods on the donor and on the workshop.
type copyEnv struct {
	*trialEnv
	// busy: the donor's disk does not become quiet. stalled: the pod on the donor says nothing.
	busy, stalled bool
	// late, dull and torn count the copies whose answer comes too late, that hold an earlier state of the disk, and in which a package
	// is half installed.
	late, dull, torn int
	// verdict of the pod on the workshop, if it finds the donor's disk itself at fault.
	verdict string
	// shy: the workshop's kubelet does not register.
	shy bool
	// since is when the donor's disk became quiet; zero before and after.
	since time.Time
	// flushed are the snapshots requested in a moment. inMoment, if set, runs right before such a request.
	flushed  map[string]bool
	inMoment func()
	// before is the donor's Node before the capture.
	before *corev1.Node
}

// byCopy is an environment before a capture by copy.
func byCopy(t testing.TB, change ...func(*v1alpha1.Prototype)) *copyEnv {
	t.Helper()
	return byCopyIn(t, func(*testEnv) {}, change...)
}

// byCopyIn is an environment with an option before a capture by copy.
func byCopyIn(t testing.TB, in option, change ...func(*v1alpha1.Prototype)) *copyEnv {
	t.Helper()
	c := &copyEnv{trialEnv: &trialEnv{}, flushed: map[string]bool{}}
	c.testEnv = newTestEnv(t, in, func(s *testEnv) {
		s.settings = func(p *v1alpha1.Prototype) {
			p.Spec.Settings.Donor.Method = v1alpha1.MethodCopy
			for _, of := range change {
				of(p)
			}
		}
	})
	c.tryout = c
	c.onRestart = func() { c.engine.Sleep = c.sleep }
	c.wrapped.Machines = momentMachines{c.wrapped.Machines, c}
	c.restart()
	c.before = c.tracked("nodes", "", donorName).(*corev1.Node)
	return c
}

// momentMachines notes whether a snapshot is requested in a moment.
type momentMachines struct {
	cloud.Machines
	c *copyEnv
}

// EnsureSnapshot implements cloud.Machines.
func (m momentMachines) EnsureSnapshot(ctx context.Context, spec cloud.SnapshotSpec) (cloud.Snapshot, error) {
	if before, c := spec.BeforeCopy, m.c; before != nil {
		spec.BeforeCopy = func(ctx context.Context) error {
			if !c.since.IsZero() {
				c.t.Error("the donor's disk stands while the cloud is read")
			}
			if err := before(ctx); err != nil {
				return err
			}
			if c.inMoment != nil {
				c.inMoment()
			}
			c.flushed[spec.Name] = !c.since.IsZero() && c.dull == 0
			c.dull = max(c.dull-1, 0)
			return nil
		}
	}
	return m.Machines.EnsureSnapshot(ctx, spec)
}

// sleep lets time pass within a pass.
func (c *copyEnv) sleep(_ context.Context, d time.Duration) error {
	c.clock.Advance(d)
	c.runDonorPod()
	return nil
}

// Hold implements TrialObserver.
func (v *trialEnv) Hold(ctx context.Context, subject trial.Subject) (held trial.Held, err error) {
	err = outcome(v.next("hold "+subject.Spec.Name), func() error {
		if v.dark != nil {
			return v.dark
		}
		for _, n := range v.nodesOf(subject) {
			if !n.Spec.Unschedulable {
				n.Spec.Unschedulable = true
				v.must(v.objects.Update(corev1.SchemeGroupVersion.WithResource("nodes"), &n, ""))
			}
			held.Node, held.Ready = &n, nodestate.Ready(&n)
			held.Known = []v1alpha1.TrialNodeRecord{{Instance: n.Spec.ProviderID, Node: n.Name, UID: n.UID, Cordoned: true}}
		}
		return nil
	})
	return held, err
}

// runPods runs the pods on the donor and on the workshop.
func (c *copyEnv) runPods() {
	c.runDonorPod()
	c.runWorkshopPod()
	for _, w := range c.cloud.World().Workshops {
		for _, id := range w.Instances {
			if n, _ := c.tracked("nodes", "", nodeNameOf(id)).(*corev1.Node); n != nil && c.shy {
				c.must(c.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", n.Name))
			}
		}
	}
}

// podOf returns pod and order of a method if the pod can work; nil otherwise.
func (c *copyEnv) podOf(method v1alpha1.OrderMethod) (*corev1.Pod, *v1alpha1.NodeOrder) {
	pod, order := c.generalizePod(), c.order()
	if pod == nil || order == nil || order.Spec.Method != method || pod.Annotations[v1alpha1.OrderAnnotation] != string(order.UID) ||
		c.tracked("secrets", order.Namespace, order.Name) == nil {
		return nil, nil
	}
	return pod, order
}

// runDonorPod does what the real pod does with the order of a moment.
func (c *copyEnv) runDonorPod() {
	pod, order := c.podOf(v1alpha1.OrderQuiesce)
	if pod == nil || c.stalled {
		c.since = time.Time{} // without its helper the disk is writable again
		return
	}
	if n, _ := c.tracked("nodes", "", donorName).(*corev1.Node); n == nil || pod.Spec.NodeName != donorName || order.Spec.Token != n.Status.NodeInfo.BootID {
		return
	}
	state := v1alpha1.MomentState("")
	if report, _ := v1alpha1.ReportOf(order, v1alpha1.OrderRecord{UID: order.UID, Key: order.Spec.Key, Pod: pod.UID}); report != nil {
		state = report.Moment.State
	}
	word := v1alpha1.Word(order.Annotations[v1alpha1.MomentAnnotation])
	say := func(m v1alpha1.Moment) { c.signReport(order, pod, v1alpha1.Report{Moment: &m}) }
	over := func(inTime bool) {
		if c.late > 0 {
			c.late, inTime = c.late-1, false
		}
		m := v1alpha1.Moment{State: v1alpha1.MomentOver, Frozen: true, FrozenFor: metav1.Duration{Duration: 150 * time.Millisecond}, InTime: inTime,
			MachineID: "machine", RootUUID: "root"}
		if !inTime {
			m.Message = "the answer came after a second"
		}
		c.since = time.Time{}
		say(m)
	}
	switch {
	case state == "" && c.busy:
		say(v1alpha1.Moment{State: v1alpha1.MomentBusy, Message: "dpkg installs linux-image"})
	case state == "":
		say(v1alpha1.Moment{State: v1alpha1.MomentQuiet})
	case state == v1alpha1.MomentQuiet && word == v1alpha1.WordProceed:
		c.since = c.clock.Now()
		say(v1alpha1.Moment{State: v1alpha1.MomentNow, Frozen: true})
	case state == v1alpha1.MomentNow && (word == v1alpha1.WordAccepted || word == v1alpha1.WordRefused):
		over(word == v1alpha1.WordAccepted)
	case state == v1alpha1.MomentNow && c.clock.Now().Sub(c.since) > time.Second:
		over(false)
	}
}

// runWorkshopPod cleans the attached copy, and reports.
func (c *copyEnv) runWorkshopPod() {
	pod, order := c.podOf(v1alpha1.OrderCopy)
	if pod == nil || order.Status.Report != "" || c.deaf {
		return
	}
	n, _ := c.tracked("nodes", "", pod.Spec.NodeName).(*corev1.Node)
	snapshot, device, _ := strings.Cut(order.Spec.Token, "@")
	world := c.cloud.World()
	i := slices.IndexFunc(world.Copies, func(d memory.CopyView) bool { return d.Name == device && d.IsAttached })
	if n == nil || i < 0 || !n.Spec.Unschedulable || n.Spec.ProviderID != string(world.Copies[i].Workshop) {
		return
	}
	if pod.Spec.NodeName == donorName {
		c.t.Fatal("the copy is cleaned on the donor")
	}
	disk := &v1alpha1.CopiedDisk{Snapshot: snapshot, Device: device}
	reason, message := "", c.verdict
	switch {
	case !c.flushed[snapshot[strings.LastIndex(snapshot, "/")+1:]]:
		reason, message = v1alpha1.StaleCopy, "the copy does not hold the last flush"
	case c.torn > 0:
		c.torn--
		reason, message = v1alpha1.PackagesIncomplete, "package curl is half installed"
	case message != "":
		reason = "Refused"
	}
	if message != "" {
		c.signReport(order, pod, v1alpha1.Report{Unproven: &v1alpha1.Unproven{
			UID: order.Spec.Holder.UID, Order: order.UID, Copy: disk, Reason: reason, Message: message, At: metav1.NewTime(c.clock.Now())}})
		return
	}
	if !c.cloud.CleanCopy(device) {
		return
	}
	proof := c.proofFor(order)
	proof.BootID, proof.Copy = "", disk
	c.signReport(order, pod, v1alpha1.Report{Proof: proof, Contents: c.contents})
}

// course plays the capture, and checks after each pass that nothing touches the donor.
func (c *copyEnv) course(between ...func(pass int)) *v1alpha1.Prototype {
	c.t.Helper()
	return c.play(append(between, func(pass int) {
		c.runPods()
		c.untouched(pass)
	})...)
}

// untouched checks that the donor is as before the capture.
func (c *copyEnv) untouched(pass int) {
	c.t.Helper()
	n, _ := c.tracked("nodes", "", donorName).(*corev1.Node)
	if n == nil {
		return
	}
	if !equality.Semantic.DeepEqual(n.ObjectMeta.Annotations, c.before.Annotations) || !equality.Semantic.DeepEqual(n.Labels, c.before.Labels) ||
		n.Spec.Unschedulable != c.before.Spec.Unschedulable {
		c.t.Fatalf("after pass %d the donor's Node is %+v %+v", pass, n.ObjectMeta, n.Spec)
	}
	if m := c.cloud.World().Instance(c.donor); m.ID != "" && (m.Generalized || m.Power != cloud.PowerRunning) {
		c.t.Fatalf("after pass %d the donor is %+v", pass, m)
	}
	for i := range 3 {
		if c.tracked("pods", "default", fmt.Sprintf("app-%d", i)) == nil {
			c.t.Fatalf("after pass %d pod app-%d of the donor is gone", pass, i)
		}
	}
}

// emptied checks that nothing of the capture is left, except a version.
func (c *copyEnv) emptied() {
	c.t.Helper()
	world := c.cloud.World()
	if len(world.Workshops) > 0 || len(world.Copies) > 0 {
		c.t.Errorf("left behind: workshops %+v, copies %+v", world.Workshops, world.Copies)
	}
	c.gaveBack()
}

// published checks a success.
func (c *copyEnv) copied(p *v1alpha1.Prototype) {
	c.t.Helper()
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
		c.t.Fatalf("the capture did not succeed: %s\n%s", verdict(p), c.lastCalls(60))
	}
	c.emptied()
	world := c.cloud.World()
	if got := world.Pools[0].Recipe.Version; got != p.Spec.Version {
		c.t.Errorf("the recipe names %q", got)
	}
	if image := world.Images[len(world.Images)-1]; !image.Generalized || image.Tags[cloud.TagUID] != string(p.UID) || image.Instance != c.donor {
		c.t.Errorf("image: %+v", image)
	}
}

// gaveUp checks a failure that leaves the donor in service, and nothing else.
func (c *copyEnv) gaveUp(p *v1alpha1.Prototype, reason plan.Reason, words ...string) {
	c.t.Helper()
	if p == nil || p.Status.Failure == nil || p.Status.Failure.Reason != shown(string(reason)) {
		c.t.Fatalf("the capture did not fail for %s: %s\n%s", reason, verdict(p), c.lastCalls(40))
	}
	for _, word := range words {
		if !strings.Contains(p.Status.Failure.Message, word) {
			c.t.Errorf("the message lacks %q: %s", word, p.Status.Failure.Message)
		}
	}
	c.emptied()
	c.nothingPublished()
}

// TestACaptureByCopy: the donor serves all the time, and a machine that is thrown away cleans the copy.
func TestACaptureByCopy(t *testing.T) {
	c := byCopy(t)
	c.decide()
	inspected := false
	p := c.course(func(int) {
		if pod := c.generalizePod(); pod != nil && pod.Labels["app.kubernetes.io/component"] == inspectionContainer {
			inspected = inspected || slices.Contains(pod.Spec.Containers[0].Args, "--copied")
		}
	})
	c.copied(p)
	if !inspected {
		t.Error("the inspection does not ask whether the disk can be copied")
	}
	var phases []v1alpha1.Phase
	for _, step := range p.Status.Steps {
		phases = append(phases, step.Phase)
	}
	want := []v1alpha1.Phase{
		v1alpha1.PhasePreflight, v1alpha1.PhaseReserving, v1alpha1.PhaseStartingWorkshop, v1alpha1.PhaseQuiescing, v1alpha1.PhaseCopying,
		v1alpha1.PhaseGeneralizing, v1alpha1.PhaseSnapshotting, v1alpha1.PhaseReleasing, v1alpha1.PhasePublishing, v1alpha1.PhasePromoting,
	}
	if diff := cmp.Diff(want, slices.Compact(phases)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionDonorInService) {
		t.Errorf("conditions: %+v", p.Status.Conditions)
	}
	if d := p.Status.Donor; d == nil || d.FrozenFor == nil || d.FrozenFor.Duration != 150*time.Millisecond || d.State != v1alpha1.DonorReady {
		t.Errorf("status.donor is %+v", d)
	}
	if got := c.cloud.World().Count(memory.ByCaller, memory.EffectSnapshot, ""); got != 2 {
		t.Errorf("%d snapshots were made, want the raw one and the clean one", got)
	}
}

// TestTroubleOfACopy: what happens to the donor, the workshop or the copy costs a copy or the capture, and never the donor.
func TestTroubleOfACopy(t *testing.T) {
	for name, of := range map[string]struct {
		begin   func(c *copyEnv)
		between func(c *copyEnv, pass int)
		reason  plan.Reason // empty: the capture succeeds
		words   []string
		tries   int32
	}{
		"a late answer":                 {begin: func(c *copyEnv) { c.late = 1 }, tries: 2},
		"only late answers":             {begin: func(c *copyEnv) { c.late = 9 }, reason: plan.CopyUnusable, words: []string{"3 attempts", "after a second"}},
		"a copy without the last flush": {begin: func(c *copyEnv) { c.dull = 1 }, tries: 2},
		"no copy with the last flush":   {begin: func(c *copyEnv) { c.dull = 9 }, reason: plan.CopyUnusable, words: []string{"last flush"}},
		"a package half installed":      {begin: func(c *copyEnv) { c.torn = 2 }, tries: 3},
		"always a package":              {begin: func(c *copyEnv) { c.torn = 9 }, reason: plan.CopyUnusable, words: []string{"curl"}},
		"a disk that a rule refuses": {begin: func(c *copyEnv) { c.verdict = "file /etc/secret is not allowed" }, reason: plan.GeneralizeFailed,
			words: []string{"/etc/secret"}},
		"a busy donor": {begin: func(c *copyEnv) { c.busy = true }, reason: plan.DonorBusy, words: []string{"dpkg installs linux-image", "Nothing was changed"}},
		"a silent pod": {begin: func(c *copyEnv) { c.stalled = true }, reason: plan.QuiesceNotDone},
		"a workshop without a Node": {begin: func(c *copyEnv) { c.shy = true }, reason: plan.WorkshopNotJoined,
			words: []string{"15m0s", "was not copied: its kubelet did not register a Node", "New nodes of the pool may have the same trouble"}},
		"a workshop that the cloud does not build": {begin: func(c *copyEnv) {
			c.cloud.FailWorkshops(1, memory.TrialFailure{Trouble: "InsufficientInstanceCapacity: none left"})
		}, reason: plan.WorkshopGone, words: []string{"InsufficientInstanceCapacity"}},
		"a raw snapshot that fails": {begin: func(c *copyEnv) { c.cloud.FailSnapshots(1) }, tries: 2},
		"a disk that is not made":   {begin: func(c *copyEnv) { c.cloud.FailCopies(1) }, tries: 1},
		"the capture is deleted": {between: func(c *copyEnv, pass int) {
			if p := c.prototype(); pass == 14 && p != nil {
				c.must(c.clean.Delete(t.Context(), p))
			}
		}, reason: "deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			c := byCopy(t)
			if of.begin != nil {
				of.begin(c)
			}
			c.decide()
			tries := int32(0)
			p := c.course(func(pass int) {
				if of.between != nil {
					of.between(c, pass)
				}
				if p := c.prototype(); p != nil && p.Status.Record != nil && p.Status.Record.Copy != nil {
					tries = max(tries, p.Status.Record.Copy.Try)
				}
			})
			switch {
			case of.reason == "deleted":
				c.emptied()
				c.nothingPublished()
			case of.reason != "":
				c.gaveUp(p, of.reason, of.words...)
			default:
				c.copied(p)
				if tries != of.tries {
					t.Errorf("%d copies were made, want %d", tries, of.tries)
				}
			}
		})
	}
}

// TestAWorkshopThatIsNotReadySaysWhy: the progress of each pass has the deadline, and what is missing.
func TestAWorkshopThatIsNotReadySaysWhy(t *testing.T) {
	c := byCopy(t)
	c.shy = true
	c.decide()
	var said []string
	c.course(func(int) {
		if p := c.prototype(); p != nil && p.Status.Phase == v1alpha1.PhaseStartingWorkshop && !slices.Contains(said, p.Status.Progress) {
			said = append(said, p.Status.Progress)
		}
	})
	until := " until 12:15:12 UTC at the latest; the donor serves: the instance has not joined yet"
	if !slices.ContainsFunc(said, func(text string) bool { return strings.HasSuffix(text, until) }) {
		t.Errorf("said %q, want …%s", said, until)
	}
}

// TestACopyWithoutARecordedAnswerSaysWhy: an engine that lost the moment has no report of the pod.
func TestACopyWithoutARecordedAnswerSaysWhy(t *testing.T) {
	for name, of := range map[string]struct {
		record v1alpha1.CopyRecord
		want   string
	}{
		"a moment that was over":    {v1alpha1.CopyRecord{Try: 3}, "answers slowly"},
		"a report of the pod":       {v1alpha1.CopyRecord{Try: 3, Message: "the flush came late"}, "the flush came late"},
		"an answer within a second": {v1alpha1.CopyRecord{Try: 1, Accepted: true}, ""},
		"no try":                    {v1alpha1.CopyRecord{}, ""},
	} {
		w := &pass{p: &v1alpha1.Prototype{}, record: v1alpha1.Record{Copy: &of.record}}
		if got := copyTrouble(w); !strings.HasSuffix(got, of.want) || (got == "") != (of.want == "") {
			t.Errorf("%s: %q, want …%s", name, got, of.want)
		}
	}
}

// workshopNode is the newest workshop with its Node, once it has joined; an empty ID before.
func (c *copyEnv) workshopNode() (cloud.InstanceID, *corev1.Node) {
	for _, w := range slices.Backward(c.cloud.World().Workshops) {
		for _, id := range w.Instances {
			if n, _ := c.tracked("nodes", "", nodeNameOf(id)).(*corev1.Node); n != nil {
				return id, n
			}
		}
	}
	return "", nil
}

// TestALostWorkshop: a machine that boots with the copy attached may be the donor, and one that is gone cleans nothing. A fresh one
// cleans the snapshot of the donor's disk, if that is still there, or another one. Before the copy is there, a reboot does no harm.
func TestALostWorkshop(t *testing.T) {
	arrived := func(_ *v1alpha1.Prototype, w memory.World) bool { return slices.ContainsFunc(w.Copies, isAttached) }
	attached := func(p *v1alpha1.Prototype, w memory.World) bool {
		return p.Status.Phase == v1alpha1.PhaseGeneralizing && arrived(p, w)
	}
	cleaned := func(p *v1alpha1.Prototype, w memory.World) bool { return p.Status.Proof != nil && arrived(p, w) }
	copied := func(p *v1alpha1.Prototype, _ memory.World) bool { return p.Status.Phase == v1alpha1.PhaseCopying }
	quiet := func(p *v1alpha1.Prototype, _ memory.World) bool { return p.Status.Phase == v1alpha1.PhaseQuiescing }
	reboot, silence, vanish := -1*time.Second, time.Minute, time.Duration(0)
	for name, of := range map[string]struct {
		when func(*v1alpha1.Prototype, memory.World) bool
		how  time.Duration // silence for so long, or one of the above
		// strikes hit so many workshops, each once. lost of them are lost, and tries copies of the donor's disk are made.
		strikes, lost int
		tries         int32
		words         string
	}{
		"reboots before the copy is there":    {copied, reboot, 1, 0, 1, ""},
		"reboots as the copy arrives":         {arrived, reboot, 1, 1, 1, "has booted again"},
		"reboots with the copy":               {attached, reboot, 1, 1, 2, "has booted again"},
		"reboots with the cleaned copy":       {cleaned, reboot, 1, 1, 2, "has booted again"},
		"reboots twice":                       {attached, reboot, 2, 2, 3, "has booted again"},
		"reboots always":                      {attached, reboot, 3, 3, 3, "has booted again"},
		"is silent before the copy":           {copied, 5 * time.Minute, 1, 0, 1, ""},
		"is silent for a moment":              {attached, 20 * time.Second, 1, 0, 1, ""},
		"is silent for long":                  {attached, silence, 1, 1, 2, "not Ready for more than 30s"},
		"is silent with the cleaned copy":     {cleaned, silence, 1, 1, 2, "not Ready for more than 30s"},
		"is shortly silent with a clean copy": {cleaned, 20 * time.Second, 1, 0, 1, ""},
		"is gone before the copy":             {quiet, vanish, 1, 1, 2, "gone or off"},
		"is gone with the snapshot complete":  {copied, vanish, 1, 1, 1, "gone or off"},
		"is gone twice with the snapshot":     {copied, vanish, 2, 2, 1, "gone or off"},
		"is gone with the copy":               {attached, vanish, 1, 1, 2, "gone or off"},
		"is gone with the cleaned copy":       {cleaned, vanish, 1, 1, 2, "gone or off"},
		"is always gone":                      {copied, vanish, 3, 3, 1, "gone or off"},
	} {
		t.Run(name, func(t *testing.T) {
			c := byCopy(t)
			c.decide()
			struck, seen := map[cloud.InstanceID]time.Time{}, map[string]bool{}
			said, record, warned := "", v1alpha1.CopyRecord{}, of.how != silence
			p := c.course(func(int) {
				p, world := c.prototype(), c.cloud.World()
				for _, w := range world.Workshops {
					seen[w.Name] = true
				}
				if p.Status.Record != nil && p.Status.Record.Copy != nil {
					record = *p.Status.Record.Copy
				}
				if of.how == silence && strings.Contains(p.Status.Progress, "is Ready again, for 30s at most") {
					warned = true
				}
				if strings.Contains(p.Status.Progress, "a workshop was lost") {
					said = p.Status.Progress
				}
				id, n := c.workshopNode()
				at, isStruck := struck[id]
				switch {
				case n == nil || p.Status.Failure != nil:
					return
				case !isStruck && len(struck) < of.strikes && of.when(p, world):
					struck[id] = c.clock.Now()
					switch of.how {
					case vanish:
						c.cloud.RemoveInstance(id)
						return
					case reboot:
						n.Status.NodeInfo.BootID = "another"
					default:
						n.Status.Conditions[0].Status = corev1.ConditionUnknown
					}
				case isStruck && of.how > 0 && c.clock.Now().Sub(at) >= of.how:
					n.Status.Conditions[0].Status = corev1.ConditionTrue
				}
				c.must(c.objects.Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
			})
			if len(struck) != of.strikes || record.Try != of.tries || len(seen) != min(of.lost+1, mostWorkshops) {
				t.Errorf("%d workshops were struck, %d copies made, workshops %v", len(struck), record.Try, seen)
			}
			if !warned || !strings.Contains(said, of.words) || (said == "") != (of.lost == 0) {
				t.Errorf("the progress was %q", said)
			}
			switch {
			case of.lost < mostWorkshops:
				c.copied(p)
			case of.how == vanish:
				c.gaveUp(p, plan.WorkshopGone, "3 workshops", of.words)
			default:
				c.gaveUp(p, plan.WorkshopRestarted, "3 workshops", of.words, donorName, "publishes nothing")
			}
		})
	}
}

// TestACrashBeforeTheDetach: the Node of a machine that crashed stays Ready for 40 seconds, in which the machine could boot from the
// cleaned copy. The disk of a workshop whose kubelet reports is copied at once.
func TestACrashBeforeTheDetach(t *testing.T) {
	leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
	for name, crashes := range map[string]bool{"crashes": true, "reports": false, "cannot be asked at first": false} {
		t.Run(name, func(t *testing.T) {
			c := byCopy(t)
			c.decide()
			unread := map[bool]int{true: 3}[strings.HasPrefix(name, "cannot")]
			c.kube.PrependReactor("get", "leases", func(a kubetesting.Action) (bool, runtime.Object, error) {
				if unread == 0 || a.GetNamespace() != corev1.NamespaceNodeLease || a.(kubetesting.GetAction).GetName() == donorName {
					return false, nil, nil
				}
				unread--
				return true, nil, apierrors.NewInternalError(errors.New("the lease cannot be read"))
			})
			var struck, free, taken time.Time
			var crashed cloud.InstanceID
			workshops, beat := int32(0), 0
			p := c.course(func(int) {
				p, world := c.prototype(), c.cloud.World()
				if r := p.Status.Record; r != nil && r.Copy != nil {
					workshops = r.Copy.Workshops
				}
				id, n := c.workshopNode()
				if n == nil {
					return
				}
				switch isFree := p.Status.Proof != nil && !slices.ContainsFunc(world.Copies, isAttached); {
				case struck.IsZero() && p.Status.Proof != nil && crashes:
					struck, crashed = c.clock.Now(), id
				case id == crashed && c.clock.Now().Sub(struck) > 40*time.Second:
					n.Status.Conditions[0].Status = corev1.ConditionUnknown
					c.must(c.objects.Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""))
				case free.IsZero() && isFree:
					free = c.clock.Now()
				case taken.IsZero() && p.Status.Phase == v1alpha1.PhaseReleasing:
					taken = c.clock.Now()
				}
				if beat++; id != crashed {
					lease := &coordinationv1.Lease{}
					lease.Name, lease.Namespace, lease.ResourceVersion = n.Name, corev1.NamespaceNodeLease, fmt.Sprint(beat)
					_ = c.objects.Delete(leases, lease.Namespace, lease.Name)
					c.must(c.objects.Create(leases, lease, lease.Namespace))
				}
			})
			c.copied(p)
			if want := map[bool]int32{true: 2, false: 1}[crashes]; workshops != want {
				t.Errorf("%d workshops were made, want %d", workshops, want)
			}
			if unread > 0 {
				t.Errorf("%d reads of the lease are left", unread)
			}
			if waited := taken.Sub(free); !crashes && (free.IsZero() || waited >= heardLimit) {
				t.Errorf("free at %s, and the snapshot %s later", free, waited)
			}
		})
	}
}

// TestACopyThatIsNotComplete: the donor serves, so nothing else shows that the cloud works without an end. A person hears of it after
// the usual time, and the capture ends at its deadline.
func TestACopyThatIsNotComplete(t *testing.T) {
	for name, of := range map[string]struct {
		latency option
		words   []string
	}{
		"snapshot": {func(s *testEnv) { s.snapshots = 24 * time.Hour }, []string{
			"snapshot memory:///snapshots/pool1-2026.03.14-copy-1", "longer than 1h0m0s", "ends without a version at 2026-03-14T15:"}},
		"disk": {func(s *testEnv) { s.disks = 30 * time.Minute }, []string{"disk memory:///copies/pool1-2026.03.14-copy-1", "longer than 10m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := byCopyIn(t, of.latency)
			c.decide()
			said := ""
			p := c.course(func(int) {
				if s := meta.FindStatusCondition(c.prototype().Status.Conditions, v1alpha1.ConditionStalled); s != nil && s.Reason == CopySlow {
					said = s.Message
				}
			})
			for _, word := range append(of.words, "Node donor is in service", "`kamino cancel pool1-2026.03.14`") {
				if !strings.Contains(said, word) {
					t.Errorf("Stalled lacks %q: %q", word, said)
				}
			}
			if name == "disk" { // it comes after all
				c.copied(p)
			} else if p.Status.Failure == nil || p.Status.Failure.Reason != string(plan.DeadlineExceeded) {
				t.Error(verdict(p))
			}
		})
	}
}

func isAttached(d memory.CopyView) bool { return d.IsAttached }

// TestEverySingleCallLostOfACopy loses each call of a capture by copy. The donor serves all the time, and one version is published.
func TestEverySingleCallLostOfACopy(t *testing.T) {
	memory.Courses{Losses: losses, Least: 60, Choose: each(1, 0), Sparse: testing.Short(), Play: func(t *testing.T, schedule *memory.Schedule) {
		c := byCopy(t)
		c.schedule = schedule
		c.decide()
		c.copied(c.course())
	}}.LoseEach(t)
}

// TestEverySingleCallLostWithALostWorkshop loses each call while the first workshop goes, before its copy is cleaned.
func TestEverySingleCallLostWithALostWorkshop(t *testing.T) {
	memory.Courses{Losses: losses, Least: 60, Choose: each(1, 0), Sparse: testing.Short(), Play: func(t *testing.T, schedule *memory.Schedule) {
		c := byCopy(t)
		c.schedule = schedule
		c.decide()
		struck := false
		c.copied(c.course(func(int) {
			if id, _ := c.workshopNode(); id != "" && !struck && slices.ContainsFunc(c.cloud.World().Copies, isAttached) {
				struck = c.cloud.RemoveInstance(id)
			}
		}))
		if !struck {
			t.Error("no workshop was there")
		}
	}}.LoseEach(t)
}

// sweep sweeps the place of a pool, a few times.
func (c *copyEnv) sweep(pool cloud.PoolID) {
	for range 5 {
		if memory.RunUntilCrash(func() { _, _ = c.engine.SweepLeftovers(context.Background(), []cloud.PoolID{pool}) }) {
			c.restart()
		}
		c.tick(time.Minute)
	}
}

// swept checks that sweeps leave nothing of the capture.
func (c *copyEnv) swept() {
	c.t.Helper()
	c.sweep(c.pool)
	if c.order() == nil { // Kubernetes deletes the key with its owner
		_ = c.objects.Delete(corev1.SchemeGroupVersion.WithResource("secrets"), podspace, c.podName())
	}
	c.emptied()
}

// TestADonorThatChangesWhileItIsCopied: from the accepted copy on, the donor does not matter.
func TestADonorThatChangesWhileItIsCopied(t *testing.T) {
	gone := func(c *copyEnv) {
		c.must(c.objects.Delete(corev1.SchemeGroupVersion.WithResource("nodes"), "", donorName))
		c.cloud.RemoveInstance(c.donor)
	}
	reboot := func(c *copyEnv) { c.cloud.Reboot(c.donor); c.before = nil }
	for name, of := range map[string]struct {
		at     v1alpha1.Phase
		strike func(c *copyEnv)
		reason plan.Reason // empty: the capture succeeds
	}{
		"rebooted before the copy": {v1alpha1.PhaseStartingWorkshop, reboot, ""},
		"rebooted after the copy":  {v1alpha1.PhaseGeneralizing, reboot, ""},
		"removed before the copy":  {v1alpha1.PhaseStartingWorkshop, gone, plan.DonorGone},
		"removed after the copy":   {v1alpha1.PhaseGeneralizing, gone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := byCopy(t)
			c.decide()
			struck := false
			p := c.play(func(int) {
				c.runPods()
				if p := c.prototype(); p != nil && p.Status.Phase == of.at && !struck {
					struck = true
					of.strike(c)
				}
			})
			switch {
			case !struck:
				t.Fatalf("the capture was never in phase %s", of.at)
			case of.reason != "":
				c.gaveUp(p, of.reason)
			case p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded:
				t.Fatal(verdict(p))
			}
			c.swept()
		})
	}
}

// TestTwoProcessesCopyADonor: the word of another process ends the moment, and the own snapshot is later. Such a copy is never accepted.
func TestTwoProcessesCopyADonor(t *testing.T) {
	c := byCopy(t)
	c.decide()
	struck := false
	c.inMoment = func() {
		if order := c.order(); !struck {
			struck = true
			metav1.SetMetaDataAnnotation(&order.ObjectMeta, v1alpha1.MomentAnnotation, string(v1alpha1.WordAccepted))
			c.must(c.clean.Update(t.Context(), order))
			c.runDonorPod()
		}
	}
	p := c.course(func(int) {
		p := c.prototype()
		if p == nil || p.Status.Record == nil || p.Status.Record.Copy == nil {
			return
		}
		if r := p.Status.Record.Copy; r.Accepted && !c.flushed[copyName(p, r.Try)] {
			t.Fatalf("a copy of another moment is accepted: %+v", r)
		}
	})
	if !struck {
		t.Fatal("the donor was never copied")
	}
	c.copied(p)
}

// TestAMomentAsksForTheImage: the pod on the donor runs as root, and its image is not allowed any more when the pod is made.
func TestAMomentAsksForTheImage(t *testing.T) {
	c := byCopy(t, func(p *v1alpha1.Prototype) { p.Spec.Settings.Generalize.Image = rootkit })
	c.engine.AllowedImages = []string{rootkit}
	c.decide()
	forbidden := false
	p := c.course(func(int) {
		if p := c.prototype(); p != nil && p.Status.Phase == v1alpha1.PhaseStartingWorkshop {
			forbidden, c.engine.AllowedImages = true, nil
		}
		if pod := c.generalizePod(); forbidden && pod != nil && pod.Labels["app.kubernetes.io/component"] == "generalize" {
			t.Fatalf("pod %s runs image %s", pod.Name, pod.Spec.Containers[0].Image)
		}
	})
	if !forbidden {
		t.Fatal("the capture never came to its workshop")
	}
	c.gaveUp(p, admission.NotAllowed)
}

// TestAnotherHolderOfACopiedDonor: only the Lease names the holder of a donor that stays as it is, so other holders see the Lease.
func TestAnotherHolderOfACopiedDonor(t *testing.T) {
	c := byCopy(t)
	c.decide()
	asked := false
	p := c.course(func(int) {
		n, _ := c.tracked("nodes", "", donorName).(*corev1.Node)
		if len(c.leases()) == 0 || n == nil {
			return
		}
		asked = true
		c.clock.Advance(node.Settled) // the Node is as before, and the Lease is old
		leases := node.Reservations{Kube: c.kube, Namespace: ourspace, Now: c.clock.Now}
		other := node.NewReservation(v1alpha1.Holder{Kind: v1alpha1.HolderReplacement, Name: "r", UID: "r"}, n, "", metav1.NewTime(c.clock.Now()))
		if _, err := leases.Reserve(t.Context(), n, other); !apierrors.IsConflict(err) {
			t.Fatalf("another holder got the node: %v", err)
		}
		if _, err := c.engine.Orphan(t.Context(), donorName, v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: c.name, UID: c.prototype().UID}); err != nil {
			t.Fatal(err)
		}
	})
	if !asked {
		t.Fatal("the capture never held the donor")
	}
	c.copied(p)
}

// TestAForgedReservationOfACopiedDonor: the Lease of a copied donor confirms no reservation on the Node, so cordon and protection of a
// person stay.
func TestAForgedReservationOfACopiedDonor(t *testing.T) {
	c := byCopy(t)
	c.decide()
	for len(c.leases()) == 0 {
		_, err := c.engine.Pass(t.Context(), c.name)
		c.must(err)
		c.tick(4 * time.Second)
		c.runPods()
	}
	p := c.prototype()
	c.must(c.cloud.ProtectFromScaleIn(t.Context(), c.donor, cloud.TokenUnprotected))
	before := c.cloud.World().Instance(c.donor)
	c.onNode(func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.ReservationAnnotation, c.text(v1alpha1.Reservation{Holder: holderOf(p)}))
	})
	p.Finalizers = nil
	c.must(c.clean.Update(t.Context(), p))
	c.must(c.clean.Delete(t.Context(), p))
	for range 10 {
		_, _ = c.engine.Orphan(t.Context(), donorName, holderOf(p))
		c.tick(time.Minute)
	}
	if n := c.tracked("nodes", "", donorName).(*corev1.Node); !n.Spec.Unschedulable {
		t.Error("the cordon of a person is gone")
	}
	if diff := cmp.Diff(before, c.cloud.World().Instance(c.donor)); diff != "" {
		t.Errorf("the donor has changed (-before +after):\n%s", diff)
	}
	if left := c.leases(); len(left) > 0 {
		t.Errorf("leases are left: %+v", left)
	}
}

// TestAForgedSnapshotOfACopy: tags can be written onto any snapshot. One of the donor's own disk, with all tags of the clean copy, never
// becomes a version.
func TestAForgedSnapshotOfACopy(t *testing.T) {
	c := byCopy(t)
	c.decide()
	struck := false
	p := c.course(func(int) {
		p := c.prototype()
		if struck || p == nil || p.Status.Proof == nil {
			return
		}
		struck = true
		_, err := c.cloud.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: c.name, Instance: c.donor, Tags: map[string]string{
			cloud.TagUID: string(p.UID), cloud.TagCluster: ourCluster, cloud.TagProof: p.Status.Proof.Tag()}})
		c.must(err)
	})
	if !struck {
		t.Fatal("the copy was never proven")
	}
	if p.Status.Failure == nil || p.Status.Failure.Reason != CloudRefused || !strings.Contains(p.Status.Failure.Message, "the proof is of disk") {
		t.Error(verdict(p))
	}
	if made := c.cloud.World().Images; len(made) > 0 {
		t.Errorf("published are %+v", made)
	}
	c.emptied()
}

// TestALateSnapshotOfADisk: a snapshot of the running disk that the cloud shows after the capture went on is swept at its end, while the
// capture is still active, and nothing else is.
func TestALateSnapshotOfADisk(t *testing.T) {
	c := byCopy(t)
	c.decide()
	late := func(p *v1alpha1.Prototype) cloud.Snapshot {
		snapshot, err := c.cloud.Snapshot(t.Context(), c.donor, copyName(p, 9))
		c.must(err)
		return snapshot
	}
	struck := false
	p := c.course(func(int) {
		p := c.prototype()
		if struck || p == nil || p.Status.Phase != v1alpha1.PhasePublishing || len(c.cloud.World().Images) == 0 {
			return
		}
		struck = true
		tags := fromPrototype(p, *p.Status.Record).ownerTags(c.clock.Now())
		tags[cloud.TagOrder], tags[cloud.TagCluster] = "order", ourCluster
		tags[cloud.TagEndsAt] = c.clock.Now().Add(time.Second).Format(time.RFC3339) // the version is not complete then
		_, err := c.cloud.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: copyName(p, 9), Instance: c.donor, InUse: true, Tags: tags})
		c.must(err)
		for _, over := range []bool{false, true} {
			if over {
				c.clock.Advance(2 * time.Second)
			}
			_, err := c.engine.SweepLeftovers(t.Context(), []cloud.PoolID{c.pool})
			c.must(err)
			if there := late(p).State != cloud.Absent && late(p).State != cloud.Deleting; there == over {
				t.Errorf("after its end %t, the snapshot is there: %t", over, there)
			}
		}
	})
	if !struck {
		t.Fatal("the capture never published")
	}
	c.copied(p)
}

// TestACopyWithoutItsPrototype: after a forced deletion of the Prototype, the sweep finds everything by its tags.
func TestACopyWithoutItsPrototype(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseStartingWorkshop, v1alpha1.PhaseQuiescing, v1alpha1.PhaseCopying, v1alpha1.PhaseGeneralizing, v1alpha1.PhaseSnapshotting} {
		t.Run(string(phase), func(t *testing.T) {
			c := byCopy(t)
			c.decide()
			c.loseAt(phase)
			c.swept()
		})
	}
}

// loseAt deletes the Prototype by force, once it is in a phase.
func (c *copyEnv) loseAt(phase v1alpha1.Phase) {
	c.t.Helper()
	for range 200 {
		p := c.prototype()
		if p.Status.Phase == phase {
			p.Finalizers = nil
			c.must(c.clean.Update(c.t.Context(), p))
			c.must(c.clean.Delete(c.t.Context(), p))
			return
		}
		result, err := c.engine.Pass(c.t.Context(), c.name)
		c.must(err)
		c.tick(max(result.After, 4*time.Second))
		c.runPods()
	}
	c.t.Fatalf("the capture was never in phase %s: %s", phase, verdict(c.prototype()))
}

// TestACopyWithoutItsPool: the sweep knows only another pool in the same place, and loses each call. Things of another cluster stay.
func TestACopyWithoutItsPool(t *testing.T) {
	memory.Courses{Losses: losses, Least: 10, Sparse: testing.Short(), Play: func(t *testing.T, schedule *memory.Schedule) {
		c := byCopy(t)
		c.decide()
		c.loseAt(v1alpha1.PhaseGeneralizing)
		other := c.cloud.AddPool(memory.PoolSpec{Name: "other"})
		theirs := map[string]string{cloud.TagUID: "gone", cloud.TagOrder: "o", cloud.TagCluster: "another", cloud.TagEndsAt: "2020-01-01T00:00:00Z"}
		_, err := c.cloud.EnsureWorkshop(t.Context(), cloud.WorkshopSpec{Pool: c.pool, Name: "theirs", Tags: theirs})
		c.must(err)
		if w := c.cloud.World(); len(w.Workshops) != 2 || len(w.Copies) != 1 {
			t.Fatalf("nothing is left to find: %+v %+v", w.Workshops, w.Copies)
		}
		c.schedule = schedule
		c.sweep(other)
		c.schedule = nil
		w := c.cloud.World()
		if len(w.Workshops) != 1 || w.Workshops[0].Name != "theirs" || len(w.Copies) > 0 {
			t.Errorf("left are workshops %+v and copies %+v", w.Workshops, w.Copies)
		}
		if all, err := c.cloud.Snapshots(t.Context(), other); err != nil || len(all) > 0 {
			t.Errorf("left are snapshots %+v, %v", all, err)
		}
	}}.LoseEach(t)
}
