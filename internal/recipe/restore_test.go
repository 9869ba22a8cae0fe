package recipe

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
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

const (
	namespace = "kamino-system"
	version   = bad
	prototype = "pool1-" + bad
	// secretData must not be in any output.
	secretData = "#cloud-config needle"
)

// restoreEnv is a pool whose recipe lost the bootstrap in a promotion. The promotion stored the bootstrap first.
type restoreEnv struct {
	*testing.T
	cloud   *memory.Cloud
	pool    cloud.PoolID
	secrets Secrets
	kube    *fake.Clientset
	history history.History
}

func newRestoring(t *testing.T) *restoreEnv {
	t.Helper()
	s := &restoreEnv{T: t, cloud: memory.New(memory.Config{}), kube: fake.NewClientset()}
	s.secrets = Secrets{Kube: s.kube, Namespace: namespace}
	s.pool = s.cloud.AddPool(memory.PoolSpec{Name: "pool1", Image: "generic", Bootstrap: []string{"customData", "extension cse"}})
	s.history = history.History{Pool: "pool1", PoolID: s.pool}
	s.lose(version, prototype)
	return s
}

// lose points the recipe at a version and stores the lost values.
func (s *restoreEnv) lose(version, prototype string) {
	s.Helper()
	s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: version})
	change, err := s.cloud.RecipeChange(s.Context(), cloud.ImageRef{Pool: s.pool, Version: version}, true)
	if err == nil {
		err = errors.Join(s.saveRecipe(version, prototype, change.Backup), s.cloud.SetRecipe(s.Context(), change))
	}
	if err != nil {
		s.Fatal(err)
	}
}

func (s *restoreEnv) saveRecipe(version, prototype string, backup []byte) error {
	name, _, err := s.secrets.Lookup(s.Context(), prototype, backup, nil)
	if err != nil {
		return err
	}
	return s.secrets.Save(s.Context(), name, Owner{Prototype: prototype, Pool: "pool1", PoolID: s.pool, Version: version}, backup, nil)
}

func (s *restoreEnv) planRestore(provider Cloud, w RestoreRequest) (Restoration, error) {
	return PlanRestoration(s.Context(), provider, s.secrets, s.history, nil, w)
}

// shown returns the change as the decider sees the change.
func (s *restoreEnv) shown() cloud.RecipeChange {
	s.Helper()
	c, err := s.planRestore(s.cloud, RestoreRequest{})
	if err != nil || len(c.Refusals) > 0 {
		s.Fatalf("%v, %+v", err, c.Refusals)
	}
	return c.Change
}

// recipe returns the recipe of the pool.
func (s *restoreEnv) recipe() string {
	s.Helper()
	p, err := s.cloud.Pool(s.Context(), s.pool)
	if err != nil {
		s.Fatal(err)
	}
	return fmt.Sprint(p.Recipe.Image, p.Recipe.Bootstrap)
}

func atOnce(context.Context, time.Duration) error { return nil }

// TestTwoRestore: two processes restore the recipe, and one writes between the read and the write of the other. Both succeed.
func TestTwoRestore(t *testing.T) {
	s := newRestoring(t)
	shown := s.shown()
	between := memory.NewFaulty(s.cloud, func(c memory.Call) memory.Outcome {
		if c.Op == "SetRecipe" {
			if _, err := OfRestoration(shown, s.cloud, "pool1").Run(t.Context(), atOnce); err != nil {
				t.Error(err)
			}
		}
		return memory.Pass()
	})
	if _, err := OfRestoration(shown, between, "pool1").Run(t.Context(), atOnce); err != nil || s.recipe() != restored {
		t.Errorf("%v, the recipe is %s", err, s.recipe())
	}
}

// TestMeanwhile tests changes of the pool by another client between the plan and the write.
func TestMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(*restoreEnv)
		conflicts int
		kind      cloud.Kind
		changed   bool
		writes    int
		want      string
	}{
		"no other client":                     {writes: 1, want: restored},
		"another client changes the size":     {conflicts: 3, writes: 4, want: restored},
		"another client changes it each time": {conflicts: 100, kind: cloud.Conflict, writes: maxAttempts, want: promoted},
		"another client points it elsewhere":  {meanwhile: func(s *restoreEnv) { s.cloud.ChangeRecipe(s.pool, "theirs") }, changed: true, want: "theirs[]"},
		"another client adds an extension": {meanwhile: func(s *restoreEnv) {
			s.cloud.ChangeRecipe(s.pool, string(s.pool)+"/versions/"+version, "extension x")
		}, changed: true, want: strings.TrimSuffix(promoted, "]") + "extension x]"},
		"another client restored it": {meanwhile: func(s *restoreEnv) {
			s.cloud.ChangeRecipe(s.pool, "generic", "customData", "extension cse")
		}, want: restored},
		"a write of it would roll by now": {meanwhile: func(s *restoreEnv) { s.cloud.SetUpgrades(s.pool, true) }, kind: cloud.Refused,
			writes: 1, want: promoted},
		"the permission was taken away by now": {meanwhile: func(s *restoreEnv) { s.cloud.Forbid("SetRecipe") }, kind: cloud.Denied, writes: 1, want: promoted},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRestoring(t)
			shown, writes := s.shown(), 0
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
			_, err := OfRestoration(shown, faulty, "pool1").Run(t.Context(), atOnce)
			if test.kind != "" && !cloud.Is(err, test.kind) || errors.Is(err, ErrElsewhere) != test.changed ||
				(err == nil) != (test.kind == "" && !test.changed) {
				t.Errorf("%v", err)
			}
			if writes != test.writes || s.recipe() != test.want {
				t.Errorf("%d writes, the recipe is %s", writes, s.recipe())
			}
		})
	}
}

// TestPick: the latest saved recipe counts unless one is named. A doubtful recipe is not restored.
func TestPick(t *testing.T) {
	kept := func(secret, prototype, version, doubt string) SavedPart {
		return SavedPart{Secret: secret, Owner: Owner{Prototype: prototype, Version: version}, Doubt: doubt}
	}
	all := []SavedPart{
		kept("c-recipe", "c", "2026.03.03", ""), kept("b-recipe", "b", "", ""),
		kept("a-recipe", "a", "2026.03.01", "the Secret is not immutable"), kept("a-recipe-2", "a", "2026.03.01", ""),
	}
	for name, test := range map[string]struct {
		all       []SavedPart
		wish      RestoreRequest
		want, why string
	}{
		"the latest":               {all, RestoreRequest{}, "c-recipe", ""},
		"by its prototype":         {all, RestoreRequest{Prototype: "b"}, "b-recipe", ""},
		"by its version":           {all, RestoreRequest{Version: "2026.03.03"}, "c-recipe", ""},
		"by its version, sloppily": {all, RestoreRequest{Version: "2026.3.3"}, "c-recipe", ""},
		"the first is in doubt": {all, RestoreRequest{Prototype: "a"}, "",
			"secret kamino-system/a-recipe does not match the saved recipe, and nothing was changed: the Secret is not immutable"},
		"no such prototype": {all, RestoreRequest{Prototype: "z"}, "",
			"for z, and nothing was changed: saved recipes are c-recipe, b-recipe, a-recipe, a-recipe-2"},
		"no such version":    {all, RestoreRequest{Version: "2026.04.01"}, "", "for 2026.04.01"},
		"of another version": {all, RestoreRequest{Prototype: "c", Version: "2026.03.01"}, "", "no saved recipe"},
		"nothing is kept":    {nil, RestoreRequest{}, "", "no saved recipe of pool pool1 in namespace kamino-system"},
	} {
		got, err := pick("pool1", namespace, test.all, test.wish)
		var refused *cluster.Refused
		if got.Secret != test.want || errors.As(err, &refused) != (test.why != "") || err != nil && !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s: %q, %v", name, got.Secret, err)
		}
	}
}

// TestLookup: Lookup returns the values to restore and the obstacles, and changes nothing.
func TestLookup(t *testing.T) {
	s := newRestoring(t)
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
		wish RestoreRequest
		why  string
	}{
		"the earlier one":       {RestoreRequest{Version: version}, ""},
		"with what is given":    {RestoreRequest{Version: version, CustomData: "ours", Protected: map[string]string{"cse": "ours/mine", "other": "ours"}}, ""},
		"from no Secret":        {RestoreRequest{Version: version, CustomData: "absent"}, "Secret kamino-system/absent not found"},
		"from no key":           {RestoreRequest{Version: version, CustomData: "ours/absent"}, "key absent not found in Secret kamino-system/ours"},
		"settings from nowhere": {RestoreRequest{Version: version, Protected: map[string]string{"cse": "absent"}}, "Secret kamino-system/absent not found"},
		"of nothing":            {RestoreRequest{Prototype: "elsewhere"}, "no saved recipe"},
	} {
		c, err := s.planRestore(s.cloud, test.wish)
		var refused *cluster.Refused
		switch {
		case errors.As(err, &refused) != (test.why != ""), err != nil && !strings.Contains(err.Error(), test.why):
			t.Errorf("%s: %v", name, err)
		case err == nil && (c.Saved.Prototype != prototype || len(c.Others) != 1 || c.Change.To != "generic" || c.Change.Done || len(c.Refusals) > 0):
			t.Errorf("%s: %+v", name, c)
		case strings.Contains(fmt.Sprint(c.Change.Adds, c.Refusals), "needle"):
			t.Errorf("%s: what is given is shown: %+v", name, c.Change.Adds)
		}
	}
	if s.recipe() != before {
		t.Errorf("a look changed the recipe: %s", s.recipe())
	}
	s.history.Captures = []history.Capture{{Prototype: "p", Version: "2026.03.06"}}
	if c, err := s.planRestore(s.cloud, RestoreRequest{}); err != nil || len(c.Refusals) == 0 {
		t.Errorf("a capture is in flight: %v, %+v", err, c.Refusals)
	}
}

// TestTheAPIServerIsAway: an unreadable Secret is an error, not an absent Secret.
func TestTheAPIServerIsAway(t *testing.T) {
	for _, verb := range []string{"list", "get"} {
		s := newRestoring(t)
		s.kube.PrependReactor(verb, "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewServiceUnavailable("away")
		})
		if _, err := s.planRestore(s.cloud, RestoreRequest{CustomData: "ours"}); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// TestRestoreWithoutCopyIsRefused: without a copy, the restore is refused with a remedy, unless the value is left out or given.
func TestRestoreWithoutCopyIsRefused(t *testing.T) {
	s := &restoreEnv{T: t, cloud: memory.New(memory.Config{}), kube: fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "ours", Namespace: namespace}, Data: map[string][]byte{"customData": []byte(secretData)},
	})}
	s.secrets = Secrets{Kube: s.kube, Namespace: namespace}
	s.pool = s.cloud.AddPool(memory.PoolSpec{Name: "pool1", Image: "generic", Bootstrap: []string{"customData"}, Unreadable: []string{"customData"}})
	s.history = history.History{Pool: "pool1", PoolID: s.pool}
	s.lose(version, prototype)
	for name, test := range map[string]struct {
		wish RestoreRequest
		want string
		adds int
	}{
		"not passed":     {RestoreRequest{}, PartMissing, 0},
		"passed":         {RestoreRequest{CustomData: "ours"}, "", 1},
		"it is left out": {RestoreRequest{Incomplete: true}, "", 0},
	} {
		c, err := s.planRestore(s.cloud, test.wish)
		reason := ""
		for _, r := range c.Refusals {
			reason += r.Reason
		}
		if err != nil || reason != test.want || len(c.Change.Adds) != test.adds {
			t.Errorf("%s: %v, refused by %q, adds %+v", name, err, reason, c.Change.Adds)
		}
	}
}
