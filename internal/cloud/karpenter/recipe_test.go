package karpenter

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// changeTo plans the change to a version.
func (e *testEnv) changeTo(version string) cloud.RecipeChange {
	e.Helper()
	change, err := e.RecipeChange(e.Context(), cloud.Target{Pool: e.id, Version: version, Image: region + "/" + version}, false)
	e.must(err)
	return change
}

// refused reports whether the refusals have a reason.
func refused(all []cloud.Refusal, reason string) *cloud.Refusal {
	for i := range all {
		if all[i].Reason == reason {
			return &all[i]
		}
	}
	return nil
}

// TestPromotion: without the guard nothing is written. The printed patch is enough. A restoration returns the class exactly.
func TestPromotion(t *testing.T) {
	e := newTestEnv(t, unguards)
	before := e.now()
	change := e.changeTo("v1")
	guard := refused(change.Refusals, cloud.NodesWouldBeReplaced)
	if guard == nil || change.From != stock || change.Done {
		t.Fatalf("the change without a guard is %+v", change)
	}
	if err := e.SetRecipe(t.Context(), change); !cloud.Is(err, cloud.Refused) {
		t.Errorf("SetRecipe without a guard: %v", err)
	}
	if now := e.now(); now.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("a refused promotion wrote the class: %s", cmp.Diff(before, now))
	}
	// The command of the message, as a person runs it.
	command := strings.SplitN(guard.Remedy[strings.Index(guard.Remedy, "kubectl patch nodepool "):], "'", 3)
	e.merge(pools, strings.Fields(command[0])[3], command[1])

	change = e.changeTo("v1")
	if len(change.Refusals) > 0 {
		t.Fatalf("with the guard: %+v", change.Refusals)
	}
	e.must(e.SetRecipe(t.Context(), change))
	want := map[string]any{}
	for key, value := range before.Object["spec"].(map[string]any) {
		want[key] = value
	}
	want["amiSelectorTerms"], want["amiFamily"] = []any{map[string]any{"id": "ami-" + digest("v1")}}, "AL2023"
	if diff := cmp.Diff(want, e.spec()); diff != "" {
		t.Errorf("the class after the promotion (-want +have):\n%s", diff)
	}
	if after := e.changeTo("v1"); !after.Done || after.From != region+"/v1" {
		t.Errorf("after the promotion: %+v", after)
	}

	restore, err := e.RestoreChange(t.Context(), e.id, cloud.Saved{Backup: change.Backup})
	e.must(err)
	if restore.Done || restore.To != stock {
		t.Errorf("the restoration is %+v", restore)
	}
	e.must(e.SetRecipe(t.Context(), restore))
	if diff := cmp.Diff(before.Object["spec"], e.spec()); diff != "" {
		t.Errorf("the class after the restoration (-want +have):\n%s", diff)
	}
	if restore, err = e.RestoreChange(t.Context(), e.id, cloud.Saved{Backup: change.Backup}); err != nil || !restore.Done {
		t.Errorf("after the restoration: %+v, %v", restore, err)
	}
	if _, left := e.now().GetAnnotations()[annotationUnverified]; left {
		t.Error("the mark is left")
	}
}

// TestGuardGoneBetweenTheWrites: the guard disappears after Kamino's look and before the next. Kamino takes its write back.
func TestGuardGoneBetweenTheWrites(t *testing.T) {
	e := newTestEnv(t, guarded)
	before, change, writes := e.spec(), e.changeTo("v1"), 0
	e.around = func(do func() (*http.Response, error)) (*http.Response, error) {
		if writes++; writes == 1 {
			e.merge(pools, e.class+"-free", `{"spec":{"disruption":{"budgets":[{"nodes":"10%"}]}}}`)
		}
		return do()
	}
	err := e.SetRecipe(t.Context(), change)
	if !cloud.Is(err, cloud.Refused) || !strings.Contains(err.Error(), "Kamino wrote the former image again") {
		t.Errorf("SetRecipe: %v", err)
	}
	if diff := cmp.Diff(before, e.spec()); diff != "" || writes != 2 {
		t.Errorf("%d writes, and the class differs (-want +have):\n%s", writes, diff)
	}
	if _, left := e.now().GetAnnotations()[annotationUnverified]; left {
		t.Error("the mark is left")
	}
}

// TestKilledBetweenTheWrites: a process ends after its write. The next one finishes the promotion, or takes it back without the guard.
func TestKilledBetweenTheWrites(t *testing.T) {
	for name, guard := range map[string]bool{"guarded": true, "unguarded": false} {
		t.Run(name, func(t *testing.T) {
			e := newTestEnv(t, guarded)
			before, change := e.spec(), e.changeTo("v1")
			killed := errors.New("killed")
			e.around = func(do func() (*http.Response, error)) (*http.Response, error) {
				e.around = func(func() (*http.Response, error)) (*http.Response, error) { return nil, killed }
				return do()
			}
			if err := e.SetRecipe(t.Context(), change); !errors.Is(err, killed) {
				t.Fatalf("SetRecipe of the killed process: %v", err)
			}
			e.around = nil
			if !guard {
				e.merge(pools, e.class+"-free", `{"spec":{"disruption":{"budgets":[{"nodes":"10%"}]}}}`)
			}
			next := e.changeTo("v1")
			if next.Done || len(next.Refusals) > 0 {
				t.Fatalf("the next process would not call SetRecipe: %+v", next)
			}
			err := e.SetRecipe(t.Context(), next)
			if guard {
				e.must(err)
				if !e.changeTo("v1").Done {
					t.Error("the promotion is not done")
				}
				return
			}
			if diff := cmp.Diff(before, e.spec()); !cloud.Is(err, cloud.Refused) || diff != "" {
				t.Errorf("SetRecipe: %v, and the class differs (-want +have):\n%s", err, diff)
			}
		})
	}
}

// TestOtherWriter: Kamino overwrites no image that another client has set since the plan.
func TestOtherWriter(t *testing.T) {
	e := newTestEnv(t, guarded)
	change := e.changeTo("v1")
	e.merge(classes, e.class, `{"spec":{"amiFamily":"AL2023","amiSelectorTerms":[{"id":"ami-ffffffffffffffff0"}]}}`)
	before := e.now()
	if err := e.SetRecipe(t.Context(), change); !cloud.Is(err, cloud.Conflict) {
		t.Errorf("SetRecipe: %v", err)
	}
	if now := e.now(); now.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("Kamino wrote the class: %s", cmp.Diff(before, now))
	}
}

// TestParameter: a class that reads its image from a parameter is never written, and the owner gets a command.
func TestParameter(t *testing.T) {
	e := newTestEnv(t, guarded)
	e.merge(classes, e.class, `{"spec":{"amiFamily":"AL2023","amiSelectorTerms":[{"ssmParameter":"/kamino/general"}]}}`)
	pool, err := e.Pool(t.Context(), e.id)
	e.must(err)
	change := e.changeTo("v1")
	const command = "aws ssm put-parameter --overwrite --name /kamino/general --value ami-"
	if pool.Owner != "parameter /kamino/general" || !strings.Contains(change.HandOver, command+digest("v1")) {
		t.Errorf("owner %q, hand-over %q", pool.Owner, change.HandOver)
	}
	before := e.now()
	if err := e.SetRecipe(t.Context(), change); !cloud.Is(err, cloud.Refused) || e.now().GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("SetRecipe: %v", err)
	}
}
