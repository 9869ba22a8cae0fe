package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestUnreadableFieldsAreLeftOut of objects, which keep all others.
func TestUnreadableFieldsAreLeftOut(t *testing.T) {
	for _, test := range []struct {
		name, text, unreadable string
		inSpec                 bool
		want                   v1alpha1.PrototypePolicy
	}{
		{
			name: "nothing", text: `{"metadata":{"name":"a"},"spec":{"suspend":true}}`,
			want: v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.PrototypePolicySpec{Suspend: true}},
		},
		{
			name: "a number", text: `{"metadata":{"name":"a"},"spec":{"suspend":true,"settings":{"keep":4,"outOfService":{"maxUnavailable":4294967296}}}}`,
			unreadable: "spec.settings.outOfService.maxUnavailable is 4294967296", inSpec: true,
			want: v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"},
				Spec: v1alpha1.PrototypePolicySpec{Suspend: true, Settings: v1alpha1.Settings{Keep: 4}}},
		},
		{
			name: "a trial mode of a former version", text: `{"metadata":{"name":"a"},"spec":{"settings":{"keep":4,"trial":{"mode":"InPool"}}}}`,
			unreadable: `spec.settings.trial.mode is "InPool"`, inSpec: true,
			want: v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.PrototypePolicySpec{Settings: v1alpha1.Settings{Keep: 4}}},
		},
		{
			name: "a whole part", text: `{"metadata":{"name":"a"},"spec":"` + strings.Repeat("s", 60) + `"}`,
			unreadable: `spec is "` + strings.Repeat("s", 39) + "…", inSpec: true, want: v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		},
		{
			name: "an item", text: `{"metadata":{"name":"a"},"spec":{},"status":{"pools":[{"name":"p"},7,{"name":"q","nodes":"two"}]}}`,
			unreadable: `status.pools[1] is 7; status.pools[2].nodes is "two"`,
			want: v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"},
				Status: v1alpha1.PrototypePolicyStatus{Pools: []v1alpha1.PoolStatus{{Name: "p"}, {Name: "q"}}}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got v1alpha1.PrototypePolicy
			if err := utiljson.Unmarshal([]byte(test.text), &got); err != nil {
				t.Fatal(err)
			}
			if got.Unreadable.String() != test.unreadable || got.Unreadable.InSpec() != test.inSpec {
				t.Errorf("unreadable: %s", got.Unreadable)
			}
			got.Unreadable = nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	var p v1alpha1.Prototype
	if err := utiljson.Unmarshal([]byte(`{"spec":{"settings":{"trial":{"mode":"InPool"}}},"status":{"phase":"RunningTrial","trial":{"mode":"InPool","result":"Pending"}}}`), &p); err != nil ||
		p.Unreadable.String() != `spec.settings.trial.mode is "InPool"` || p.Status.Trial.Result != v1alpha1.TrialPending {
		t.Errorf("a Prototype with a trial mode of a former version: %+v, %v", p, err)
	}
	if err := json.Unmarshal([]byte(`{"metadata":`), &p); err == nil {
		t.Error("half a text is decoded")
	}
}

// complete objects, which the next test damages.
var complete = []string{
	`{"apiVersion":"kamino.dev/v1alpha1","kind":"Prototype","metadata":{"name":"n","uid":"u","labels":{"a":"b"}},
	"spec":{"pool":"p","version":"2026.03.09","donor":{"nodeName":"n","providerID":"azure:///x"},"settings":{"keep":3,"drain":{"timeout":"15m"},
	"outOfService":{"deadline":"30m","maxUnavailable":"10%"},"azure":{"replicas":3},"trial":{"mode":"Apart","soak":"10m","ignoreDaemonSets":["a/b"]}}},
	"status":{"observedGeneration":1,"phase":"RunningTrial","conditions":[{"type":"Ready","status":"False","reason":"r","message":"m","lastTransitionTime":"2026-03-09T12:00:00Z"}],
	"steps":[{"name":"Draining","startedAt":"2026-03-09T12:00:00.000000Z"}],"donor":{"reservedAt":"2026-03-09T12:00:00.000000Z"},
	"trial":{"attempt":1,"nodeInfo":{"images":3,"readyAfter":"1m"},"checks":[{"name":"Ready","outcome":"Passed"}]},"image":{"id":"i","verified":{"rules":1,"bytes":2}}}}`,
	`{"apiVersion":"kamino.dev/v1alpha1","kind":"PrototypePolicy","metadata":{"name":"n","uid":"u"},
	"spec":{"pools":{"names":["p"]},"suspend":true,"maxConcurrent":2,"selection":{"minReadyTime":"1h","minCandidates":2,"excludeNodes":["n"]},
	"schedule":{"cron":"0 3 * * *","window":"2h"},"rollback":{"watch":"1h"},"settings":{"keep":3,"outOfService":{"maxUnavailable":2}}},
	"status":{"poolCount":1,"nextRun":"2026-03-09T12:00:00Z","pools":[{"id":"i","name":"p","nodes":2,"joinHealth":{"joined":1,"joins":[{"instance":"i","outcome":"Joined"}]}}]}}`,
	`{"apiVersion":"kamino.dev/v1alpha1","kind":"NodeOrder","metadata":{"name":"n","namespace":"s","uid":"u"},
	"spec":{"prototype":"p","prototypeUID":"u","generalize":{"method":"InPlace","bootID":"b","profile":"static"},"key":"k"},"status":{"report":"r"}}`,
}

// TestUnreadableObjectLeavesListReadable damages objects in a few places each, and decodes lists with good and damaged objects.
func TestUnreadableObjectLeavesListReadable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same objects in each run
	lists := []runtime.Object{&v1alpha1.PrototypeList{}, &v1alpha1.PrototypePolicyList{}, &v1alpha1.NodeOrderList{}}
	unreadable := 0
	for i, text := range complete {
		for range 200 {
			var object map[string]any
			if err := utiljson.Unmarshal([]byte(text), &object); err != nil {
				t.Fatal(err)
			}
			for range 1 + random.IntN(3) {
				for _, part := range []string{"spec", "status"} {
					if random.IntN(2) == 0 {
						object[part] = spoiled(random, object[part])
					}
				}
			}
			weird, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			list := lists[i].DeepCopyObject()
			if err := utiljson.Unmarshal(fmt.Appendf(nil, `{"items":[%s,%s,%s]}`, text, weird, text), list); err != nil {
				t.Fatalf("%s: %v", weird, err)
			}
			first, middle, last := items(list)
			if middle.name != "n/u" {
				t.Fatalf("%s: decoded as %s", weird, middle.name)
			}
			if first.unreadable != "" || last.unreadable != "" || first.name != "n/u" || last.name != "n/u" {
				t.Fatalf("%s spoils those around it: %+v, %+v", weird, first, last)
			}
			if middle.unreadable != "" {
				unreadable++
			}
		}
	}
	if unreadable < 200 {
		t.Errorf("only %d of 600 objects are unreadable", unreadable)
	}
}

// item is the relevant part of an object in a list.
type item struct{ name, unreadable string }

func items(list runtime.Object) (first, middle, last item) {
	var all []item
	switch of := list.(type) {
	case *v1alpha1.PrototypeList:
		for _, o := range of.Items {
			all = append(all, item{o.Name + "/" + string(o.UID), o.Unreadable.String()})
		}
	case *v1alpha1.PrototypePolicyList:
		for _, o := range of.Items {
			all = append(all, item{o.Name + "/" + string(o.UID), o.Unreadable.String()})
		}
	case *v1alpha1.NodeOrderList:
		for _, o := range of.Items {
			all = append(all, item{o.Name + "/" + string(o.UID), o.Unreadable.String()})
		}
	}
	return all[0], all[1], all[2]
}

// weirdValues are values of every kind that JSON has.
func weirdValues() []any {
	return []any{int64(1) << 32, -1e300, 1.5, int64(0), "", "one", "2026-03-09t12:00:00z", true, nil, []any{}, []any{int64(7), "x", nil},
		map[string]any{}, map[string]any{"a": int64(1)}}
}

// spoiled replaces a random part of a value.
func spoiled(random *rand.Rand, value any) any {
	switch of := value.(type) {
	case map[string]any:
		if len(of) > 0 && random.IntN(6) > 0 {
			keys := []string{}
			for key := range of {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			key := keys[random.IntN(len(keys))]
			of[key] = spoiled(random, of[key])
			return of
		}
	case []any:
		if len(of) > 0 && random.IntN(6) > 0 {
			i := random.IntN(len(of))
			of[i] = spoiled(random, of[i])
			return of
		}
	}
	weird := weirdValues()
	return weird[random.IntN(len(weird))]
}
