package capture

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
	"github.com/kamino-dev/kamino/internal/trial"
)

// TestACaptureWithATrial: the trial begins after the donor's release, and the promotion follows the passed trial.
func TestACaptureWithATrial(t *testing.T) {
	v := trying(t)
	recorder, shown := events.NewFakeRecorder(500), ""
	p := v.run(func(int) {
		v.engine.Recorder = recorder
		for len(recorder.Events) > 0 {
			shown += <-recorder.Events + "\n"
		}
	})
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
		t.Fatal(verdict(p))
	}
	v.gaveBack()
	v.nothingLeft(p)
	var phases []v1alpha1.Phase
	for _, step := range p.Status.Steps {
		phases = append(phases, step.Phase)
	}
	i := slices.Index(phases, v1alpha1.PhaseRunningTrial)
	if i < 1 || phases[i-1] != v1alpha1.PhasePublishing || phases[i+1] != v1alpha1.PhasePromoting {
		t.Errorf("the steps are %v", phases)
	}
	s := p.Status.Trial
	if s == nil || s.Result != v1alpha1.TrialPassed || s.Attempt != 1 || s.Node == "" || s.Instance == "" || s.NodeInfo == nil || s.StartedAt == nil ||
		s.FinishedAt == nil ||
		s.FinishedAt.Before(s.StartedAt) {
		t.Errorf("the status of the trial is %+v", s)
	}
	for name, message := range trialChecks(p) {
		if !strings.HasPrefix(message, "Passed: ") && !strings.HasPrefix(message, "Skipped: ") {
			t.Errorf("check %s: %s", name, message)
		}
	}
	if !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionTrialPassed) || !v.tagged(cloud.TagTrial, "Passed 2026-03-14T") {
		t.Errorf("conditions: %+v", p.Status.Conditions)
	}
	for _, want := range []string{"Normal TrialStarted trial of version 2026.03.14: a node is built", "Normal TrialPassed version 2026.03.14 of pool pool1 has passed"} {
		if strings.Count(shown, want) != 1 {
			t.Errorf("%q was not reported once:\n%s", want, shown)
		}
	}
	w := v.cloud.World()
	for kind, want := range map[string]int{memory.EffectBeginTrial: 1, memory.EffectEndTrial: 1} {
		if got := w.Count(memory.ByCaller, kind, ""); got != want {
			t.Errorf("%s was done %d times, want %d", kind, got, want)
		}
	}
}

// TestAVersionThatFails is quarantined for what the check says, and the pool is left as it was.
func TestAVersionThatFails(t *testing.T) {
	v := published(t)
	v.capacity = 2
	before := v.cloud.World().Pools[0].Recipe
	v.finds = func(_ int32, f *trial.Facts) { f.Twins = []string{"peer"} }
	p := v.run()
	v.nothingLeft(p)
	const says = "Identity: node"
	if p == nil || p.Status.Failure == nil || p.Status.Failure.Reason != "TrialFailed" || !strings.Contains(p.Status.Failure.Message, says) {
		t.Fatal(verdict(p))
	}
	if diff := cmp.Diff(before, v.cloud.World().Pools[0].Recipe); diff != "" {
		t.Errorf("the recipe:\n%s", diff)
	}
	if !v.tagged(cloud.TagQuarantined, "trial: "+says) || !v.tagged(cloud.TagTrial, "Failed ") {
		t.Errorf("tags: %+v", v.cloud.World().Images)
	}
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTrialPassed)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "TrialFailed" || !strings.Contains(c.Message, says) {
		t.Errorf("condition: %+v", c)
	}
	if s := p.Status.Trial; s.Result != v1alpha1.TrialFailed || !strings.HasPrefix(s.Message, says) ||
		!strings.HasPrefix(trialChecks(p)["Identity"], "Failed: ") ||
		s.FinishedAt == nil {
		t.Errorf("the status is %+v", s)
	}
}

// TestFailedVersionIsReportedInFull: the status has the whole sentence with the events, and the tag has the beginning.
func TestFailedVersionIsReportedInFull(t *testing.T) {
	v := published(t)
	v.finds = func(_ int32, f *trial.Facts) { f.Twins = []string{"peer"} }
	p := v.run()
	for _, text := range []string{p.Status.Trial.Message, p.Status.Failure.Message} {
		if !strings.Contains(text, ". Warning events: ") || !strings.Contains(text, strings.Repeat("has no room ", 30)) {
			t.Errorf("%s", text)
		}
	}
	if !v.tagged(cloud.TagQuarantined, "trial: Identity: node") {
		t.Errorf("%+v", v.cloud.World().Images)
	}
}

// TestAFailedVersionQuotesTheConsole: the console is read before the instance goes. Without the right to read the console,
// the version fails all the same.
func TestAFailedVersionQuotesTheConsole(t *testing.T) {
	for _, denied := range []bool{false, true} {
		v := published(t)
		v.finds = func(_ int32, f *trial.Facts) { f.Ready, f.Twins = false, []string{"peer"} }
		want := ". Serial console: kubelet: unknown flag: --max-podz. Warning events: "
		if denied {
			v.cloud.Forbid("ConsoleOutput")
			want = ". Serial console unread: console output "
		}
		p := v.run(func(int) {
			for _, m := range v.cloud.World().Instances {
				v.cloud.SetConsole(m.ID, "[   10.2] kubelet: unknown flag: --max-podz\r\nn1 login: ")
			}
		})
		v.nothingLeft(p)
		if p.Status.Phase != v1alpha1.PhaseFailed || !strings.Contains(p.Status.Trial.Message, want) || !strings.Contains(p.Status.Failure.Message, want) {
			t.Errorf("denied %t: %s", denied, verdict(p))
		}
	}
}

// TestAFailedInstanceIsKept for the time in the settings, in spite of restarts, and not after a deletion.
func TestAFailedInstanceIsKept(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		v := published(t, func(p *v1alpha1.Prototype) {
			p.Spec.Settings.Trial.KeepFailed = metav1.Duration{Duration: 20 * time.Minute}
		})
		v.finds = func(_ int32, f *trial.Facts) { f.Twins = []string{"peer"} }
		var failed, gone time.Time
		p := v.run(func(int) {
			v.restart()
			now, failure := v.clock.Now(), v.tagged(cloud.TagTrial, "Failed ")
			there := len(v.cloud.World().Trials) > 0
			if failure && failed.IsZero() {
				failed = now
			}
			if failure && !there && gone.IsZero() {
				gone = now
			}
			p := v.prototype()
			if deleted && p != nil && p.Status.Failure != nil && p.DeletionTimestamp == nil {
				v.must(v.clean.Delete(t.Context(), p))
			}
			if p != nil && p.Status.Failure != nil && there && now.Sub(failed) > time.Minute && !deleted &&
				p.Status.Progress != "keeping the instance of the failed trial (settings.trial.keepFailed)" && now.Sub(failed) < 19*time.Minute {
				t.Errorf("%s after the failure: %s", now.Sub(failed), p.Status.Progress)
			}
		})
		v.nothingLeft(p)
		if kept := gone.Sub(failed); kept > 25*time.Minute || (kept > 19*time.Minute) == deleted {
			t.Errorf("deleted %t: kept for %s", deleted, kept)
		}
	}
}

// TestInconclusiveAttemptIsRepeated is followed by another, after a pause.
func TestInconclusiveAttemptIsRepeated(t *testing.T) {
	for name, spoil := range map[string]struct {
		before func(*trialEnv)
		says   string
	}{
		"no room": {func(v *trialEnv) {
			v.cloud.FailTrials(1, memory.TrialFailure{Trouble: "12 of 12 cores are used", LacksCapacity: true})
		}, "Provisioned: the cloud has no instance to spare: 12 of 12 cores are used"},
		"unknown cause": {func(v *trialEnv) { v.cloud.FailTrials(1, memory.TrialFailure{Trouble: "InternalError: no"}) },
			"Provisioned: the cloud could not make an instance, and the cause may not be the version: InternalError: no"},
		"no identity": {func(v *trialEnv) {
			v.finds = func(attempt int32, f *trial.Facts) {
				if attempt == 1 {
					f.IdentityKnown = false
					f.Changed = f.Changed.Add(-time.Hour)
				}
			}
		}, "Identity: "},
	} {
		v := published(t)
		v.capacity = 2
		spoil.before(v)
		recorder, shown := events.NewFakeRecorder(500), ""
		begun := map[int32]time.Time{}
		p := v.run(func(int) {
			v.engine.Recorder = recorder
			for len(recorder.Events) > 0 {
				shown += <-recorder.Events + "\n"
			}
			if r, err := v1alpha1.RecordOf(v.prototype()); err == nil && r.Trial != nil {
				begun[r.Trial.Attempt] = r.Trial.AttemptStartedAt.Time
			}
		})
		if v.nothingLeft(p); p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded || p.Status.Trial.Attempt != 2 {
			t.Fatalf("%s: %s", name, verdict(p))
		}
		if pause := begun[2].Sub(begun[1]); pause < 5*time.Minute || pause > 20*time.Minute {
			t.Errorf("%s: the second attempt followed after %s", name, pause)
		}
		if strings.Count(shown, "Warning TrialInconclusive attempt 1 at the trial of version 2026.03.14 of pool pool1 has no verdict") != 1 ||
			!strings.Contains(shown, spoil.says) {
			t.Errorf("%s: events:\n%s", name, shown)
		}
		if v.tagged(cloud.TagQuarantined, "trial") {
			t.Errorf("%s: it is quarantined", name)
		}
	}
}

// TestInconclusiveTrialEndsWithTimeout ends with the timeout, and the version stays as it is.
func TestInconclusiveTrialEndsWithTimeout(t *testing.T) {
	v := published(t)
	v.capacity, v.dark = 2, errDark
	p := v.run()
	v.nothingLeft(p)
	if p == nil || p.Status.Failure == nil || p.Status.Failure.Reason != "TrialInconclusive" || !strings.Contains(p.Status.Failure.Message, "no answer") {
		t.Fatal(verdict(p))
	}
	if s := p.Status.Trial; s.Result != v1alpha1.TrialInconclusive || s.Attempt < 3 {
		t.Errorf("the status is %+v", s)
	}
	if v.tagged(cloud.TagQuarantined, "t") || v.tagged(cloud.TagTrial, "P") || v.tagged(cloud.TagTrial, "F") {
		t.Errorf("tags: %+v", v.cloud.World().Images)
	}
	if took := v.clock.Now().Sub(noon); took < 2*time.Hour || took > 3*time.Hour {
		t.Errorf("it took %s", took)
	}
}

// TestARefusedInstance: the cloud refuses the instance again and again. The failure has the cloud's message, and does not
// advise to promote: the pool's next node would be refused, too.
func TestARefusedInstance(t *testing.T) {
	const says = "root volume size (30) must be greater than or equal to snapshot size (40)"
	v := published(t)
	v.capacity = 2
	v.cloud.FailTrials(99, memory.TrialFailure{Trouble: says, Unfilled: true, Retries: true})
	p := v.run()
	v.nothingLeft(p)
	if p == nil || p.Status.Failure == nil || p.Status.Failure.Reason != "TrialInconclusive" {
		t.Fatal(verdict(p))
	}
	if text := p.Status.Failure.Message; strings.Count(text, says) != 1 || strings.Contains(text, "kamino promote") {
		t.Errorf("%s", text)
	}
}

// TestAPersonPromotes: the version waits with or without a trial, one event asks for the promotion, and the capture
// continues afterwards.
func TestAPersonPromotes(t *testing.T) {
	for _, mode := range []v1alpha1.TrialMode{v1alpha1.TrialApart, v1alpha1.TrialOff} {
		for _, comes := range []bool{true, false} {
			v := published(t, func(p *v1alpha1.Prototype) {
				p.Spec.Settings.Trial.Mode, p.Spec.Settings.Promotion.Mode = mode, v1alpha1.PromotionManual
			})
			recorder, shown := events.NewFakeRecorder(500), ""
			v.engine.Recorder = recorder
			waited := 0
			p := v.run(func(int) {
				v.engine.Recorder = recorder
				p := v.prototype()
				if p.Status.Phase == v1alpha1.PhaseAwaitingPromotion {
					waited++
					reconciling, ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReconciling), meta.FindStatusCondition(
						p.Status.Conditions,
						v1alpha1.ConditionReady,
					)
					if reconciling.Status != metav1.ConditionFalse || reconciling.Reason != AwaitingPromotion || ready.Status != metav1.ConditionUnknown ||
						ready.Reason != AwaitingPromotion {
						t.Errorf("%s: conditions: %+v", mode, p.Status.Conditions)
					}
					if waited > 3 && !comes {
						v.clock.Advance(12 * time.Hour)
					}
					if waited == 5 && comes {
						v.promoteByHand()
					}
				}
				for len(recorder.Events) > 0 {
					shown += <-recorder.Events + "\n"
				}
			})
			if strings.Count(shown, "Normal AwaitingPromotion version 2026.03.14 of pool pool1 is complete, and waits") != 1 {
				t.Errorf("%s: events:\n%s", mode, shown)
			}
			switch {
			case waited < 5:
				t.Errorf("%s: it waited for %d passes", mode, waited)
			case comes && (p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded):
				t.Errorf("%s: %s", mode, verdict(p))
			case !comes && (p == nil || p.Status.Failure == nil || p.Status.Failure.Reason != "PromotionStale"):
				t.Errorf("%s: %s", mode, verdict(p))
			}
			v.nothingLeft(p)
		}
	}
}

// TestAVersionThatIsHandedOver: another tool writes the pool's recipe. The version is created and tried, the status
// names the user's action, Kamino writes no recipe, and the capture succeeds after that action.
func TestAVersionThatIsHandedOver(t *testing.T) {
	s := newTestEnv(t, func(s *testEnv) { s.owner = "kOps" }).decide()
	waited := 0
	p := s.play(func(int) {
		p := s.prototype()
		if p.Status.Phase != v1alpha1.PhaseAwaitingPromotion {
			return
		}
		waited++
		for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling} {
			if c := meta.FindStatusCondition(p.Status.Conditions, kind); c.Reason != HandedOver ||
				!strings.Contains(c.Message, "kOps writes the recipe of pool pool1: have it name "+string(s.pool)) {
				t.Errorf("condition %+v", c)
			}
		}
		if !strings.Contains(p.Status.HandsOver(), "kOps") || !strings.Contains(p.Status.Progress, "handed over") || p.Status.Failure != nil {
			t.Errorf("%+v", p.Status)
		}
		if w := s.cloud.World(); w.Count(memory.ByCaller, memory.EffectSetRecipe, "") > 0 || w.Pools[0].Recipe.Version != "" {
			t.Error("the recipe was written")
		}
		if waited == 3 {
			s.cloud.ChangeRecipe(s.pool, string(s.pool)+"/versions/"+p.Spec.Version)
		}
	})
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded || waited < 3 || p.Status.HandsOver() != "" {
		t.Fatalf("it waited for %d passes: %s", waited, verdict(p))
	}
	s.gaveBack()
}

// TestImpossibleTrialIsRefused is refused before anything is taken, and so is one that the cloud has something against.
func TestImpossibleTrialIsRefused(t *testing.T) {
	v := trying(t)
	v.tryout = nil
	v.restart()
	p := v.play()
	f := p.Status.Failure
	if f == nil || f.Reason != admission.SettingUnsupported || !strings.Contains(f.Message, `settings.trial.mode: "Off"`) {
		t.Error(verdict(p))
	}
	v = trying(t)
	v.job = "there is no ConfigMap check"
	p = v.play()
	if p.Status.Failure == nil || p.Status.Failure.Reason != trial.ChecksInvalid || !strings.Contains(p.Status.Failure.Message, v.job) {
		t.Error(verdict(p))
	}
}

// TestATagIsNoVerdictOfARunningTrial: a client tags the version as passed, before, during or after the trial of a version
// that fails. The recipe does not name the version.
func TestATagIsNoVerdictOfARunningTrial(t *testing.T) {
	for at := range 12 {
		v := published(t)
		trialCourses[1].prepare(v) // the course that fails
		tag := func(pass int) {
			if pass == at {
				v.must(
					v.cloud.TagImage(t.Context(), cloud.ImageRef{Pool: v.pool, Version: triedVersion},
						map[string]string{cloud.TagTrial: trial.Mark(trial.Passed, v.clock.Now())}),
				)
			}
		}
		tag(0)
		p := v.run(tag)
		if p.Status.Failure == nil || p.Status.Failure.Reason != "TrialFailed" || v.cloud.World().Pools[0].Recipe.Version == triedVersion {
			t.Errorf("tagged at pass %d: the recipe names %q: %s", at, v.cloud.World().Pools[0].Recipe.Version, verdict(p))
		}
	}
}

// TestPrototypeWithoutMode has a trial, unless an earlier version of Kamino began the capture: then its record has no mode, and
// it continues as it began.
func TestPrototypeWithoutMode(t *testing.T) {
	for name, c := range map[string]struct {
		begin  func(testing.TB, ...func(*v1alpha1.Prototype)) *trialEnv
		trials int
	}{"a new capture": {trying, 1}, "begun by an earlier version": {published, 0}} {
		t.Run(name, func(t *testing.T) {
			v := c.begin(t, func(p *v1alpha1.Prototype) { p.Spec.Settings.Trial = v1alpha1.TrialSettings{} })
			p := v.play()
			w := v.cloud.World()
			if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded || w.Pools[0].Recipe.Version != triedVersion {
				t.Fatalf("%s; the recipe names %q", verdict(p), w.Pools[0].Recipe.Version)
			}
			if begun := w.Count(memory.ByCaller, memory.EffectBeginTrial, ""); begun != c.trials || (p.Status.Trial != nil) != (c.trials > 0) {
				t.Errorf("%d trials were begun, want %d, and the status has %+v", begun, c.trials, p.Status.Trial)
			}
			if passed := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTrialPassed); (passed != nil) != (c.trials > 0) {
				t.Errorf("it says of a trial: %+v", passed)
			}
		})
	}
}

// TestFurtherMachineTypes: after the pool's type, the version must pass on each named type, in order and one at a time. A failure on one of
// them fails the version, and a type without capacity gives no verdict, by its name.
func TestFurtherMachineTypes(t *testing.T) {
	named := func(p *v1alpha1.Prototype) { p.Spec.Settings.Trial.MachineTypes = []string{"xen.large", "gpu.large"} }
	ofType := func(v *trialEnv, kind string) bool {
		r, err := v1alpha1.RecordOf(v.prototype())
		v.must(err)
		return r.Trial != nil && r.Trial.Name != "" && len(v.cloud.World().Trials) > 0 && v.cloud.World().Trials[0].MachineType == kind
	}
	for name, c := range map[string]struct {
		spoil func(v *trialEnv)
		// tried are the types in the order of their trials, with repeated attempts.
		tried        []string
		reason, says string
	}{
		"good": {nil, []string{"", "xen.large", "gpu.large"}, "", "passed, on the machine type of the pool and on xen.large, gpu.large"},
		"bad on the first": {
			func(v *trialEnv) { v.spoilOn(ofType, "xen.large") }, []string{"", "xen.large"}, "TrialFailed", "on machine type xen.large: Identity: ",
		},
		"bad on the second": {
			func(v *trialEnv) { v.spoilOn(ofType, "gpu.large") }, []string{"", "xen.large", "gpu.large"}, "TrialFailed",
			"on machine type gpu.large: Identity: ",
		},
		"bad on the pool's": {func(v *trialEnv) { v.spoilOn(ofType, "") }, []string{""}, "TrialFailed", "Identity: "},
		"no capacity": {
			func(v *trialEnv) { v.cloud.FailTrials(99, noRoomOn("gpu.large")) }, []string{"", "xen.large", "gpu.large", "gpu.large", "gpu.large"},
			"TrialInconclusive", "on machine type gpu.large: Provisioned: the cloud has no instance to spare",
		},
		"capacity at second": {
			func(v *trialEnv) { v.cloud.FailTrials(1, noRoomOn("xen.large")) }, []string{"", "xen.large", "xen.large", "gpu.large"}, "",
			"passed, on the machine type of the pool and on",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := published(t, named)
			if c.spoil != nil {
				c.spoil(v)
			}
			var tried, between []string
			last, begun := "", map[string]time.Time{}
			p := v.run(func(int) {
				for _, one := range v.cloud.World().Trials {
					if one.Name != last {
						tried, last, begun[one.MachineType] = append(tried, one.MachineType), one.Name, v.clock.Now()
					}
				}
				if s := v.prototype().Status.Trial; s != nil && strings.Contains(s.Message, "follows") {
					between = append(between, string(s.Result)+" "+s.Message)
				}
			})
			v.nothingLeft(p)
			if tried = tried[:min(len(tried), 5)]; !slices.Equal(tried, c.tried) {
				t.Errorf("the trials were on %q, want %q", tried, c.tried)
			}
			f := p.Status.Failure
			switch {
			case c.reason == "" && (p.Status.Phase != v1alpha1.PhaseSucceeded || !strings.Contains(p.Status.Trial.Message, c.says)):
				t.Errorf("%s; the trial says %q", verdict(p), p.Status.Trial.Message)
			case c.reason != "" && (f == nil || f.Reason != c.reason || !strings.Contains(f.Message, c.says)):
				t.Error(verdict(p))
			}
			if c.reason == "TrialFailed" && !v.tagged(cloud.TagQuarantined, "trial: "+c.says) {
				t.Errorf("the tag is not %q", c.says)
			}
			const remedy = "remove gpu.large from settings.trial.machineTypes"
			if c.reason == "TrialInconclusive" && f != nil && (v.tagged(cloud.TagQuarantined, "") || !strings.Contains(f.Message, remedy)) {
				t.Errorf("it is quarantined, or without a remedy: %s", f.Message)
			}
			const follows = "Pending every check has passed on this machine type, and a trial on xen.large follows"
			if len(c.tried) > 1 && (len(between) == 0 || between[0] != follows) {
				t.Errorf("between two types the status says %q", between)
			}
			if pause := begun["xen.large"].Sub(begun[""]); len(c.tried) > 1 && pause > 10*time.Minute {
				t.Errorf("the trial on the second type began %s after the first", pause)
			}
		})
	}
}

// spoilOn makes the version fail on a machine type.
func (v *trialEnv) spoilOn(is func(*trialEnv, string) bool, kind string) {
	v.finds = func(_ int32, f *trial.Facts) {
		if is(v, kind) {
			f.Twins = []string{"peer"}
		}
	}
}

func noRoomOn(kind string) memory.TrialFailure {
	return memory.TrialFailure{MachineType: kind, Trouble: "no capacity", LacksCapacity: true}
}
