package notify

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

var now = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

func prototype(status v1alpha1.PrototypeStatus) *v1alpha1.Prototype {
	p := &v1alpha1.Prototype{Status: status}
	p.Name, p.UID = "pool1-2026.03.09", "u1"
	p.Spec.Pool, p.Spec.Version, p.Spec.Donor.NodeName = "pool1", "2026.03.09", "node-1"
	return p
}

func policy(pools ...v1alpha1.PoolStatus) *v1alpha1.PrototypePolicy {
	p := &v1alpha1.PrototypePolicy{}
	p.Name, p.UID, p.Status.Pools = "all", "u2", pools
	return p
}

func pool(name string, change func(s *v1alpha1.PoolStatus)) v1alpha1.PoolStatus {
	s := v1alpha1.PoolStatus{Name: name, ID: "id/" + name, CurrentVersion: "2026.03.01"}
	if change != nil {
		change(&s)
	}
	return s
}

// lines are notices in short form.
func lines(all []Notice) []string {
	var out []string
	for _, n := range all {
		out = append(out, fmt.Sprintf("%s %s %s %s [%s] %s; %s", n.Kind, n.Subject, n.Data.Pool, n.Data.Version, n.Data.Reason, n.Data.Message, n.Data.Command))
	}
	return out
}

func TestOfPrototype(t *testing.T) {
	failed := v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseCleaningUp, Failure: &v1alpha1.Failure{Reason: "DrainTimeout", Message: "pod a stays"}}
	ended := failed
	ended.Phase = v1alpha1.PhaseFailed
	awaits := v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseAwaitingPromotion,
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: "AwaitingPromotion"}}}
	handed := v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseAwaitingPromotion, Recipe: &v1alpha1.RecipeStatus{HandOver: "run kops update"}}
	in := func(phase v1alpha1.Phase) v1alpha1.PrototypeStatus { return v1alpha1.PrototypeStatus{Phase: phase} }
	promoted := "promoted prototypes/pool1-2026.03.09 pool1 2026.03.09 [] New nodes of pool pool1 use version 2026.03.09.; kamino history pool1"
	for name, test := range map[string]struct {
		before, after v1alpha1.PrototypeStatus
		want          []string
	}{
		"a new phase":      {in(v1alpha1.PhaseDraining), in(v1alpha1.PhaseGeneralizing), nil},
		"no change":        {in(v1alpha1.PhaseSucceeded), in(v1alpha1.PhaseSucceeded), nil},
		"promoted":         {in(v1alpha1.PhaseRetiring), in(v1alpha1.PhaseSucceeded), []string{promoted}},
		"promoted by hand": {awaits, in(v1alpha1.PhaseSucceeded), []string{promoted}},
		"failed": {in(v1alpha1.PhaseDraining), failed, []string{
			"failed prototypes/pool1-2026.03.09 pool1 2026.03.09 [DrainTimeout] The capture of version 2026.03.09 of pool pool1 failed: pod a stays; " +
				"kamino describe pool1-2026.03.09",
		}},
		"a failure that ends": {failed, ended, nil},
		"a failure in one pass": {in(v1alpha1.PhasePreflight), ended,
			[]string{"failed prototypes/pool1-2026.03.09 pool1 2026.03.09 [DrainTimeout] The capture of version 2026.03.09 of pool pool1 failed: " +
				"pod a stays; kamino describe pool1-2026.03.09"}},
		"waits for approval": {in(v1alpha1.PhaseRunningTrial), awaits, []string{
			"approval prototypes/pool1-2026.03.09 pool1 2026.03.09 [AwaitingPromotion] Version 2026.03.09 of pool pool1 waits for approval.; " +
				"kamino promote pool1 2026.03.09",
		}},
		"still waits": {awaits, awaits, nil},
		"handed over": {in(v1alpha1.PhasePublishing), handed, []string{
			"approval prototypes/pool1-2026.03.09 pool1 2026.03.09 [] Version 2026.03.09 of pool pool1 is handed over: run kops update; " +
				"kamino promote pool1 2026.03.09",
		}},
		"a lost status": {in(v1alpha1.PhaseSucceeded), v1alpha1.PrototypeStatus{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, lines(OfPrototype(prototype(test.before), prototype(test.after), now))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOfPolicy(t *testing.T) {
	at, later := metav1.NewTime(now), metav1.NewTime(now.Add(time.Hour))
	rollbackAt := func(at *metav1.Time) func(*v1alpha1.PoolStatus) {
		return func(s *v1alpha1.PoolStatus) {
			s.JoinHealth = &v1alpha1.JoinHealthStatus{State: "Held", Message: "2 nodes did not join", Suspect: "2026.03.09", RolledBackAt: at}
		}
	}
	decided := func(reason string) func(*v1alpha1.PoolStatus) {
		return func(s *v1alpha1.PoolStatus) {
			s.Decision = &v1alpha1.PoolDecision{Reason: reason, Message: "because"}
		}
	}
	checked := func(reason string) func(*v1alpha1.PoolStatus) {
		return func(s *v1alpha1.PoolStatus) {
			s.Patches = &v1alpha1.PatchesStatus{Node: "n1", PendingPatches: v1alpha1.PendingPatches{Reason: reason, Message: "no answer"}}
		}
	}
	rolledBack := "rolledback prototypepolicies/all pool1 2026.03.09 [Held] Pool pool1 rolled back automatically from version 2026.03.09 to 2026.03.01. 2 nodes did not join; kamino history pool1"
	frozenByRollback := "frozen prototypepolicies/all pool1 2026.03.01 [RolledBack] Kamino captures no node of pool pool1: because; kamino acknowledge pool1"
	for name, test := range map[string]struct {
		before, after *v1alpha1.PrototypePolicy
		want          []string
	}{
		"no pools":                              {policy(), policy(), nil},
		"a new pool":                            {policy(), policy(pool("pool1", decided("NoNewPatch"))), nil},
		"rolling back":                          {policy(pool("pool1", nil)), policy(pool("pool1", rollbackAt(nil))), nil},
		"rolled back":                           {policy(pool("pool1", rollbackAt(nil))), policy(pool("pool1", rollbackAt(&at))), []string{rolledBack}},
		"rolled back without an earlier status": {policy(), policy(pool("pool1", rollbackAt(&at))), []string{rolledBack}},
		"the same rollback":                     {policy(pool("pool1", rollbackAt(&at))), policy(pool("pool1", rollbackAt(&at))), nil},
		"another rollback":                      {policy(pool("pool1", rollbackAt(&at))), policy(pool("pool1", rollbackAt(&later))), []string{rolledBack}},
		"frozen after a rollback": {
			policy(pool("pool1", decided("RollingBack"))), policy(pool("pool1", decided("RolledBack"))), []string{frozenByRollback},
		},
		"patches unknown": {
			policy(pool("pool1", checked(""))), policy(pool("pool1", checked("RepositoryUnreachable"))),
			[]string{"unchecked prototypepolicies/all pool1 2026.03.01 [RepositoryUnreachable] The pending patches of pool pool1 are unknown: " +
				"node n1 could not check: no answer; kamino plan pool1"},
		},
		"patches still unknown": {policy(pool("pool1", checked("RepositoryUnreachable"))), policy(pool("pool1", checked("NodeFailed"))), nil},
		"patches known again":   {policy(pool("pool1", checked("NodeFailed"))), policy(pool("pool1", checked(""))), nil},
		"still frozen":          {policy(pool("pool1", decided("RolledBack"))), policy(pool("pool1", decided("TooManyFailures"))), nil},
		"thawed":                {policy(pool("pool1", decided("RolledBack"))), policy(pool("pool1", decided("NoNewPatch"))), nil},
		"frozen after failures": {
			policy(pool("pool1", decided("Capturing")), pool("pool2", decided("TooManyFailures"))),
			policy(pool("pool1", decided("TooManyFailures")), pool("pool2", decided("TooManyFailures"))),
			[]string{"frozen prototypepolicies/all pool1 2026.03.01 [TooManyFailures] Kamino captures no node of pool pool1: because; " +
				v1alpha1.RetryCommand("all")},
		},
		"nodes do not join": {
			policy(pool("pool1", nil)), policy(pool("pool1", func(s *v1alpha1.PoolStatus) {
				s.JoinHealth = &v1alpha1.JoinHealthStatus{Version: "2026.03.01", State: "NodesDoNotJoin", Message: "2 of 2 nodes failed"}
			})),
			[]string{"attention prototypepolicies/all pool1  [NodesDoNotJoin] Nodes of pool pool1 do not join, and the pool keeps the image version. " +
				"2 of 2 nodes failed. Next: new nodes still use version 2026.03.01, until you act; kamino plan pool1"},
		},
		"nodes still do not join": {
			policy(pool("pool1", func(s *v1alpha1.PoolStatus) {
				s.JoinHealth = &v1alpha1.JoinHealthStatus{Version: "2026.03.01", State: "NodesDoNotJoin", Message: "2 of 2 nodes failed"}
			})),
			policy(pool("pool1", func(s *v1alpha1.PoolStatus) {
				s.JoinHealth = &v1alpha1.JoinHealthStatus{Version: "2026.03.01", State: "NodesDoNotJoin", Message: "3 of 3 nodes failed"}
			})),
			nil,
		},
		"two pools of one name": {
			policy(pool("pool1", decided("RolledBack")), v1alpha1.PoolStatus{Name: "pool1", ID: "other"}),
			policy(pool("pool1", decided("RolledBack")),
				v1alpha1.PoolStatus{Name: "pool1", ID: "other", CurrentVersion: "2026.03.01",
					Decision: &v1alpha1.PoolDecision{Reason: "RolledBack", Message: "because"}}),
			[]string{frozenByRollback},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, lines(OfPolicy(test.before, test.after, now))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCloudEvent has the required attributes, and the same ID for the same change.
func TestCloudEvent(t *testing.T) {
	promoted := func(now time.Time) Notice {
		all := OfPrototype(prototype(v1alpha1.PrototypeStatus{}), prototype(v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseSucceeded}), now)
		if len(all) != 1 {
			t.Fatalf("%d notices", len(all))
		}
		return all[0]
	}
	n := promoted(now)
	n.Data.Cluster = "prod"
	text, err := n.CloudEvent()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"specversion":"1.0","id":"u1-promoted","source":"/kamino/prod","type":"dev.kamino.promoted","subject":"prototypes/pool1-2026.03.09",` +
		`"time":"2026-03-09T12:00:00Z","datacontenttype":"application/json","data":{"cluster":"prod","pool":"pool1","version":"2026.03.09",` +
		`"message":"New nodes of pool pool1 use version 2026.03.09.","command":"kamino history pool1","link":"https://github.com/kamino-dev/kamino/blob/main/docs/tasks/history.md"}}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if again := promoted(now.Add(time.Hour)); again.ID != n.ID {
		t.Errorf("the ID of the same change is %s, then %s", n.ID, again.ID)
	}
	n.Data.Cluster = ""
	if text, err = n.CloudEvent(); err != nil || !strings.Contains(string(text), `"source":"/kamino"`) {
		t.Errorf("%s (%v)", text, err)
	}
}

// TestChat is a text without marks that a name of the cluster could use.
func TestChat(t *testing.T) {
	n := Notice{Data: Data{Cluster: "prod", Message: "<!channel> & <https://evil|pool> @here", Command: "kamino history pool1", Link: "https://example.org"}}
	text, err := n.Chat()
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]string
	if err := json.Unmarshal(text, &body); err != nil {
		t.Fatal(err)
	}
	want := "[prod] &lt;!channel&gt; &amp; &lt;https://evil|pool&gt; @\u200bhere\n`kamino history pool1`\nhttps://example.org"
	if diff := cmp.Diff(map[string]string{"text": want}, body); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEveryKindIsAnEvent with a type, a link and a command.
func TestEveryKindIsAnEvent(t *testing.T) {
	at := metav1.NewTime(now)
	frozen := pool("pool1", func(s *v1alpha1.PoolStatus) {
		s.Decision = &v1alpha1.PoolDecision{Reason: v1alpha1.PolicyRolledBack}
		s.JoinHealth = &v1alpha1.JoinHealthStatus{RolledBackAt: &at}
		s.Patches = &v1alpha1.PatchesStatus{PendingPatches: v1alpha1.PendingPatches{Reason: "NodeFailed"}}
	})
	all := OfPolicy(policy(), policy(frozen), now)
	for _, status := range []v1alpha1.PrototypeStatus{
		{Phase: v1alpha1.PhaseSucceeded},
		{Phase: v1alpha1.PhaseAwaitingPromotion},
		{Phase: v1alpha1.PhaseFailed, Failure: &v1alpha1.Failure{}},
	} {
		all = append(all, OfPrototype(prototype(v1alpha1.PrototypeStatus{}), prototype(status), now)...)
	}
	kinds := map[Kind]bool{}
	for _, n := range all {
		kinds[n.Kind] = true
		text, err := n.CloudEvent()
		if err != nil || !strings.Contains(string(text), TypePrefix+string(n.Kind)) {
			t.Errorf("%s (%v)", text, err)
		}
		page, heading, _ := strings.Cut(strings.TrimPrefix(n.Data.Link, docs), "#")
		linked, err := os.ReadFile("../../docs/" + page)
		words := strings.ToLower(strings.ReplaceAll(string(linked), " ", "-"))
		if err != nil || heading != "" && !strings.Contains(words, "#-"+heading+"\n") {
			t.Errorf("notice %s links to %s (%v)", n.Kind, n.Data.Link, err)
		}
		if !strings.HasPrefix(n.Data.Link, docs) || !strings.HasPrefix(n.Data.Command, "kamino ") || n.ID == "" {
			t.Errorf("%+v", n)
		}
	}
	for _, kind := range []Kind{Promoted, Failed, RolledBack, Approval, Frozen, Unchecked} {
		if !kinds[kind] {
			t.Errorf("there is no notice %s", kind)
		}
	}
}
