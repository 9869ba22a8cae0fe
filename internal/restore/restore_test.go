package restore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/restore/plan"
	"github.com/kamino-dev/kamino/internal/savedrecipe"
)

const (
	namespace = "kamino-system"
	version   = "2026.03.01"
	prototype = "pool1-2026.03.01"
	// secretData must not be in any output.
	secretData = "#cloud-config needle"
)

// stage is a pool whose recipe lost the bootstrap in a promotion. The promotion stored the bootstrap first.
type stage struct {
	*testing.T
	cloud   *memory.Cloud
	pool    cloud.PoolID
	secrets savedrecipe.Secrets
	kube    *fake.Clientset
	history history.History
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, cloud: memory.New(memory.Config{}), kube: fake.NewClientset()}
	s.secrets = savedrecipe.Secrets{Kube: s.kube, Namespace: namespace}
	s.pool = s.cloud.AddPool(memory.PoolSpec{Name: "pool1", Image: "generic", Bootstrap: []string{"customData", "extension cse"}})
	s.history = history.History{Pool: "pool1", PoolID: s.pool}
	s.lose(version, prototype)
	return s
}

// lose points the recipe at a version and stores the lost values.
func (s *stage) lose(version, prototype string) {
	s.Helper()
	s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: version})
	change, err := s.cloud.RecipeChange(s.Context(), cloud.ImageRef{Pool: s.pool, Version: version}, true)
	if err == nil {
		err = errors.Join(s.keep(version, prototype, change.Backup), s.cloud.SetRecipe(s.Context(), change))
	}
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) keep(version, prototype string, backup []byte) error {
	name, _, err := s.secrets.Look(s.Context(), prototype, backup, nil)
	if err != nil {
		return err
	}
	return s.secrets.Save(s.Context(), name, savedrecipe.Owner{Prototype: prototype, Pool: "pool1", PoolID: s.pool, Version: version}, backup, nil)
}

func (s *stage) look(provider cloud.Provider, w Wish) (Case, error) {
	return Look(s.Context(), provider, s.secrets, s.history, nil, w)
}

// shown returns the change as the decider sees the change.
func (s *stage) shown() cloud.RecipeChange {
	s.Helper()
	c, err := s.look(s.cloud, Wish{})
	if err != nil || len(c.Refusals) > 0 {
		s.Fatalf("%v, %+v", err, c.Refusals)
	}
	return c.Change
}

// recipe returns the recipe of the pool.
func (s *stage) recipe() string {
	s.Helper()
	p, err := s.cloud.Pool(s.Context(), s.pool)
	if err != nil {
		s.Fatal(err)
	}
	return fmt.Sprint(p.Recipe.Image, p.Recipe.Bootstrap)
}

const (
	restored = "generic[customData extension cse]"
	promoted = "memory:///pools/pool1/versions/2026.03.01[]"
)

func atOnce(context.Context, time.Duration) error { return nil }

// TestEverySingleCallLost: each call is lost, before and after the effect, as an error and as a crash. The next process
// completes the change, and the recipe is never half restored.
func TestEverySingleCallLost(t *testing.T) {
	for name, loss := range map[string]memory.Outcome{
		"refused": memory.FailBefore(cloud.Unavailable), "answer lost": memory.FailAfter(cloud.Unavailable),
		"conflict": memory.FailBefore(cloud.Conflict), "conflict after": memory.FailAfter(cloud.Conflict),
		"crash before": memory.CrashBefore(), "crash after": memory.CrashAfter(),
	} {
		t.Run(name, func(t *testing.T) {
			calls := 1
			for n := 0; n < calls; n++ {
				s := newStage(t)
				shown, seen := s.shown(), 0
				faulty := memory.NewFaulty(s.cloud, func(c memory.Call) memory.Outcome {
					if seen = max(seen, c.Index+1); c.Index == n {
						return loss
					}
					return memory.Pass()
				})
				done := false
				for pass := 0; pass < 10 && !done; pass++ {
					memory.RunUntilCrash(func() {
						r, err := (&Restoration{Cloud: faulty, Shown: shown}).Pass(t.Context())
						done = err == nil && r.Did == plan.Done
					})
					if is := s.recipe(); is != restored && is != promoted {
						t.Errorf("call %d: the recipe is %s", n, is)
					}
				}
				if !done || s.recipe() != restored {
					t.Errorf("call %d: done %t, the recipe is %s", n, done, s.recipe())
				}
				calls = max(calls, seen)
			}
			if calls < 3 {
				t.Errorf("%d calls were lost in turn", calls)
			}
		})
	}
}

// TestTwoAtOnce: the passes of two processes come in any order. Both succeed with one write, or with two writes if both
// read first.
func TestTwoAtOnce(t *testing.T) {
	for order := range 1 << 6 {
		s := newStage(t)
		shown := s.shown()
		both := [2]*Restoration{{Cloud: s.cloud, Shown: shown}, {Cloud: s.cloud, Shown: shown}}
		for n := range 6 {
			if r, err := both[order>>n&1].Pass(t.Context()); err != nil || n > 0 && r.Did != plan.Done {
				t.Fatalf("order %06b, pass %d: %+v, %v", order, n, r, err)
			}
		}
		if s.recipe() != restored {
			t.Errorf("order %06b: %s", order, s.recipe())
		}
	}
	// One process writes between the read and the write of the other.
	s := newStage(t)
	shown := s.shown()
	between := memory.NewFaulty(s.cloud, func(c memory.Call) memory.Outcome {
		if c.Op == "SetRecipe" {
			if err := (&Restoration{Cloud: s.cloud, Shown: shown}).Run(t.Context(), atOnce); err != nil {
				t.Error(err)
			}
		}
		return memory.Pass()
	})
	if err := (&Restoration{Cloud: between, Shown: shown}).Run(t.Context(), atOnce); err != nil || s.recipe() != restored {
		t.Errorf("%v, the recipe is %s", err, s.recipe())
	}
}

// TestMeanwhile tests changes of the pool by another client between the plan and the write.
func TestMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(*stage)
		conflicts int
		kind      cloud.Kind
		changed   bool
		writes    int
		want      string
	}{
		"nobody is in the way":                 {writes: 1, want: restored},
		"somebody changes the size":            {conflicts: maxAttempts - 1, writes: maxAttempts, want: restored},
		"somebody changes it each time":        {conflicts: 100, kind: cloud.Conflict, writes: maxAttempts, want: promoted},
		"somebody points it elsewhere":         {meanwhile: func(s *stage) { s.cloud.ChangeRecipe(s.pool, "theirs") }, changed: true, want: "theirs[]"},
		"somebody adds what runs before it":    {meanwhile: func(s *stage) { s.cloud.ChangeRecipe(s.pool, string(s.pool)+"/versions/"+version, "extension x") }, changed: true, want: strings.TrimSuffix(promoted, "]") + "extension x]"},
		"somebody restored it":                 {meanwhile: func(s *stage) { s.cloud.ChangeRecipe(s.pool, "generic", "customData", "extension cse") }, want: restored},
		"a write of it would roll by now":      {meanwhile: func(s *stage) { s.cloud.SetUpgrades(s.pool, true) }, kind: cloud.Refused, writes: 1, want: promoted},
		"the permission was taken away by now": {meanwhile: func(s *stage) { s.cloud.Forbid("SetRecipe") }, kind: cloud.Denied, writes: 1, want: promoted},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			shown, writes, pauses := s.shown(), 0, 0
			if test.meanwhile != nil {
				test.meanwhile(s)
			}
			faulty := memory.NewFaulty(s.cloud, func(c memory.Call) memory.Outcome {
				if c.Op != "SetRecipe" {
					return memory.Pass()
				}
				if writes++; writes <= test.conflicts {
					return memory.FailBefore(cloud.Conflict)
				}
				return memory.Pass()
			})
			err := (&Restoration{Cloud: faulty, Shown: shown}).Run(t.Context(), func(_ context.Context, d time.Duration) error {
				if d > 0 {
					pauses++
				}
				return nil
			})
			if test.kind != "" && !cloud.Is(err, test.kind) || errors.Is(err, ErrChanged) != test.changed || (err == nil) != (test.kind == "" && !test.changed) {
				t.Errorf("%v", err)
			}
			if writes != test.writes || s.recipe() != test.want || pauses != min(test.conflicts, maxAttempts-1) {
				t.Errorf("%d writes, %d pauses, the recipe is %s", writes, pauses, s.recipe())
			}
		})
	}
}

// deaf accepts every change of a recipe and changes nothing.
type deaf struct{ *memory.Cloud }

func (deaf) SetRecipe(context.Context, cloud.RecipeChange) error { return nil }

func TestWhatIsNotShownEnds(t *testing.T) {
	s := newStage(t)
	err := (&Restoration{Cloud: deaf{s.cloud}, Shown: s.shown()}).Run(t.Context(), atOnce)
	if err == nil || !strings.Contains(err.Error(), "is not visible") {
		t.Errorf("%v", err)
	}
	stop := errors.New("stop")
	if err := (&Restoration{Cloud: s.cloud, Shown: s.shown()}).Run(t.Context(), func(context.Context, time.Duration) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a pause that ends: %v", err)
	}
	if _, err := (&Restoration{Cloud: s.cloud, Shown: cloud.RecipeChange{Pool: s.pool}}).Pass(t.Context()); err == nil {
		t.Error("a change that restores nothing is carried out")
	}
}

// TestPick: the latest saved recipe counts unless one is named. A doubtful recipe is not restored.
func TestPick(t *testing.T) {
	kept := func(secret, prototype, version, doubt string) savedrecipe.Found {
		return savedrecipe.Found{Secret: secret, Owner: savedrecipe.Owner{Prototype: prototype, Version: version}, Doubt: doubt}
	}
	all := []savedrecipe.Found{
		kept("c-recipe", "c", "2026.03.03", ""), kept("b-recipe", "b", "", ""), kept("a-recipe", "a", "2026.03.01", "the Secret is not immutable"), kept("a-recipe-2", "a", "2026.03.01", ""),
	}
	for name, test := range map[string]struct {
		all       []savedrecipe.Found
		wish      Wish
		want, why string
	}{
		"the latest":               {all, Wish{}, "c-recipe", ""},
		"by its prototype":         {all, Wish{Prototype: "b"}, "b-recipe", ""},
		"by its version":           {all, Wish{Version: "2026.03.03"}, "c-recipe", ""},
		"by its version, sloppily": {all, Wish{Version: "2026.3.3"}, "c-recipe", ""},
		"the first is in doubt":    {all, Wish{Prototype: "a"}, "", "secret kamino-system/a-recipe does not match the saved recipe, and nothing was changed: the Secret is not immutable"},
		"no such prototype":        {all, Wish{Prototype: "z"}, "", "for z, and nothing was changed: saved recipes are c-recipe, b-recipe, a-recipe, a-recipe-2"},
		"no such version":          {all, Wish{Version: "2026.04.01"}, "", "for 2026.04.01"},
		"of another version":       {all, Wish{Prototype: "c", Version: "2026.03.01"}, "", "no saved recipe"},
		"nothing is kept":          {nil, Wish{}, "", "no saved recipe of pool pool1 in namespace kamino-system"},
	} {
		got, err := pick("pool1", namespace, test.all, test.wish)
		var refused *cluster.Refused
		if got.Secret != test.want || errors.As(err, &refused) != (test.why != "") || err != nil && !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s: %q, %v", name, got.Secret, err)
		}
	}
}

// TestLook: Look returns the values to restore and the obstacles, and changes nothing.
func TestLook(t *testing.T) {
	s := newStage(t)
	s.cloud.ChangeRecipe(s.pool, "generic", "extension late")
	s.lose("2026.03.05", "pool1-2026.03.05")
	for _, secret := range []*corev1.Secret{{
		ObjectMeta: metav1.ObjectMeta{Name: "ours", Namespace: namespace},
		Data:       map[string][]byte{"customData": []byte(secretData), "protectedSettings": []byte("{}"), "mine": []byte("{}")},
	}} {
		if err := s.kube.Tracker().Add(secret); err != nil {
			t.Fatal(err)
		}
	}
	before := s.recipe()
	for name, test := range map[string]struct {
		wish Wish
		why  string
	}{
		"the earlier one":       {Wish{Version: version}, ""},
		"with what is given":    {Wish{Version: version, CustomData: "ours", Protected: map[string]string{"cse": "ours/mine", "other": "ours"}}, ""},
		"from no Secret":        {Wish{Version: version, CustomData: "absent"}, "Secret kamino-system/absent not found"},
		"from no key":           {Wish{Version: version, CustomData: "ours/absent"}, "key absent not found in Secret kamino-system/ours"},
		"settings from nowhere": {Wish{Version: version, Protected: map[string]string{"cse": "absent"}}, "Secret kamino-system/absent not found"},
		"of nothing":            {Wish{Prototype: "elsewhere"}, "no saved recipe"},
	} {
		c, err := s.look(s.cloud, test.wish)
		var refused *cluster.Refused
		switch {
		case errors.As(err, &refused) != (test.why != ""), err != nil && !strings.Contains(err.Error(), test.why):
			t.Errorf("%s: %v", name, err)
		case err == nil && (c.Kept.Prototype != prototype || len(c.Others) != 1 || c.Change.To != "generic" || c.Change.Done || len(c.Refusals) > 0):
			t.Errorf("%s: %+v", name, c)
		case strings.Contains(fmt.Sprint(c.Change.Adds, c.Refusals), "needle"):
			t.Errorf("%s: what is given is shown: %+v", name, c.Change.Adds)
		}
	}
	if s.recipe() != before {
		t.Errorf("a look changed the recipe: %s", s.recipe())
	}
	s.history.Captures = []history.Capture{{Prototype: "p", Version: "2026.03.06"}}
	if c, err := s.look(s.cloud, Wish{}); err != nil || len(c.Refusals) == 0 {
		t.Errorf("a capture is in flight: %v, %+v", err, c.Refusals)
	}
}

// TestTheAPIServerIsAway: an unreadable Secret is an error, not an absent Secret.
func TestTheAPIServerIsAway(t *testing.T) {
	for _, verb := range []string{"list", "get"} {
		s := newStage(t)
		s.kube.PrependReactor(verb, "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewServiceUnavailable("away")
		})
		if _, err := s.look(s.cloud, Wish{CustomData: "ours"}); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// TestWhatNobodyHas: without a copy, the restore is refused with a remedy, unless the value is left out or given.
func TestWhatNobodyHas(t *testing.T) {
	s := &stage{T: t, cloud: memory.New(memory.Config{}), kube: fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "ours", Namespace: namespace}, Data: map[string][]byte{"customData": []byte(secretData)},
	})}
	s.secrets = savedrecipe.Secrets{Kube: s.kube, Namespace: namespace}
	s.pool = s.cloud.AddPool(memory.PoolSpec{Name: "pool1", Image: "generic", Bootstrap: []string{"customData"}, Unreadable: []string{"customData"}})
	s.history = history.History{Pool: "pool1", PoolID: s.pool}
	s.lose(version, prototype)
	for name, test := range map[string]struct {
		wish Wish
		want string
		adds int
	}{
		"nobody gives it":   {Wish{}, plan.PartMissing, 0},
		"somebody gives it": {Wish{CustomData: "ours"}, "", 1},
		"it is left out":    {Wish{Incomplete: true}, "", 0},
	} {
		c, err := s.look(s.cloud, test.wish)
		reason := ""
		for _, r := range c.Refusals {
			reason += r.Reason
		}
		if err != nil || reason != test.want || len(c.Change.Adds) != test.adds {
			t.Errorf("%s: %v, refused by %q, adds %+v", name, err, reason, c.Change.Adds)
		}
	}
}
