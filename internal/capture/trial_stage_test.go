package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
	"github.com/kamino-dev/kamino/internal/trial"
)

// triedVersion is what the stage's Prototypes make.
const triedVersion = "2026.03.14"

// trialEnv is a stage with a trial of its version, and with a TrialObserver.
type trialEnv struct {
	*testEnv
	// finds are the facts of a Ready node in the attempt, in addition to the facts of a good node.
	finds func(attempt int32, f *trial.Facts)
	// job is what speaks against the user's Job.
	job string
	// hangs keeps instances from their second boot.
	hangs bool
	// dark keeps them from looking.
	dark error
	// capacity is the pool's size at the completion of the version. byHand: a person has promoted the version.
	capacity int64
	byHand   bool
	// looks, and most is how many trial nodes there were at once.
	looks, most int
}

// probe is the name of the TrialObserver's pod on the trial node.
func probe(subject trial.Subject) string { return "probe-" + subject.Spec.Name }

// Observe implements TrialObserver: by the Nodes that are there.
func (v *trialEnv) Observe(ctx context.Context, subject trial.Subject) (observation trial.Observation, err error) {
	err = outcome(v.next("look at "+subject.Spec.Name), func() error {
		observation, err = v.observeTrial(subject)
		return err
	})
	return observation, err
}

func (v *trialEnv) observeTrial(subject trial.Subject) (trial.Observation, error) {
	if v.dark != nil {
		return trial.Observation{}, v.dark
	}
	v.looks++
	observation := trial.Observation{Facts: subject.Facts}
	for _, n := range v.nodesOf(subject) {
		if !n.Spec.Unschedulable {
			n.Spec.Unschedulable = true
			v.must(v.objects.Update(corev1.SchemeGroupVersion.WithResource("nodes"), &n, ""))
		}
		f := &observation.Facts
		f.Node, f.Registered, f.Ready, f.WasReady, f.Changed = n.Name, n.CreationTimestamp.Time, true, true, n.CreationTimestamp.Time
		v.bootAgain(f, subject)
		f.IdentityKnown, f.Digest, f.Comparison = true, f.Proven, &trial.PeerComparison{Others: 2}
		f.Network, f.Images, f.Job = trial.Measure{
			Result: trial.Passed,
			Says:   "pods reach each other",
		}, trial.Measure{
			Result: trial.Passed,
			Says:   "started",
		}, trial.Measure{
			Result: trial.Skipped,
			Says:   "none",
		}
		observation.Node = &v1alpha1.TrialNode{Kernel: "6.8.0"}
		if v.tracked("pods", podspace, probe(subject)) == nil {
			v.must(
				v.objects.Create(corev1.SchemeGroupVersion.WithResource("pods"),
					&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: probe(subject), Namespace: podspace}}, podspace),
			)
		}
		if v.finds != nil {
			v.finds(subject.Attempt, f)
		}
	}
	return observation, nil
}

// bootAgain sets the facts of the second boot, by the boots of the instance in the cloud.
func (v *trialEnv) bootAgain(f *trial.Facts, subject trial.Subject) {
	id := subject.Instances[0].ID
	f.Reboot.Boot = v.cloud.BootID(id)
	if subject.Restart == nil || subject.Restart.Skipped != "" {
		return
	}
	w := v.cloud.World()
	if v.hangs && w.Count(memory.ByCaller, memory.EffectRestart, string(id)) > 0 {
		f.Ready, f.Reboot.Boot = false, subject.Restart.Boot
		return
	}
	for _, e := range w.Effects {
		if e.Kind == memory.EffectBoot && e.Resource == string(id) && f.Reboot.Boot != subject.Restart.Boot {
			f.Reboot.Booted, f.Reboot.Back, f.Changed = true, e.At, e.At
		}
	}
}

func (v *trialEnv) nodesOf(subject trial.Subject) (nodes []corev1.Node) {
	for _, m := range subject.Instances {
		if n, _ := v.tracked("nodes", "", nodeNameOf(m.ID)).(*corev1.Node); n != nil {
			nodes = append(nodes, *n)
		}
	}
	return nodes
}

func nodeNameOf(id cloud.InstanceID) string {
	if workshop, is := strings.CutPrefix(string(id), "memory:///workshops/"); is {
		return "node-of-" + strings.ReplaceAll(workshop, "/", "-")
	}
	return "node-" + string(id[strings.LastIndex(string(id), "/")+1:])
}

// Check implements TrialObserver.
func (v *trialEnv) Check(context.Context, v1alpha1.Settings) ([]cloud.Refusal, error) {
	if v.job == "" {
		return nil, nil
	}
	return []cloud.Refusal{cloud.Refuse(trial.ChecksInvalid, v.job, "fix the Job")}, nil
}

// Evidence implements TrialObserver.
func (v *trialEnv) Evidence(_ context.Context, node string) string {
	return ". Warning events: " + node + " " + strings.Repeat("has no room ", 30)
}

// Clean implements TrialObserver.
func (v *trialEnv) Clean(ctx context.Context, subject trial.Subject) (left []string, err error) {
	err = outcome(v.next("clean up behind "+subject.Spec.Name), func() error {
		if v.tracked("pods", podspace, probe(subject)) != nil {
			left = []string{"a pod"}
			return v.objects.Delete(corev1.SchemeGroupVersion.WithResource("pods"), podspace, probe(subject))
		}
		return nil
	})
	return left, err
}

// trying is a stage from the beginning of a capture with a trial.
func trying(t testing.TB, change ...func(*v1alpha1.Prototype)) *trialEnv {
	v := &trialEnv{}
	v.testEnv = newTestEnv(t, func(s *testEnv) { s.settings = v.settle(change) })
	v.tryout = v
	v.restart()
	v.decide()
	return v
}

func (v *trialEnv) settle(change []func(*v1alpha1.Prototype)) func(*v1alpha1.Prototype) {
	return func(p *v1alpha1.Prototype) {
		p.Spec.Settings.Trial = v1alpha1.TrialSettings{Mode: v1alpha1.TrialApart, Soak: &metav1.Duration{Duration: time.Minute}}
		for _, c := range change {
			c(p)
		}
	}
}

// published is a stage with a complete version without a trial, and with the record of a capture at that point.
func published(t testing.TB, change ...func(*v1alpha1.Prototype)) *trialEnv {
	v := &trialEnv{}
	v.testEnv = newTestEnv(t)
	v.testEnv.settings = v.settle(change)
	v.tryout = v
	v.restart()
	v.decide()
	p := v.prototype()
	proof := v1alpha1.Proof{
		UID:            p.UID,
		Order:          "order",
		BootID:         "boot",
		Profile:        p.Spec.Settings.Generalize.Profile,
		ProfileVersion: "1",
		Rules:          7,
		Met:            7,
		ManifestDigest: "sha256:0",
		At:             metav1.NewTime(noon),
	}
	record := v1alpha1.Record{
		GeneralizeBootID: "boot",
		Order:            &v1alpha1.OrderRecord{UID: "order", Key: "key"},
		Returning:        true,
		Recipe:           v.cloud.World().Pools[0].Recipe.Image,
	}
	v.onPrototype(func(p *v1alpha1.Prototype) {
		controllerutil.AddFinalizer(p, v1alpha1.CaptureFinalizer)
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.BegunAnnotation, string(p.UID))
	})
	v.onStatus(func(p *v1alpha1.Prototype) {
		record.UID = p.UID
		p.Status.Record, p.Status.Proof = &record, &proof
	})
	v.cloud.AddVersion(v.pool, memory.VersionSpec{Version: triedVersion, Tags: map[string]string{
		cloud.TagPrototype: p.Name, cloud.TagUID: string(p.UID), cloud.TagProof: proof.Tag(), cloud.TagBuiltAt: noon.UTC().Format(cloud.BuiltAtLayout)}})
	return v
}

// TestTheCourseBeforeATrial: before the complete image, a capture with a trial makes the same calls as without, except
// for the trial's preflight. Its record then equals the result of published.
func TestTheCourseBeforeATrial(t *testing.T) {
	shared := func(calls []string) []string {
		calls = slices.DeleteFunc(calls, func(call string) bool { return strings.HasPrefix(call, "PreflightTrial ") })
		return calls[:firstCall(calls, "DeleteSnapshot ")]
	}
	with, without := trying(t), trying(t, func(p *v1alpha1.Prototype) { p.Spec.Settings.Trial.Mode = v1alpha1.TrialOff })
	var record v1alpha1.Record
	with.run(func(int) {
		if p := with.prototype(); p != nil && p.Status.Phase != v1alpha1.PhaseRunningTrial && record.Trial == nil {
			r, err := v1alpha1.RecordOf(p)
			with.must(err)
			record = r
		}
	})
	without.play()
	if got, want := shared(with.calls()), shared(without.calls()); !slices.Equal(got, want) {
		t.Errorf("with a trial:\n%v\nwithout:\n%v", got, want)
	}
	made, err := v1alpha1.RecordOf(published(t).prototype())
	if with.must(err); made.GeneralizeBootID == "" || record.GeneralizeBootID == "" || (made.Order == nil) != (record.Order == nil) ||
		made.Reservation != nil ||
		record.Reservation != nil {
		t.Errorf("the record is %+v, and is made as %+v", record, made)
	}
}

// run plays the capture to its end, and checks the invariants of a trial at each step.
func (v *trialEnv) run(between ...func(pass int)) *v1alpha1.Prototype {
	v.t.Helper()
	return v.play(append([]func(int){func(int) { v.watch() }}, between...)...)
}

// watch checks that the recipe never names an unproven version, and that only one trial exists.
func (v *trialEnv) watch() {
	v.t.Helper()
	w := v.cloud.World()
	if w.Pools[0].Recipe.Version == triedVersion && !v.byHand && !v.tagged(cloud.TagTrial, "Passed ") {
		v.t.Error("the recipe names a version that has not passed")
	}
	if v.most = max(v.most, len(w.Trials)); v.most > 1 {
		v.t.Errorf("there are %d trials", v.most)
	}
}

// tagged reports whether the version's tag has the prefix.
func (v *trialEnv) tagged(tag, begins string) bool {
	for _, image := range v.cloud.World().Images {
		if image.Version == triedVersion {
			text, there := image.Tags[tag]
			return there && strings.HasPrefix(text, begins)
		}
	}
	return false
}

// nothingLeft checks that no object of the trial is left, and that the recipe names the version only after a passed
// trial.
func (v *trialEnv) nothingLeft(p *v1alpha1.Prototype) {
	v.t.Helper()
	w := v.cloud.World()
	if len(w.Trials) > 0 {
		v.t.Errorf("trials are left: %+v", w.Trials)
	}
	for _, m := range w.Instances {
		if m.Pool != v.pool {
			v.t.Errorf("instance %s of no pool is left", m.ID)
		}
		if m.BuiltFrom == triedVersion && !v.byHand && p == nil {
			v.t.Errorf("instance %s was built from a version that was not promoted", m.ID)
		}
	}
	pods, err := v.objects.List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), podspace)
	v.must(err)
	for _, pod := range pods.(*corev1.PodList).Items {
		if strings.HasPrefix(pod.Name, "probe-") {
			v.t.Errorf("pod %s is left", pod.Name)
		}
	}
	v.watch()
	promoted := w.Pools[0].Recipe.Version == triedVersion
	if succeeded := p != nil && p.Status.Phase == v1alpha1.PhaseSucceeded; promoted != succeeded && !v.byHand {
		v.t.Errorf("the recipe names the version: %t; %s", promoted, verdict(p))
	}
	if p != nil {
		record, err := v1alpha1.RecordOf(p)
		if v.must(err); record.Trial != nil && (record.Trial.Name != "" || record.Trial.CleaningUp) {
			v.t.Errorf("the record has a trial: %+v", record.Trial)
		}
	}
	if v.capacity != 0 && w.Pools[0].Capacity != v.capacity {
		v.t.Errorf("the pool's wanted size is %d nodes, want %d", w.Pools[0].Capacity, v.capacity)
	}
}

func (v *trialEnv) promoteByHand() {
	change, err := v.cloud.RecipeChange(context.Background(), cloud.ImageRef{Pool: v.pool, Version: triedVersion}, true)
	v.must(err)
	v.must(v.cloud.SetRecipe(context.Background(), change))
	v.byHand = true
}

var errDark = errors.New("no answer")

// trialChecks are the results of a status's checks, by name.
func trialChecks(p *v1alpha1.Prototype) map[string]string {
	results := map[string]string{}
	for _, check := range p.Status.Trial.Checks {
		results[check.Name] = fmt.Sprintf("%s: %s", check.Result, check.Message)
	}
	return results
}
