package capture

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestGrowthAfterAPromotionByHand loses each call after a person's promotion once. The pool grows by one node.
func TestGrowthAfterAPromotionByHand(t *testing.T) {
	begin := func() *trialEnv {
		return published(t, func(p *v1alpha1.Prototype) {
			p.Spec.Settings.Trial.Mode, p.Spec.Settings.Promotion.Mode = v1alpha1.TrialOff, v1alpha1.PromotionManual
			p.Spec.Settings.Recipe.NewNodes = 1
		})
	}
	play := func(v *trialEnv, lose func(i int, what string) memory.Outcome) (first int, p *v1alpha1.Prototype) {
		waited := 0
		p = v.run(func(int) {
			if v.prototype().Status.Phase == v1alpha1.PhaseAwaitingPromotion {
				if waited++; waited == 3 {
					v.promoteByHand()
					first = len(v.calls)
					v.lose = func(n int, what string) memory.Outcome { return lose(n-first, what) }
				}
			}
		})
		return first, p
	}
	whole := begin()
	size := whole.cloud.World().Pools[0].Capacity
	first, _ := play(whole, func(int, string) memory.Outcome { return memory.Pass() })
	if got := whole.cloud.World().Pools[0].Capacity; got != size+1 {
		t.Fatalf("without a loss: %d nodes, want %d", got, size+1)
	}
	for n := range len(whole.calls) - first {
		for _, loss := range losses {
			v := begin()
			lost := ""
			_, p := play(v, func(i int, what string) memory.Outcome {
				if i != n {
					return memory.Pass()
				}
				lost = what
				return loss.outcome
			})
			if got := v.cloud.World().Pools[0].Capacity; got != size+1 {
				t.Errorf("call %d (%s) lost (%s): %s, and the pool has %d nodes, want %d", n, lost, loss.name, verdict(p), got, size+1)
			}
		}
	}
}

// TestSizeOfAnOldAttempt: SetRecipe is denied, the autoscaler changes the pool meanwhile, and the permission comes. The pool
// grows by newNodes.
func TestSizeOfAnOldAttempt(t *testing.T) {
	for _, change := range []int64{-4, 3} {
		t.Run(fmt.Sprint(change), func(t *testing.T) {
			s := newTestEnv(t)
			pool, err := s.cloud.Pool(t.Context(), s.pool)
			s.must(err)
			s.must(s.cloud.SetCapacity(t.Context(), s.pool, pool.Capacity, 6))
			s.decide(func(p *v1alpha1.Prototype) { p.Spec.Settings.Recipe.NewNodes = 1 })
			denied, then := 0, int64(0)
			s.lose = func(_ int, what string) memory.Outcome {
				if strings.HasPrefix(what, "SetRecipe ") && denied < 3 {
					denied++
					return memory.FailBefore(cloud.Denied)
				}
				return memory.Pass()
			}
			p := s.play(func(int) {
				if denied != 2 || then != 0 {
					return
				}
				if change > 0 {
					s.must(s.cloud.SetCapacity(t.Context(), s.pool, 6, 6+change))
				}
				for i, m := range s.cloud.World().Instances {
					if m.ID != s.donor && m.ID != s.peer && i > 0 && change < 0 && s.cloud.World().Pools[0].Capacity > 6+change {
						s.cloud.RemoveInstance(m.ID)
					}
				}
				then = s.cloud.World().Pools[0].Capacity
			})
			if got := s.cloud.World().Pools[0].Capacity; got != then+1 {
				t.Errorf("%s: at the promotion the pool had %d nodes, and has %d, want %d", verdict(p), then, got, then+1)
			}
		})
	}
}

// TestPromotedWhilePublishing: a person promotes the version as soon as it is complete.
func TestPromotedBeforeTheWait(t *testing.T) {
	for _, mode := range []v1alpha1.PromotionMode{v1alpha1.PromotionManual, ""} {
		t.Run("mode "+string(mode), func(t *testing.T) {
			s := newTestEnv(t).decide(func(p *v1alpha1.Prototype) {
				p.Spec.Settings.Recipe.NewNodes, p.Spec.Settings.Promotion.Mode = 1, mode
			})
			size, done := s.cloud.World().Pools[0].Capacity, v1alpha1.Phase("")
			p := s.play(func(int) {
				p := s.prototype()
				image, err := s.cloud.Image(t.Context(), s.ref(p))
				s.must(err)
				if done == "" && image.State == cloud.Complete {
					change, err := s.cloud.RecipeChange(t.Context(), s.ref(p), true)
					s.must(err)
					s.must(s.cloud.SetRecipe(t.Context(), change))
					done = p.Status.Phase
				}
			})
			if got := s.cloud.World().Pools[0].Capacity; got != size+1 {
				t.Errorf("%s: promoted in phase %s, the pool has %d nodes, want %d", verdict(p), done, got, size+1)
			}
		})
	}
}

// TestPoolAndTrialGone: the pool is deleted with its trial while the trial runs. The capture ends.
func TestPoolAndTrialGone(t *testing.T) {
	v := trying(t)
	deleted := false
	v.play(func(int) {
		p := v.prototype()
		record, _ := v1alpha1.RecordOf(p)
		if !deleted && record.Trial != nil && record.Trial.RunningSince != nil {
			spec, err := v.cloud.Trials(t.Context(), v.pool)
			v.must(err)
			for _, s := range spec {
				_, err := v.cloud.EndTrial(t.Context(), s)
				v.must(err)
			}
			v.clock.Advance(time.Minute)
			v.cloud.Settle()
			v.cloud.DeletePool(v.pool)
			deleted = true
		}
	})
	if !deleted {
		t.Fatal("no trial ran")
	}
}

// TestFailedUntouched: a drain fails, so the donor was never touched, and the cloud denies reads of versions and snapshots from
// then on. The capture ends as before, and asks the cloud for nothing that it has not made.
func TestFailedUntouched(t *testing.T) {
	for _, kind := range []cloud.Kind{"", cloud.Denied, cloud.NotFound, cloud.Unavailable} {
		t.Run(string(kind), func(t *testing.T) {
			s := newTestEnv(t, func(s *testEnv) { s.blocked = 100000 }).decide()
			var asked []string
			s.lose = func(_ int, what string) memory.Outcome {
				p := s.prototype()
				if p != nil && p.Status.Failure != nil && (strings.HasPrefix(what, "Image ") || strings.HasPrefix(what, "Snapshot ")) {
					asked = append(asked, what)
					if kind != "" {
						return memory.FailBefore(kind)
					}
				}
				return memory.Pass()
			}
			done := false
			for range 300 {
				var result Result
				memory.RunUntilCrash(func() { result, _ = s.engine.Pass(t.Context(), s.name) })
				if done = result.Done; done {
					break
				}
				s.tick(max(result.After, 4*time.Second))
			}
			p := s.prototype()
			record, _ := v1alpha1.RecordOf(p)
			if p.Status.Failure == nil || record.GeneralizeBootID != "" {
				t.Fatalf("not an untouched failure: %s", verdict(p))
			}
			if !done || len(asked) > 0 {
				t.Errorf("ended: %t, phase %s, %s; after the failure it asked %d times: %v", done, p.Status.Phase, p.Status.Failure.Reason, len(asked), asked[:min(len(asked), 4)])
			}
		})
	}
}

// TestStaleFirstAnswer: the cloud answers 404 once for the protection and the list of the pool. Twenty minutes later it answers
// 404 for the pool and its list for ten seconds. The pool exists all the time, so the capture succeeds.
func TestStaleFirstAnswer(t *testing.T) {
	s := newTestEnv(t).decide()
	first, began := 0, time.Time{}
	s.wrapped = cloud.Intercept(s.wrapped, func(ctx context.Context, made cloud.Op, call func(context.Context) error) error {
		p := s.prototype()
		record, _ := v1alpha1.RecordOf(p)
		missing := &cloud.Error{Kind: cloud.NotFound, Op: made.Name, Resource: made.Resource}
		switch {
		case made.Name == "Protection" && record.Reservation != nil && first == 0, made.Name == "Instances" && first == 1:
			first++
			return missing
		case made.Name == "Pool" && first == 2 && began.IsZero() && p.Status.Phase == v1alpha1.PhasePublishing && record.Reservation == nil:
			began = s.clock.Now()
		}
		if (made.Name == "Pool" || made.Name == "Instances") && !began.IsZero() && s.clock.Now().Sub(began) < 10*time.Second {
			return missing
		}
		return call(ctx)
	})
	s.restart()
	waited := false
	p := s.play(func(int) {
		if p := s.prototype(); first == 2 && !waited && p.Status.Phase == v1alpha1.PhasePublishing {
			waited = true
			s.clock.Advance(20 * time.Minute)
		}
	})
	if first != 2 || began.IsZero() {
		t.Fatalf("answers: %d, %s; %s", first, began, verdict(p))
	}
	s.succeeded(p)
}
