package capture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// growsOnce lets a person promote the version as soon as a capture is ready for this, and loses each later call once. The pool
// grows by one node.
func growsOnce(t *testing.T, begin func() *trialEnv, isReady func(v *trialEnv) bool) {
	t.Helper()
	play := func(v *trialEnv, lose func(i int, what string) memory.Outcome) (first int, p *v1alpha1.Prototype) {
		p = v.run(func(int) {
			if first == 0 && isReady(v) {
				v.promoteByHand()
				first = len(v.calls)
				v.lose = func(n int, what string) memory.Outcome { return lose(n-first, what) }
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
			v, lost := begin(), ""
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

// TestGrowthAfterAPromotionByHand: the capture has waited for the person.
func TestGrowthAfterAPromotionByHand(t *testing.T) {
	waited := map[*trialEnv]int{}
	growsOnce(t, func() *trialEnv {
		return published(t, func(p *v1alpha1.Prototype) {
			p.Spec.Settings.Trial.Mode, p.Spec.Settings.Promotion.Mode = v1alpha1.TrialOff, v1alpha1.PromotionManual
			p.Spec.Settings.Recipe.NewNodes = 1
		})
	}, func(v *trialEnv) bool {
		if v.prototype().Status.Phase == v1alpha1.PhaseAwaitingPromotion {
			waited[v]++
		}
		return waited[v] == 3
	})
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

// TestPromotedBeforeTheWait: a person promotes the version as soon as it is complete.
func TestPromotedBeforeTheWait(t *testing.T) {
	for _, mode := range []v1alpha1.PromotionMode{v1alpha1.PromotionManual} {
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

// TestFailedUntouched: the donor was never touched, and the cloud denies reads of the version. The capture ends. It asks only after
// the loss of its donor, when the record may be older than the cloud.
func TestFailedUntouched(t *testing.T) {
	for name, isLost := range map[string]bool{"a drain that fails": false, "a donor that is gone": true} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t, func(s *testEnv) { s.blocked = 100000 }).decide()
			asked := 0
			s.lose = func(_ int, what string) memory.Outcome {
				if p := s.prototype(); p != nil && p.Status.Failure != nil && (strings.HasPrefix(what, "Image ") || strings.HasPrefix(what, "Snapshot ")) {
					asked++
					return memory.FailBefore(cloud.Denied)
				}
				return memory.Pass()
			}
			p := s.play(func(int) {
				if isLost && s.prototype().Status.Phase == v1alpha1.PhaseDraining {
					s.cloud.RemoveInstance(s.donor)
				}
			})
			if p.Status.Phase != v1alpha1.PhaseFailed || (asked > 0) != isLost {
				t.Errorf("%s, asked %d times", verdict(p), asked)
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

// TestRefusedUntouched: a capture is refused before its reservation, and the cloud denies, or cannot answer, reads of versions. The
// capture ends with its refusal, as the person must see it, and asks nothing.
func TestRefusedUntouched(t *testing.T) {
	for _, kind := range []cloud.Kind{"", cloud.Denied, cloud.Unavailable} {
		t.Run(string(kind), func(t *testing.T) {
			s := newTestEnv(t)
			s.cloud.RefusePool(s.pool, cloud.Refusal{Reason: "UpgradePolicyAutomatic", Message: "pool1 rolls out automatically"})
			s.decide()
			asked := 0
			s.lose = func(_ int, what string) memory.Outcome {
				if strings.HasPrefix(what, "Image ") || strings.HasPrefix(what, "Snapshot ") {
					if p := s.prototype(); p.Status.Failure != nil {
						asked++
					}
					if kind != "" {
						return memory.FailBefore(kind)
					}
				}
				return memory.Pass()
			}
			done := false
			for range 200 {
				result, _ := s.engine.Pass(t.Context(), s.name)
				if done = result.Done; done {
					break
				}
				s.tick(max(result.After, 4*time.Second))
			}
			if !done || asked > 0 {
				t.Errorf("ended: %t, %d requests after the refusal; %s, deletable: %t", done, asked, verdict(s.prototype()), len(s.prototype().Finalizers) == 0)
			}
		})
	}
}

// TestGrowthByPhase: another client promoted the version, and a write failed after the phase was reported, or an earlier version of
// Kamino promoted, which recorded the size later. The pool grows by one node.
func TestGrowthByPhase(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseRetiring, v1alpha1.PhaseScalingOut} {
		t.Run(string(phase), func(t *testing.T) {
			v := published(t, func(p *v1alpha1.Prototype) {
				p.Spec.Settings.Trial.Mode, p.Spec.Settings.Recipe.NewNodes = v1alpha1.TrialOff, 1
			})
			v.promoteByHand()
			v.onStatus(func(p *v1alpha1.Prototype) { p.Status.Phase = phase })
			size := v.cloud.World().Pools[0].Capacity
			p := v.run()
			if got := v.cloud.World().Pools[0].Capacity; got != size+1 {
				t.Errorf("%s: %d nodes, want %d", verdict(p), got, size+1)
			}
		})
	}
}

// TestGrowthAfterAPromotionInATrial: the person promotes during the trial, and a version is retired afterwards.
func TestGrowthAfterAPromotionInATrial(t *testing.T) {
	growsOnce(t, func() *trialEnv {
		v := published(t, func(p *v1alpha1.Prototype) { p.Spec.Settings.Recipe.NewNodes, p.Spec.Settings.Keep = 1, 2 })
		for _, version := range []string{"2026.03.01", "2026.03.02", "2026.03.03"} {
			v.cloud.AddVersion(v.pool, memory.VersionSpec{Version: version, Tags: ours()})
		}
		return v
	}, func(v *trialEnv) bool {
		record, _ := v1alpha1.RecordOf(v.prototype())
		return record.Trial != nil && record.Trial.RunningSince != nil
	})
}

// TestVersionAndItsPlaceGone: after the donor's return, a client deletes the resource group with the snapshot and the gallery, so
// that the list of snapshots answers 404. The capture ends.
func TestVersionAndItsPlaceGone(t *testing.T) {
	s := newTestEnv(t).decide()
	gone := false
	s.wrapped = cloud.Intercept(s.wrapped, func(ctx context.Context, made cloud.Op, call func(context.Context) error) error {
		if !gone {
			return call(ctx)
		}
		switch result := made.Result.(type) {
		case *cloud.Image:
			*result = cloud.Image{}
			return nil
		case *cloud.Snapshot:
			*result = cloud.Snapshot{}
			return nil
		case *[]cloud.Image:
			return nil
		case *[]cloud.Snapshot:
			return &cloud.Error{Kind: cloud.NotFound, Op: made.Name, Resource: "resource group", Code: "ResourceGroupNotFound"}
		}
		return call(ctx)
	})
	s.restart()
	p := s.play(func(int) {
		record, _ := v1alpha1.RecordOf(s.prototype())
		gone = gone || s.prototype().Status.Phase == v1alpha1.PhasePublishing && record.Reservation == nil
	})
	if p.Status.Failure == nil {
		t.Error(verdict(p))
	}
}

// TestClockBehind: the process that takes over has a clock an hour behind. An instance that is gone is believed within minutes.
func TestClockBehind(t *testing.T) {
	s := newTestEnv(t, func(s *testEnv) { s.blocked = 100000 }).decide()
	removed, isAhead := time.Time{}, false
	p := s.play(func(int) {
		if removed.IsZero() && s.prototype().Status.Phase == v1alpha1.PhaseDraining {
			s.cloud.RemoveInstance(s.donor)
			removed = s.clock.Now()
		}
		record, _ := v1alpha1.RecordOf(s.prototype())
		if r := record.Reservation; !isAhead && r != nil && r.AgreedSince != nil {
			ahead := metav1.NewTime(s.clock.Now().Add(time.Hour))
			r.MissingSince, r.AgreedSince, isAhead = &ahead, &ahead, true
			s.onStatus(func(p *v1alpha1.Prototype) { p.Status.Record.Reservation = r })
		}
	})
	if took := s.clock.Now().Sub(removed); !isAhead || took > 15*time.Minute {
		t.Errorf("ahead %t, it took %s: %s", isAhead, took, verdict(p))
	}
}

// TestMessageOfALostRecord: a client removes the status after the version is complete. The message does not blame a restore of etcd.
func TestMessageOfALostRecord(t *testing.T) {
	for _, mode := range []string{"status removed", "record removed"} {
		t.Run(mode, func(t *testing.T) {
			s := newTestEnv(t).decide(func(p *v1alpha1.Prototype) { p.Spec.Settings.Promotion.Mode = v1alpha1.PromotionManual })
			done := false
			p := s.play(func(int) {
				if !done && s.prototype().Status.Phase == v1alpha1.PhaseAwaitingPromotion {
					done = true
					s.onStatus(func(p *v1alpha1.Prototype) {
						if p.Status.Record = nil; mode == "status removed" {
							p.Status = v1alpha1.PrototypeStatus{}
						}
					})
				}
			})
			if p.Status.Failure != nil && strings.Contains(p.Status.Failure.Message, "restore of etcd") {
				t.Error("it blames a restore of etcd")
			}
		})
	}
}

// TestPoolAndDonorGone: the pool is deleted with its instances, and the cluster deletes their Nodes. The capture ends.
func TestPoolAndDonorGone(t *testing.T) {
	for name, begin := range map[string]func(*testing.T, ...option) *testEnv{
		"returns":             func(t *testing.T, o ...option) *testEnv { return inFull(t, o...) },
		"leaves":              func(t *testing.T, o ...option) *testEnv { return departInFull(t, false, o...).testEnv },
		"leaves after growth": func(t *testing.T, o ...option) *testEnv { return departInFull(t, true, o...).testEnv },
	} {
		ways := map[bool]v1alpha1.Phase{true: v1alpha1.PhaseStarting, false: v1alpha1.PhaseRemoving}[name == "returns"]
		for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseDraining, v1alpha1.PhaseGeneralizing, v1alpha1.PhaseSnapshotting, ways, v1alpha1.PhasePublishing} {
			t.Run(name+" "+string(phase), func(t *testing.T) {
				s := begin(t, func(s *testEnv) { s.tidy = true })
				gone, since, done := false, time.Time{}, false
				var err error
				for range 400 {
					var result Result
					if result, err = s.engine.Pass(t.Context(), s.name); result.Done {
						done = true
						break
					}
					if !gone && s.prototype().Status.Phase == phase {
						for _, m := range s.cloud.World().Instances {
							s.cloud.RemoveInstance(m.ID)
						}
						s.cloud.DeletePool(s.pool)
						gone, since = true, s.clock.Now()
					}
					s.tick(max(result.After, 4*time.Second))
				}
				if !gone {
					t.Fatal("no such phase")
				}
				if took := s.clock.Now().Sub(since); !done || took > 2*time.Hour {
					t.Errorf("ended: %t after %s, phase %s, failure %v, last error: %v", done, took, s.prototype().Status.Phase, s.prototype().Status.Failure, err)
				}
			})
		}
	}
}

// TestStaleFirstAnswerOfProtection: as TestStaleFirstAnswer, but the later answers are those of one look, for the protection before
// the donor's release. The donor is no longer protected at the end.
func TestStaleFirstAnswerOfProtection(t *testing.T) {
	s := newTestEnv(t).decide()
	first, second := 0, 0
	s.wrapped = cloud.Intercept(s.wrapped, func(ctx context.Context, made cloud.Op, call func(context.Context) error) error {
		record, _ := v1alpha1.RecordOf(s.prototype())
		switch {
		case made.Name == "Protection" && record.Reservation != nil && first == 0, made.Name == "Instances" && first == 1:
			first++
		case made.Name == "Protection" && first == 2 && second == 0 && record.Returning, made.Name == "Instances" && (second == 1 || second == 2):
			second++
		default:
			return call(ctx)
		}
		return &cloud.Error{Kind: cloud.NotFound, Op: made.Name, Resource: made.Resource}
	})
	s.restart()
	waited := false
	p := s.play(func(int) {
		if p := s.prototype(); first == 2 && !waited && p.Status.Phase == v1alpha1.PhaseSnapshotting {
			waited = true
			s.clock.Advance(11 * time.Minute)
		}
	})
	if first != 2 || second != 3 {
		t.Fatalf("answers: %d, %d; %s", first, second, verdict(p))
	}
	if machine := s.cloud.World().Instance(s.donor); machine.ScaleInProtected || p.Status.Phase != v1alpha1.PhaseSucceeded {
		t.Errorf("the donor is protected: %t; %s", machine.ScaleInProtected, verdict(p))
	}
}

// TestListWrongOnce: for two minutes reads of the donor answer 404 and the list of its pool has the donor. Then the list lacks the
// donor once. Two witnesses have not agreed twice, so the capture succeeds.
func TestListWrongOnce(t *testing.T) {
	s := newTestEnv(t).decide()
	since, lacked := time.Time{}, false
	s.wrapped = cloud.Intercept(s.wrapped, func(ctx context.Context, op cloud.Op, call func(context.Context) error) error {
		if since.IsZero() || s.clock.Now().Sub(since) > 3*time.Minute {
			return call(ctx)
		}
		if op.Name == "Instance" && op.Resource == string(s.donor) {
			return &cloud.Error{Kind: cloud.NotFound, Op: op.Name, Resource: op.Resource}
		}
		err := call(ctx)
		if list, is := op.Result.(*[]cloud.Instance); is && !lacked && s.clock.Now().Sub(since) > 2*time.Minute {
			lacked = true
			*list = slices.DeleteFunc(*list, func(i cloud.Instance) bool { return i.ID == s.donor })
		}
		return err
	})
	s.restart()
	p := s.play(func(int) {
		if since.IsZero() && s.prototype().Status.Phase == v1alpha1.PhaseStopping {
			since = s.clock.Now()
		}
	})
	if !lacked {
		t.Fatalf("no list was wrong: %s", verdict(p))
	}
	s.succeeded(p)
}
