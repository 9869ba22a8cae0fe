package policy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/policy/schedule"
	"github.com/kamino-dev/kamino/internal/rebuild"
	"github.com/kamino-dev/kamino/internal/selection"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// imageLimitCloud is a cloud with a limit of ten images per pool.
type imageLimitCloud struct{ *memory.Faulty }

func (l imageLimitCloud) MaxImages(cloud.PoolID) int { return 10 }

// crowd adds a pool with one node per version, without patches. The recipe names the newest version.
func (s *testEnv) crowd(name string, images int) cloud.PoolID {
	s.Helper()
	id := s.cloud.AddPool(memory.PoolSpec{Name: name, Capacity: int64(images), MaxSize: 100})
	for i := range images {
		at := s.clock.Now().AddDate(0, 0, i-images-1)
		s.version(id, at, nil)
		s.cloud.ChangeRecipe(id, string(id)+"/versions/"+imageversion.Of(at))
		s.node(fmt.Sprintf("%s-%d", name, i), s.cloud.AddInstance(id, fmt.Sprint(i)), func(*corev1.Node) {})
	}
	return id
}

// use replaces the decider's cloud.
func (s *testEnv) use(provider memory.Calls) {
	s.decider.Cloud, s.decider.PoolCache = memory.Provider(provider), policy.NewPoolCache(provider, s.clock.Now)
}

// takes replaces the decider's Rebuild in a cloud with a limit, and records the requests.
func (s *testEnv) takes(take func(rebuild.Request) (rebuild.RequestResult, error)) *[]rebuild.Request {
	var asked []rebuild.Request
	s.use(imageLimitCloud{s.calls})
	s.decider.Rebuild = func(_ context.Context, r rebuild.Request) (rebuild.RequestResult, error) {
		asked = append(asked, r)
		return take(r)
	}
	return &asked
}

// counted runs a first pass, then counts the images as the controller's hourly list does.
func (s *testEnv) counted(id cloud.PoolID) {
	s.Helper()
	s.runPass()
	s.must(s.decider.Count(s.Context(), id))
	s.clock.Advance(2 * time.Hour)
	s.runPass()
}

func rebuilds(spec *v1alpha1.PrototypePolicySpec) { spec.Rebuild = &v1alpha1.RebuildSettings{} }

func (s *testEnv) wantRebuild(reason string, words ...string) {
	s.Helper()
	d := s.poolStatus("all", "pool1").Rebuild
	if d == nil || d.Reason != reason {
		s.Fatalf("about the oldest image is decided %+v, want %s", d, reason)
	}
	for _, word := range words {
		if !strings.Contains(d.Message, word) {
			s.Errorf("%q does not say %q", d.Message, word)
		}
	}
}

// TestTheOldestImageIsRebuilt: a policy with spec.rebuild rebuilds from its number of images on; without spec.rebuild the
// status is empty.
func TestTheOldestImageIsRebuilt(t *testing.T) {
	for name, test := range map[string]struct {
		images int
		spec   func(*v1alpha1.PrototypePolicySpec)
		asked  int
	}{
		"eight":            {8, rebuilds, 1},
		"seven":            {7, rebuilds, 0},
		"three are enough": {3, func(s *v1alpha1.PrototypePolicySpec) { s.Rebuild = &v1alpha1.RebuildSettings{AtImages: 3} }, 1},
		"not allowed":      {9, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t)
			id := s.crowd("pool1", test.images)
			s.policy("all", test.spec)
			asked := s.takes(func(rebuild.Request) (rebuild.RequestResult, error) {
				return rebuild.RequestResult{Node: "pool1-0"}, nil
			})
			s.counted(id)
			if len(*asked) != test.asked {
				t.Fatalf("asked for %+v; the status says %+v", *asked, s.poolStatus("all", "pool1").Rebuild)
			}
			if test.asked == 0 {
				if d := s.poolStatus("all", "pool1").Rebuild; (d == nil) != (test.spec == nil) {
					t.Errorf("the status says %+v", d)
				}
				return
			}
			oldest := imageversion.Of(s.clock.Now().AddDate(0, 0, -test.images-1))
			if got := (*asked)[0]; got.From != oldest || got.To != s.poolStatus("all", "pool1").CurrentVersion ||
				got.MaxUnavailable != 1 || got.Policy != "all" {
				t.Errorf("asked for %+v, want %s to go", got, oldest)
			}
			s.wantRebuild(policy.Rebuilding, "node pool1-0")
			if c := meta.FindStatusCondition(s.status("all").Status.Conditions, v1alpha1.ConditionDegraded); c.Reason == v1alpha1.PolicyManyImages {
				t.Errorf("work of the policy is reported as trouble: %s", c.Message)
			}
			if !s.heardOf("node pool1-0 is rebuilt: pool pool1 has many images") {
				t.Error("no event")
			}
			s.runPass()
			if len(*asked) != 1 {
				t.Errorf("another one is taken at once: %+v", *asked)
			}
		})
	}
}

// TestOutdatedNodesAreRebuilt: with spec.rebuild.outdated, rebuilds go on at their pace in any cloud. The first node is rebuilt
// alone, and a failed node ends the rebuilds.
func TestOutdatedNodesAreRebuilt(t *testing.T) {
	s := newTestEnv(t)
	id := s.crowd("pool1", 4)
	s.policy("all", func(p *v1alpha1.PrototypePolicySpec) {
		p.MaxConcurrent, p.Rebuild = 2, &v1alpha1.RebuildSettings{Outdated: &v1alpha1.OutdatedSettings{PerHour: 20}}
	})
	taken := 0
	asked := s.takes(func(rebuild.Request) (rebuild.RequestResult, error) {
		taken++
		return rebuild.RequestResult{Node: fmt.Sprintf("pool1-%d", taken-1)}, nil
	})
	s.use(s.calls) // without a limit of images
	s.counted(id)
	current := s.poolStatus("all", "pool1").CurrentVersion
	if len(*asked) != 1 || (*asked)[0].From != imageversion.Of(s.clock.Now().AddDate(0, 0, -5)) || (*asked)[0].To != current {
		t.Fatalf("asked for %+v: %+v", *asked, s.poolStatus("all", "pool1").Rebuild)
	}
	if !s.heardOf("node pool1-0 is rebuilt: pool pool1 has a newer version") {
		t.Error("no event")
	}
	reserve := func(name string) {
		s.change(id, name, func(n *corev1.Node) {
			at := s.clock.Now().Format(time.RFC3339)
			n.Annotations = map[string]string{v1alpha1.ReservationAnnotation: fmt.Sprintf(
				`{"kind":"Replacement","name":"pool1-v","uid":"u","reservedAt":%q,"rebuild":{"policy":"all","startedAt":%q}}`, at, at)}
		})
	}
	reserve("pool1-0")
	s.clock.Advance(time.Minute)
	s.runPass()
	s.wantRebuild(policy.Rebuilding, "node pool1-0")
	s.change(id, "pool1-3", func(n *corev1.Node) { n.Labels[v1alpha1.VersionLabel] = v1alpha1.VersionLabelValue(current) })
	s.runPass()
	s.wantRebuild(policy.Waiting, "20 rebuilds per hour")
	s.clock.Advance(2 * time.Minute)
	s.runPass()
	if len(*asked) != 2 {
		t.Fatalf("asked for %+v: %+v", *asked, s.poolStatus("all", "pool1").Rebuild)
	}
	reserve("pool1-1")
	s.clock.Advance(4 * time.Minute)
	s.runPass()
	s.wantRebuild(policy.Queued, "spec.maxConcurrent")
	s.change(id, "pool1-1", func(n *corev1.Node) { n.Annotations = nil })
	s.change(id, "pool1-0", func(n *corev1.Node) {
		n.Annotations[v1alpha1.NotRebuiltAnnotation] = fmt.Sprintf(`{"to":%q,"reason":"NodeNotReady","message":"was not Ready","attempts":1,"at":%q}`,
			current, s.clock.Now().Format(time.RFC3339))
	})
	s.runPass()
	if s.wantRebuild(policy.Rebuilding, "node pool1-0"); len(*asked) != 2 {
		t.Errorf("rebuilds go on past a failed node: %+v", *asked)
	}
}

// TestCapturePrecedesRebuild: rebuilds that follow each other leave room for a capture.
func TestCapturePrecedesRebuild(t *testing.T) {
	s := newTestEnv(t)
	id := s.crowd("pool1", 4)
	s.policy("all", func(p *v1alpha1.PrototypePolicySpec) {
		p.MaxConcurrent, p.Rebuild = 3, &v1alpha1.RebuildSettings{Outdated: &v1alpha1.OutdatedSettings{PerHour: 60}}
	})
	asked := s.takes(func(rebuild.Request) (rebuild.RequestResult, error) {
		return rebuild.RequestResult{Node: "pool1-0"}, nil
	})
	s.use(s.calls)
	s.counted(id)
	current := s.poolStatus("all", "pool1").CurrentVersion
	s.change(id, "pool1-0", func(n *corev1.Node) {
		n.Annotations = map[string]string{v1alpha1.ReservationAnnotation: `{"kind":"Replacement","name":"pool1-v","uid":"u","reservedAt":"2026-03-03T12:00:00Z","rebuild":{"policy":"all","startedAt":"2026-03-03T12:00:00Z"}}`}
	})
	s.change(id, "pool1-3", func(n *corev1.Node) {
		n.Labels[v1alpha1.VersionLabel] = v1alpha1.VersionLabelValue(current)
		n.Annotations = map[string]string{v1alpha1.KuredRebootNeededAnnotation: s.clock.Now().Add(-10 * time.Hour).Format(time.RFC3339)}
		n.Status.Conditions[0].LastTransitionTime.Time = s.clock.Now().Add(-9 * time.Hour)
	})
	s.clock.Advance(10 * time.Minute)
	s.runPass()
	s.decided("all", "pool1", policy.Rebuilding, "node pool1-0")
	if s.wantRebuild(selection.CaptureInFlight); len(*asked) != 1 {
		t.Errorf("asked for %+v", *asked)
	}
	s.change(id, "pool1-0", func(n *corev1.Node) { n.Annotations = nil })
	s.runPass()
	if got := s.donors(); len(got) != 1 || len(*asked) != 1 {
		t.Errorf("donors = %v, asked for %+v", got, *asked)
	}
}

// TestAPlanEstimatesHowLongOldNodesStay, and proposes rebuilds unless the policy rebuilds the nodes, or the cloud cannot.
func TestAPlanEstimatesHowLongOldNodesStay(t *testing.T) {
	s := newTestEnv(t)
	id := s.crowd("pool1", 3)
	for i := range 3 {
		s.change(id, fmt.Sprintf("pool1-%d", i), func(n *corev1.Node) {
			n.CreationTimestamp.Time = s.clock.Now().AddDate(0, 0, -10*(i+1))
			n.Labels[v1alpha1.VersionLabel] = v1alpha1.VersionLabelValue(imageversion.Of(s.clock.Now().AddDate(0, 0, i-4)))
		})
	}
	for _, c := range []struct {
		spec  *v1alpha1.RebuildSettings
		cloud memory.Calls
		want  bool
	}{
		{nil, s.calls, true},
		{&v1alpha1.RebuildSettings{}, s.calls, true},
		{&v1alpha1.RebuildSettings{Outdated: &v1alpha1.OutdatedSettings{}}, s.calls, false},
		{nil, noRebuildCloud{imageLimitCloud{s.calls}}, false},
	} {
		s.use(c.cloud)
		p := policy.AdHoc("all")
		p.Spec.Rebuild = c.spec
		plans, err := s.decider.Plan(t.Context(), []v1alpha1.PrototypePolicy{p}, nil)
		s.must(err)
		if got := plans.Pools[0]; got.SlowTurnover != c.want || got.Turnover.Nodes != 3 || got.Turnover.Earlier != 2 ||
			got.Turnover.Replaced() != 60*24*time.Hour {
			t.Errorf("%+v: %+v, slow %t", c.spec, got.Turnover, got.SlowTurnover)
		}
	}
}

// TestNothingIsRebuiltWhereThePolicyRests: suspended, in a dry run, or outside its schedule.
func TestNothingIsRebuiltWhereThePolicyRests(t *testing.T) {
	for reason, spec := range map[string]func(*v1alpha1.PrototypePolicySpec){
		v1alpha1.PolicySuspended: func(s *v1alpha1.PrototypePolicySpec) { s.Suspend = true },
		v1alpha1.PolicyDryRun:    func(s *v1alpha1.PrototypePolicySpec) { s.DryRun = true },
		schedule.OutsideSchedule: func(s *v1alpha1.PrototypePolicySpec) { s.Schedule.Cron = "0 3 * * *" },
	} {
		s := newTestEnv(t)
		id := s.crowd("pool1", 8)
		s.policy("all", func(p *v1alpha1.PrototypePolicySpec) { rebuilds(p); spec(p) })
		asked := s.takes(func(rebuild.Request) (rebuild.RequestResult, error) {
			return rebuild.RequestResult{Node: "pool1-0"}, nil
		})
		s.counted(id)
		if len(*asked) > 0 {
			t.Errorf("%s: asked for %+v", reason, *asked)
		}
		s.wantRebuild(reason)
	}
}

// TestARebuildAndACaptureTakeTurns: in one pool, a rebuild and a capture never run at the same time.
func TestARebuildAndACaptureTakeTurns(t *testing.T) {
	s := newTestEnv(t)
	id := s.crowd("pool1", 8)
	s.policy("all", rebuilds)
	asked := s.takes(func(rebuild.Request) (rebuild.RequestResult, error) {
		return rebuild.RequestResult{Node: "pool1-0"}, nil
	})
	s.runPass()
	s.must(s.decider.Count(t.Context(), id))
	patched := func(n *corev1.Node) {
		n.Annotations = map[string]string{v1alpha1.KuredRebootNeededAnnotation: s.clock.Now().Add(-10 * time.Hour).Format(time.RFC3339)}
		n.Status.Conditions[0].LastTransitionTime.Time = s.clock.Now().Add(-9 * time.Hour)
	}
	s.change(id, "pool1-7", patched)
	s.runPass()
	if len(*asked) > 0 || len(s.donors()) != 1 {
		t.Fatalf("asked for %+v, donors %v", *asked, s.donors())
	}
	s.runPass()
	s.wantRebuild(selection.CaptureInFlight)
	s.end(s.prototypes()[0].Name, v1alpha1.PhaseFailed)
	s.clock.Advance(10 * time.Minute)
	s.runPass()
	if len(*asked) != 1 {
		t.Fatalf("asked for %+v: %+v", *asked, s.poolStatus("all", "pool1").Rebuild)
	}
	s.change(id, "pool1-0", func(n *corev1.Node) {
		n.Annotations = map[string]string{v1alpha1.ReservationAnnotation: `{"kind":"Replacement","name":"pool1-v","uid":"u","reservedAt":"2026-03-03T12:00:00Z","rebuild":{"policy":"all","startedAt":"2026-03-03T12:00:00Z"}}`}
	})
	s.clock.Advance(4 * time.Hour)
	s.runPass()
	if got := s.donors(); len(got) != 1 {
		t.Errorf("donors = %v during a rebuild", got)
	}
	s.wantRebuild(policy.Rebuilding, "node pool1-0")
	s.change(id, "pool1-0", func(n *corev1.Node) { n.Annotations = nil })
	s.runPass()
	if got := s.donors(); len(got) != 2 {
		t.Errorf("donors = %v once the node is back: %+v", got, s.poolStatus("all", "pool1").Decision)
	}
}

// TestRebuildObstacleIsReported: the status names the wait, and the condition Degraded names work for a person.
func TestRebuildObstacleIsReported(t *testing.T) {
	s := newTestEnv(t)
	id := s.crowd("pool1", 8)
	s.policy("all", rebuilds)
	answer, failure := rebuild.RequestResult{Waiting: "kured reboots node x"}, error(nil)
	asked := s.takes(func(rebuild.Request) (rebuild.RequestResult, error) { return answer, failure })
	s.counted(id)
	s.wantRebuild(policy.Waiting, "kured reboots node x")
	s.runPass()
	if len(*asked) != 1 {
		t.Errorf("asked %d times at once", len(*asked))
	}
	answer = rebuild.RequestResult{Alone: map[string]cloud.Refusal{"pool1-0": cloud.Refuse("DoNotDisrupt", "is left alone, because it asks to", "wait")}}
	s.clock.Advance(6 * time.Minute)
	s.runPass()
	s.degradedFor(v1alpha1.PolicyNotRebuilt, "node pool1-0 of pool pool1 is left alone, because it asks to: wait")
	s.runPass()
	s.degradedFor(v1alpha1.PolicyNotRebuilt, "asks to")

	answer, failure = rebuild.RequestResult{}, errors.New("no route")
	s.clock.Advance(6 * time.Minute)
	s.runPass()
	s.wantRebuild(policy.Waiting, "no route")
	current := s.poolStatus("all", "pool1").CurrentVersion
	for attempts, remedy := range map[int]string{1: "Kamino tries again automatically", 3: "kamino rebuild pool1"} {
		s.change(id, "pool1-0", func(n *corev1.Node) {
			n.Annotations = map[string]string{v1alpha1.NotRebuiltAnnotation: fmt.Sprintf(
				`{"to":%q,"reason":"DrainTimeout","message":"was not drained","attempts":%d}`, current, attempts)}
		})
		s.runPass()
		s.degradedFor(v1alpha1.PolicyNotRebuilt, "node pool1-0 of pool pool1 was not drained", remedy)
	}
	s.change(id, "pool1-0", func(n *corev1.Node) { n.Annotations = nil })
	answer, failure = rebuild.RequestResult{Node: "pool1-0"}, nil
	s.clock.Advance(6 * time.Minute)
	s.runPass()
	if c := meta.FindStatusCondition(s.status("all").Status.Conditions, v1alpha1.ConditionDegraded); c.Reason == v1alpha1.PolicyNotRebuilt {
		t.Errorf("%+v", c)
	}
}

func (s *testEnv) degradedFor(reason string, words ...string) {
	s.Helper()
	c := meta.FindStatusCondition(s.status("all").Status.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || string(c.Status) != "True" || c.Reason != reason {
		s.Fatalf("Degraded is %+v, want %s", c, reason)
	}
	for _, word := range words {
		if !strings.Contains(c.Message, word) {
			s.Errorf("%q does not say %q", c.Message, word)
		}
	}
	s.needsPerson("all", reason, c.Message)
}

// needsPerson checks that the list of what needs a person has the reason, in the words of the condition.
func (s *testEnv) needsPerson(name, reason, message string) {
	s.Helper()
	items := attention.OfPolicy(s.status(name), nil, s.clock.Now())
	if !slices.ContainsFunc(items, func(i attention.Item) bool {
		return i.Reason == reason && (strings.Contains(strings.ToLower(message), strings.ToLower(i.Cause)) || i.Kind == attention.ManyImages)
	}) {
		s.Errorf("no item has reason %s and the words of %q: %+v", reason, message, items)
	}
}

// TestLimitOfReservedNodes: captures and rebuilds of all pools share one limit.
func TestLimitOfReservedNodes(t *testing.T) {
	s := newTestEnv(t)
	one, two := s.crowd("pool1", 8), s.crowd("pool2", 8)
	s.policy("all", rebuilds)
	asked := s.takes(func(r rebuild.Request) (rebuild.RequestResult, error) {
		return rebuild.RequestResult{Node: s.cloud.PoolName(r.Pool) + "-0"}, nil
	})
	s.runPass()
	s.must(s.decider.Count(t.Context(), one))
	s.must(s.decider.Count(t.Context(), two))
	s.clock.Advance(2 * time.Hour)
	s.runPass()
	if len(*asked) != 1 {
		t.Errorf("%d nodes are taken at once, where one may be held", len(*asked))
	}
}

// noRebuildCloud is a cloud that cannot rebuild.
type noRebuildCloud struct{ imageLimitCloud }

func (noRebuildCloud) CanRebuild(cloud.PoolID) bool { return false }

// TestACloudThatRebuildsNothing: the policy cannot rebuild, so the condition also reports the many images.
func TestACloudThatRebuildsNothing(t *testing.T) {
	s := newTestEnv(t)
	id := s.crowd("pool1", 8)
	s.policy("all", rebuilds)
	asked := s.takes(func(rebuild.Request) (rebuild.RequestResult, error) {
		return rebuild.RequestResult{Node: "pool1-0"}, nil
	})
	s.use(noRebuildCloud{imageLimitCloud{s.calls}})
	s.counted(id)
	s.wantRebuild(string(cloud.Unsupported), "cannot rebuild nodes")
	degraded := meta.FindStatusCondition(s.status("all").Status.Conditions, v1alpha1.ConditionDegraded)
	if degraded == nil || degraded.Reason != v1alpha1.PolicyManyImages {
		t.Errorf("the images are not reported: %+v", degraded)
	}
	if len(*asked) > 0 {
		t.Errorf("nodes are taken: %+v", *asked)
	}
}
