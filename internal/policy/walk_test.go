package policy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// specChanges are the changes of a walk. Each sets one field to one of its values.
var specChanges = map[string]func(s *v1alpha1.PrototypePolicySpec, pick func(n int) int){
	"suspend":       func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) { s.Suspend = pick(2) == 1 },
	"dryRun":        func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) { s.DryRun = pick(2) == 1 },
	"maxConcurrent": func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) { s.MaxConcurrent = int32(1 + pick(3)) },
	"pools": func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) {
		s.Pools = []v1alpha1.PoolSelector{{}, {Names: []string{"one"}}, {Names: []string{"two"}}, {Names: []string{"two", "one"}}, {Names: []string{"none"}},
			{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelOSStable: "linux"}}},
			{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelOSStable: "plan9"}}}}[pick(7)]
	},
	"selection.minReadyTime": func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) {
		s.Selection.MinReadyTime = []*metav1.Duration{nil, {}, {Duration: time.Hour}, {Duration: 11*time.Hour + 30*time.Minute}}[pick(4)]
	},
	"selection.minCandidates": func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) { s.Selection.MinCandidates = int32(pick(5)) },
	"selection.maxImageAge": func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) {
		s.Selection.MaxImageAge = metav1.Duration{Duration: []time.Duration{0, 24 * time.Hour, 1000 * time.Hour}[pick(3)]}
	},
	"selection.ignoreNodes": func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) {
		s.Selection.IgnoreNodes = [][]string{nil, {"one-0"}, {"one-0", "two-1"}, {"one-*"}}[pick(4)]
	},
	"selection.refuse": func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) {
		s.Selection.Refuse = []string{"", `node.metadata.name == "two-0"`, "true", "((", "node.nothing > 3"}[pick(5)]
	},
	"patched": func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) {
		s.Patched = []v1alpha1.PatchedSettings{{}, {Preset: "kured"}, {MostRecentPatch: "example.com/patched"}}[pick(3)]
	},
	"schedule": func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) {
		hour := metav1.Duration{Duration: time.Hour}
		s.Schedule = []v1alpha1.ScheduleSettings{{}, {Cron: "0 0 * * *", Window: hour}, {Cron: "0 * * * *", Window: hour, TimeZone: "Europe/Berlin"},
			{MinInterval: metav1.Duration{Duration: 48 * time.Hour}}, {Window: hour}}[pick(5)]
	},
	"failures": func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) {
		s.Failures = v1alpha1.FailureSettings{Limit: int32(1 + pick(4)), Backoff: &metav1.Duration{Duration: time.Duration(pick(3)) * time.Hour}}
	},
	"rollback": func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) {
		s.Rollback.Mode = []v1alpha1.RollbackMode{v1alpha1.RollbackAutomatic, v1alpha1.RollbackOff}[pick(2)]
	},
	"rebuild": func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) {
		s.Rebuild = []*v1alpha1.RebuildSettings{nil, {AtImages: 3}, {Outdated: &v1alpha1.OutdatedSettings{PerHour: 2}}}[pick(3)]
	},
	"settings.keep": func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) { s.Settings.Keep = int32(2 + pick(4)) },
	"settings.trial": func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) {
		s.Settings.Trial.Mode = []v1alpha1.TrialMode{v1alpha1.TrialApart, v1alpha1.TrialOff}[pick(2)]
	},
	"settings.outOfService": func(s *v1alpha1.PrototypePolicySpec, pick func(int) int) {
		limit := []intstr.IntOrString{intstr.FromInt32(1), intstr.FromString("10%"), intstr.FromString("100%")}[pick(3)]
		s.Settings.OutOfService.MaxUnavailable = &limit
	},
}

// refusedChanges are changes that the API server must refuse, by the field that the refusal names.
var refusedChanges = map[string]func(*v1alpha1.PrototypePolicySpec){
	"spec.maxConcurrent":           func(s *v1alpha1.PrototypePolicySpec) { s.MaxConcurrent = 1001 },
	"spec.settings.keep":           func(s *v1alpha1.PrototypePolicySpec) { s.Settings.Keep = 1 },
	"spec.rollback.mode":           func(s *v1alpha1.PrototypePolicySpec) { s.Rollback.Mode = "Maybe" },
	"spec.selection.minCandidates": func(s *v1alpha1.PrototypePolicySpec) { s.Selection.MinCandidates = -1 },
	"spec.settings.trial.mode":     func(s *v1alpha1.PrototypePolicySpec) { s.Settings.Trial.Mode = "Later" },
	"spec.settings.donor.method":   func(s *v1alpha1.PrototypePolicySpec) { s.Settings.Donor.Method = "Magic" },
}

// change writes a change of the walk. A refusal names the field, and leaves the spec.
func (s *testEnv) changeSpec(random *rand.Rand) string {
	s.Helper()
	p := s.status("walk")
	if random.IntN(5) == 0 {
		field := sortedKeys(refusedChanges)[random.IntN(len(refusedChanges))]
		refusedChanges[field](&p.Spec)
		if err := s.client.Update(s.Context(), p); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), field) {
			s.Errorf("a wrong %s: %v", field, err)
		}
		return field + " is refused"
	}
	name := sortedKeys(specChanges)[random.IntN(len(specChanges))]
	said := ""
	specChanges[name](&p.Spec, func(n int) int {
		chosen := random.IntN(n)
		said += fmt.Sprint(" ", chosen)
		return chosen
	})
	switch err := s.client.Update(s.Context(), p); {
	case apierrors.IsInvalid(err) && strings.Contains(err.Error(), "spec."):
		return name + said + " is refused: " + err.Error()
	case err != nil:
		s.Fatalf("change %s%s: %v", name, said, err)
	}
	return name + said
}

func sortedKeys[V any](of map[string]V) []string {
	keys := make([]string, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// outcome is what the policy says, apart from times.
func (s *testEnv) outcome() (says []string) {
	s.Helper()
	status := s.status("walk").Status
	for _, c := range status.Conditions {
		says = append(says, fmt.Sprintf("condition %s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	for _, p := range status.Pools {
		for what, d := range map[string]*v1alpha1.PoolDecision{"capture": p.Decision, "rebuild": p.Rebuild} {
			if d != nil {
				says = append(says, fmt.Sprintf("pool %s, %s: %s: %s", p.Name, what, d.Reason, d.Message))
			}
		}
		says = append(says, fmt.Sprintf("pool %s: prototype %q, donor %q", p.Name, p.Prototype, p.Donor))
	}
	slices.Sort(says)
	return says
}

// endOldest ends the oldest active capture.
func (s *testEnv) endOldest(fails bool, made int) string {
	s.Helper()
	for _, p := range s.prototypes() {
		switch {
		case p.Status.Terminal():
		case fails:
			s.end(p.Name, v1alpha1.PhaseFailed)
			return p.Name + " fails"
		default:
			at := s.clock.Now().AddDate(0, 0, -1).Add(time.Duration(made) * time.Minute)
			s.version(cloud.PoolID(p.Spec.PoolID), at, nil)
			s.cloud.ChangeRecipe(cloud.PoolID(p.Spec.PoolID), p.Spec.PoolID+"/versions/"+imageversion.Of(at))
			s.end(p.Name, v1alpha1.PhaseSucceeded)
			return p.Name + " succeeds"
		}
	}
	return "no capture runs"
}

// older is the client of an earlier version of Kamino: its type of a pool's status has fewer fields, so that its writes delete the others.
type older struct{ client.Client }

func (o older) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := o.Client.List(ctx, list, options...)
	if policies, is := list.(*v1alpha1.PrototypePolicyList); is {
		for i := range policies.Items {
			forgetPools(&policies.Items[i])
		}
	}
	return err
}

func (o older) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := o.Client.Get(ctx, key, object, options...)
	if p, is := object.(*v1alpha1.PrototypePolicy); is {
		forgetPools(p)
	}
	return err
}

// forgetPools leaves the names of pools, which the first version had.
func forgetPools(p *v1alpha1.PrototypePolicy) {
	for i, pool := range p.Status.Pools {
		p.Status.Pools[i] = v1alpha1.PoolStatus{Name: pool.Name, Prototype: pool.Prototype, Donor: pool.Donor}
	}
}

// reapply applies the definitions again, as docs/tasks/upgrade.md does, or those of a version without a pool's status.
func (s *testEnv) reapply(whole bool) {
	s.Helper()
	all, err := apitest.Definitions()
	s.must(err)
	scheme := runtime.NewScheme()
	s.must(apiextensionsv1.AddToScheme(scheme))
	c, err := client.New(apitest.Server(s.T), client.Options{Scheme: scheme})
	s.must(err)
	for _, crd := range all {
		if !whole && crd.Spec.Names.Kind == "PrototypePolicy" {
			status := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
			delete(status.Properties, "pools")
		}
		crd.APIVersion, crd.Kind = apiextensionsv1.SchemeGroupVersion.String(), "CustomResourceDefinition"
		crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
		s.must(c.Patch(s.Context(), crd, client.Apply, client.ForceOwnership, client.FieldOwner("helm"))) //nolint:staticcheck // typed
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // until the API server has the definition
		p := s.status("walk")
		before := p.DeepCopy()
		p.Status.Pools = []v1alpha1.PoolStatus{{Name: "probe", ID: "probe"}}
		s.must(s.client.Status().Patch(s.Context(), p, client.MergeFrom(before), client.DryRunAll))
		if (len(p.Status.Pools) > 0) == whole {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("the API server does not follow the definition, which is to be whole: %t; the status is %+v", whole, p.Status)
		}
	}
}

// walk changes the policy before every pass, also while captures run, and returns how the policy differs at the end from a new policy
// with the last spec under a new controller.
func (s *testEnv) walk(random *rand.Rand, restart func()) (difference string) {
	s.Helper()
	s.pool("one", 3, 3)
	s.pool("two", 3, 3)
	s.policy("walk", nil)
	restart()
	var events []string
	for step := range 25 {
		events = append(events, s.changeSpec(random))
		switch random.IntN(10) {
		case 0, 1:
			events = append(events, s.endOldest(random.IntN(2) == 0, step))
		case 2:
			restart()
			events = append(events, "a new controller")
		case 3:
			s.renew()
			events = append(events, "the policy is deleted and made again")
		case 4:
			s.decider.Read, s.decider.Client = older{s.client}, older{s.client}
			events = append(events, "an older controller")
		case 5:
			whole := random.IntN(2) == 0
			s.reapply(whole)
			events = append(events, fmt.Sprintf("the definitions are applied again, whole: %t", whole))
		}
		s.clock.Advance(time.Duration(1+random.IntN(10)) * time.Minute)
		s.runPass()
	}
	s.reapply(true)
	restart()
	s.settle()
	walked, active := s.outcome(), len(s.prototypes())
	s.renew()
	s.restart()
	s.settle()
	if fresh := s.outcome(); !slices.Equal(walked, fresh) || len(s.prototypes()) != active {
		return fmt.Sprintf("after the walk\n  %s\nand fresh\n  %s\n%s", strings.Join(walked, "\n  "), strings.Join(fresh, "\n  "), strings.Join(events, "\n"))
	}
	return ""
}

// TestWalksOverTheSpec walks by seeds. Each change works or is refused with its field.
func TestWalksOverTheSpec(t *testing.T) {
	walks := 40
	if testing.Short() {
		walks = 4
	}
	for seed := range memory.Schedules(t, walks) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newTestEnv(t)
			if difference := s.walk(rand.New(rand.NewPCG(seed, 35)), s.restart); difference != "" {
				t.Errorf("seed %d: %s", seed, difference)
			}
		})
	}
}

// firstSpecs is a reader that keeps the first spec of each policy.
type firstSpecs struct {
	client.Client
	specs map[types.UID]v1alpha1.PrototypePolicySpec
}

func (f firstSpecs) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := f.Client.List(ctx, list, options...)
	if policies, is := list.(*v1alpha1.PrototypePolicyList); is {
		for i := range policies.Items {
			p := &policies.Items[i]
			if _, known := f.specs[p.UID]; !known {
				f.specs[p.UID] = p.Spec
			}
			p.Spec = f.specs[p.UID]
		}
	}
	return err
}

// TestAControllerThatKeepsASpecIsCaught by some walk.
func TestAControllerThatKeepsASpecIsCaught(t *testing.T) {
	for seed := uint64(1); seed < 10; seed++ {
		s, specs := newTestEnv(t), map[types.UID]v1alpha1.PrototypePolicySpec{}
		if s.walk(rand.New(rand.NewPCG(seed, 35)), func() {
			s.restart()
			s.decider.Read = firstSpecs{s.client, specs}
		}) != "" {
			return
		}
	}
	t.Error("nine walks caught nothing")
}

// renew deletes the policy, and creates it again with its spec.
func (s *testEnv) renew() {
	s.Helper()
	p := s.status("walk")
	s.must(s.client.Delete(s.Context(), p))
	s.must(s.client.Create(s.Context(), &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "walk"}, Spec: p.Spec}))
}

// settle runs passes until no capture begins.
func (s *testEnv) settle() {
	s.Helper()
	for range 6 {
		s.clock.Advance(31 * time.Minute)
		s.runPass()
	}
	s.runPass()
}
