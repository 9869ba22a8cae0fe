package capture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
	"github.com/kamino-dev/kamino/internal/trial"
)

// onRecord changes the record of a Prototype that a trial is under way for.
func (v *trialEnv) onRecord(change func(p *v1alpha1.Prototype, r *v1alpha1.Record)) {
	v.onStatus(func(p *v1alpha1.Prototype) {
		r, err := v1alpha1.RecordOf(p)
		if err == nil && r.Trial != nil {
			change(p, &r)
		}
	})
}

// recordTamperings are what a client may do to the record of a trial.
var recordTamperings = map[string]func(v *trialEnv){
	"removed": func(v *trialEnv) {
		v.onRecord(func(p *v1alpha1.Prototype, _ *v1alpha1.Record) { p.Status.Record = nil })
	},
	"garbled": func(v *trialEnv) {
		v.onRecord(func(p *v1alpha1.Prototype, _ *v1alpha1.Record) { p.Status.Record.UID = "another" })
	},
	"without a trial": func(v *trialEnv) {
		v.onRecord(func(p *v1alpha1.Prototype, r *v1alpha1.Record) {
			r.Trial = nil
			p.Status.Record = r
		})
	},
	"says that the trial has ended": func(v *trialEnv) {
		v.onRecord(func(p *v1alpha1.Prototype, r *v1alpha1.Record) {
			r.Trial.Name, r.Trial.CleaningUp, r.Trial.CleanedUpAt = "", false, &r.Trial.StartedAt
			p.Status.Record = r
		})
	},
	"removed, and the capture deleted": func(v *trialEnv) {
		v.onRecord(func(p *v1alpha1.Prototype, _ *v1alpha1.Record) { p.Status.Record = nil })
		if p := v.prototype(); p != nil && p.Status.Record == nil {
			v.must(v.clean.Delete(context.Background(), p))
		}
	},
}

// TestATrialDoesNotOutliveItsCapture: the record changes after any pass. No object of the trial outlives the capture,
// and the instance is removed soon.
func TestATrialDoesNotOutliveItsCapture(t *testing.T) {
	for name, strike := range recordTamperings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tried := 0
			for at := 0; at < 60; at++ {
				v := published(t)
				last := 0
				p := v.run(func(pass int) {
					if last = pass; pass == at {
						tried += len(v.cloud.World().Trials)
						strike(v)
					}
				})
				v.byHand = v.cloud.World().Pools[0].Recipe.Version == triedVersion && v.tagged(cloud.TagTrial, "Passed ") // it was promoted before
				if _, err := v1alpha1.RecordOf(orEmpty(p)); err != nil {
					p.Status.Record = nil // the capture had nothing to write any more
				}
				if v.nothingLeft(p); t.Failed() {
					t.Fatalf("struck after pass %d: %s\n%s", at, verdict(p), v.lastCalls(40))
				}
				if last < at {
					break
				}
			}
			if tried < 5 {
				t.Errorf("only %d moments of a trial were tried", tried)
			}
		})
	}
}

func orEmpty(p *v1alpha1.Prototype) *v1alpha1.Prototype {
	if p == nil {
		return &v1alpha1.Prototype{}
	}
	return p
}

// observerHook wraps a TrialObserver, and changes its answers.
type observerHook struct {
	*trialEnv
	observation func(*trial.Observation)
	clean       func(subject trial.Subject) ([]string, error)
}

func (l *observerHook) Observe(ctx context.Context, subject trial.Subject) (trial.Observation, error) {
	observation, err := l.trialEnv.Observe(ctx, subject)
	if err == nil && observation.Facts.Node != "" && l.observation != nil {
		l.observation(&observation)
	}
	return observation, err
}

func (l *observerHook) Clean(ctx context.Context, subject trial.Subject) ([]string, error) {
	left, err := l.trialEnv.Clean(ctx, subject)
	if l.clean == nil || err != nil {
		return left, err
	}
	return l.clean(subject)
}

// looking is a stage with a looker.
func looking(t *testing.T, l *observerHook) *observerHook {
	t.Helper()
	l.trialEnv = published(t)
	l.tryout = l
	l.restart()
	return l
}

// TestTheClusterKeepsNoInstance: objects that cannot be removed from the cluster do not delay the instance's removal,
// and the capture names the objects.
func TestTheClusterKeepsNoInstance(t *testing.T) {
	broken := true
	l := looking(t, &observerHook{clean: func(trial.Subject) ([]string, error) {
		if broken {
			return nil, errors.New("node x: the webhook says no")
		}
		return nil, nil
	}})
	recorder, shown := events.NewFakeRecorder(500), ""
	var since, gone time.Time
	p := l.run(func(int) {
		l.engine.Recorder = recorder
		for len(recorder.Events) > 0 {
			shown += <-recorder.Events + "\n"
		}
		r, err := v1alpha1.RecordOf(l.prototype())
		if l.must(err); r.Trial != nil && r.Trial.CleaningUp {
			if since.IsZero() {
				since = l.clock.Now()
			}
			if gone.IsZero() && len(l.cloud.World().Trials) == 0 {
				gone = l.clock.Now()
			}
		}
		stalled := meta.FindStatusCondition(l.prototype().Status.Conditions, v1alpha1.ConditionStalled)
		if stalled != nil && strings.Contains(stalled.Message, "the webhook says no") {
			broken = false
		}
	})
	if gone.IsZero() || gone.Sub(since) > time.Minute {
		t.Errorf("the end began at %s, and the instance was gone at %s", since, gone)
	}
	if broken || !strings.Contains(shown, "Warning Refused") || !strings.Contains(shown, "the webhook says no") {
		t.Errorf("nothing says what is waited for:\n%s", shown)
	}
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded {
		t.Error(verdict(p))
	}
	l.nothingLeft(p)
}

// TestANodeThatStaysKeepsNoCapture: a Node that another client keeps Ready is given up, and named.
func TestANodeThatStaysKeepsNoCapture(t *testing.T) {
	l := looking(t, &observerHook{clean: func(subject trial.Subject) ([]string, error) {
		if subject.Overdue {
			return nil, nil
		}
		return []string{"node x still reports Ready"}, nil
	}})
	recorder, shown := events.NewFakeRecorder(500), ""
	p := l.run(func(int) {
		l.engine.Recorder = recorder
		for len(recorder.Events) > 0 {
			shown += <-recorder.Events + "\n"
		}
	})
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded || strings.Count(shown, "Warning "+TrialNotRemoved+" node x still reports Ready") != 1 {
		t.Errorf("%s\n%s", verdict(p), shown)
	}
	l.nothingLeft(p)
}

// TestATwinThatTheCloudDoesNotHave quarantines no version; a twin with an instance does.
func TestATwinThatTheCloudDoesNotHave(t *testing.T) {
	for _, there := range []bool{true, false} {
		l := &observerHook{}
		l.observation = func(observation *trial.Observation) {
			observation.Facts.Twins, observation.TwinInstances = []string{"peer"}, map[string]cloud.InstanceID{"peer": "memory:///pools/pool1/instances/17"}
			if there {
				observation.TwinInstances["peer"] = l.peer
			}
		}
		looking(t, l)
		p := l.run()
		if p == nil || p.Status.Failure == nil {
			t.Fatal(verdict(p))
		}
		reason, quarantined := p.Status.Failure.Reason, l.tagged(cloud.TagQuarantined, "")
		if there != quarantined || there != (reason == "TrialFailed") ||
			!there && (reason != "TrialInconclusive" || !strings.Contains(p.Status.Failure.Message, "node peer, whose instance the cloud does not have")) {
			t.Errorf("there %t: quarantined %t: %s", there, quarantined, verdict(p))
		}
		l.nothingLeft(p)
	}
}

// TestTrialObservationIsRecorded, and comes back with the next look, from any process: the Node is judged by its UID.
func TestTrialObservationIsRecorded(t *testing.T) {
	l, looks := &observerHook{}, 0
	l.observation = func(observation *trial.Observation) {
		looks++
		observation.Facts.NodeUID = "uid-of-the-node"
		observation.Known = []v1alpha1.TrialNodeRecord{
			{Instance: "x", Node: observation.Facts.Node, UID: "uid-of-the-node", Pods: map[string]types.UID{"p": types.UID(fmt.Sprint(min(looks, 3)))}},
		}
	}
	looking(t, l)
	var seen []string
	p := l.run(func(int) {
		r, err := v1alpha1.RecordOf(l.prototype())
		if l.must(err); r.Trial != nil && len(r.Trial.Nodes) > 0 && (len(seen) == 0 || seen[len(seen)-1] != string(r.Trial.Nodes[0].Pods["p"])) {
			seen = append(seen, string(r.Trial.Nodes[0].Pods["p"]))
		}
		l.restart()
	})
	if p == nil || p.Status.Trial == nil || p.Status.Trial.NodeUID != "uid-of-the-node" || len(seen) < 2 || seen[0] != "1" {
		t.Errorf("%v: %s", seen, verdict(p))
	}
}

// TestASweepEndsTheInstanceFirst, whatever the cluster refuses. A trial that cannot be removed does not block other
// trials.
func TestASweepEndsTheInstanceFirst(t *testing.T) {
	l := looking(t, &observerHook{clean: func(trial.Subject) ([]string, error) { return nil, errors.New("node x: the webhook says no") }})
	l.abandon()
	for range 3 {
		_, _ = l.engine.SweepLeftovers(t.Context(), []cloud.PoolID{l.pool})
		l.clock.Advance(20 * time.Second)
	}
	if left := l.cloud.World().Trials; len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// TestTheListOfTrialsIsDenied: the verdict is the same, and an event warns of trials without a record.
func TestTheListOfTrialsIsDenied(t *testing.T) {
	l := looking(t, &observerHook{})
	l.lose = func(call string) memory.Outcome {
		if strings.HasPrefix(call, "Trials ") {
			return memory.FailBefore(cloud.Denied)
		}
		return memory.Pass()
	}
	recorder, shown := events.NewFakeRecorder(500), ""
	p := l.run(func(int) {
		l.engine.Recorder = recorder
		for len(recorder.Events) > 0 {
			shown += <-recorder.Events + "\n"
		}
	})
	for len(recorder.Events) > 0 {
		shown += <-recorder.Events + "\n"
	}
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded || p.Status.Trial.Result != v1alpha1.TrialPassed ||
		!strings.Contains(shown, "Warning "+TrialNotRemoved) {
		t.Errorf("%s\n%s", verdict(p), shown)
	}
}
