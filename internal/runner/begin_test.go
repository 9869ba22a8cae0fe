package runner

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/membership"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

func testDonor(name string) *Donor {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Spec.ProviderID = "memory:///pools/pool1/instances/" + name
	return &Donor{Node: node, Pool: policy.PoolRef{ID: "memory:///pools/pool1", Name: "pool1"}}
}

// among sets the pools of the Prototypes.
func (d *Donor) among(t *testing.T, all []v1alpha1.Prototype) *Donor {
	t.Helper()
	var err error
	if d.Of, err = membership.OfPrototypes(t.Context(), memory.New(memory.Config{}), all); err != nil {
		t.Fatal(err)
	}
	return d
}

func prior(name, version, node string, phase v1alpha1.Phase) v1alpha1.Prototype {
	p := v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec = v1alpha1.PrototypeSpec{Pool: "pool1", Version: version,
		Donor: v1alpha1.Donor{NodeName: node, ProviderID: "memory:///pools/pool1/instances/" + node}}
	p.Status.Phase = phase
	return p
}

// testNow is the time in these tests.
var testNow = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

func refused(err error) bool {
	var r *cluster.Refused
	return errors.As(err, &r)
}

// TestACaptureOutlivesItsNode: a capture continues after the loss of its node; other requests for a missing node fail.
func TestACaptureOutlivesItsNode(t *testing.T) {
	failed := prior("pool1-2026.03.08", "2026.03.08", "n", v1alpha1.PhaseFailed)
	flying := prior("pool1-2026.03.09", "2026.03.09", "n", v1alpha1.PhasePublishing)
	other := prior("pool1-2026.03.10", "2026.03.10", "m", v1alpha1.PhasePublishing)
	if p := captureOf("n", []v1alpha1.Prototype{failed, other, flying}); p == nil || p.Name != flying.Name {
		t.Errorf("of node n it is %v", p)
	}
	if p := captureOf("n", []v1alpha1.Prototype{failed, other}); p != nil {
		t.Errorf("a capture that has ended, or of another node, is %v", p.Name)
	}
}

// TestACaptureOutlivesItsPlaceInThePool: an instance in removal may have left the pool, while the Node still exists. The
// capture continues; a node without a pool and a capture is refused.
func TestACaptureOutlivesItsPlaceInThePool(t *testing.T) {
	left := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{ProviderID: "memory:///elsewhere/n"}}
	connection := &cluster.Connection{Kube: fake.NewClientset(left)}
	provider := memory.New(memory.Config{})
	_, err := FindDonor(t.Context(), connection, provider.Provider, "n", nil)
	if !refused(err) || !strings.Contains(err.Error(), "node n belongs to no pool that can be captured, and nothing was changed: not an instance of a pool") {
		t.Errorf("it is %v", err)
	}
	if !isGone(err) {
		t.Error("a capture does not explain that")
	}
	_, err = FindDonor(t.Context(), connection, provider.Provider, "m", nil)
	if !refused(err) || !isGone(err) {
		t.Errorf("of a Node that is gone it is %v", err)
	}
	left.Spec.ProviderID = ""
	_, err = FindDonor(t.Context(), &cluster.Connection{Kube: fake.NewClientset(left)}, provider.Provider, "n", nil)
	if !refused(err) || isGone(err) {
		t.Errorf("of a node that is no cloud's it is %v", err)
	}
}

func TestDecide(t *testing.T) {
	deleting := prior("pool1-2026.03.09", "2026.03.09", "n", v1alpha1.PhaseDraining)
	deleting.DeletionTimestamp = &metav1.Time{Time: testNow}
	namesake := prior("pool1-2026.03.09", "2026.03.09", "n", v1alpha1.PhaseDraining)
	namesake.Spec.Donor.ProviderID = "memory:///pools/other/instances/n"

	for name, test := range map[string]struct {
		version  string
		all      []v1alpha1.Prototype
		want     string // name
		existing bool
		refused  string // a part of the sentence
	}{
		"a first capture takes today": {want: "pool1-2026.03.09"},
		"a day that was asked for":    {version: "2026.03.08", want: "pool1-2026.03.08"},
		"after a failure, the next name": {
			all:  []v1alpha1.Prototype{prior("pool1-2026.03.09", "2026.03.09", "n", v1alpha1.PhaseFailed)},
			want: "pool1-2026.03.09-2",
		},
		"after two failures, the one after": {
			all: []v1alpha1.Prototype{prior("pool1-2026.03.09", "2026.03.09", "n", v1alpha1.PhaseFailed),
				prior("pool1-2026.03.09-2", "2026.03.09", "n", v1alpha1.PhaseFailed)},
			want: "pool1-2026.03.09-3",
		},
		"a success of the day": {
			all:     []v1alpha1.Prototype{prior("pool1-2026.03.09", "2026.03.09", "m", v1alpha1.PhaseSucceeded)},
			refused: "already has version 2026.03.09",
		},
		"a success of another day": {
			all:  []v1alpha1.Prototype{prior("pool1-2026.03.08", "2026.03.08", "m", v1alpha1.PhaseSucceeded)},
			want: "pool1-2026.03.09",
		},
		"the same donor in flight is gone on with": {
			all:  []v1alpha1.Prototype{prior("pool1-2026.03.09", "2026.03.09", "n", v1alpha1.PhaseDraining)},
			want: "pool1-2026.03.09", existing: true,
		},
		"also when midnight has passed": {
			all:  []v1alpha1.Prototype{prior("pool1-2026.03.08", "2026.03.08", "n", v1alpha1.PhasePublishing)},
			want: "pool1-2026.03.08", existing: true,
		},
		"but not as another version than asked for": {
			version: "2026.03.09",
			all:     []v1alpha1.Prototype{prior("pool1-2026.03.08", "2026.03.08", "n", v1alpha1.PhasePublishing)},
			refused: "is being captured as version 2026.03.08",
		},
		"another donor in flight": {
			all:     []v1alpha1.Prototype{prior("pool1-2026.03.08", "2026.03.08", "m", v1alpha1.PhasePublishing)},
			refused: "another capture of pool pool1 is running: Prototype pool1-2026.03.08 captures node m",
		},
		"one on its way out": {all: []v1alpha1.Prototype{deleting}, refused: "is being deleted"},
		"a pool of the same name elsewhere is another pool": {
			all: []v1alpha1.Prototype{namesake}, want: "pool1-2026.03.09-2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decide(testDonor("n").among(t, test.all), test.version, v1alpha1.Settings{}, test.all, testNow)
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) || !refused(err) {
					t.Fatalf("decide: %v, want a refusal with %q", err, test.refused)
				}
				if !strings.Contains(err.Error(), "nothing was changed") {
					t.Errorf("%q does not say that nothing was changed", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Prototype.Name != test.want || got.Existing != test.existing {
				t.Errorf("decide = %s (existing %t), want %s (existing %t)", got.Prototype.Name, got.Existing, test.want, test.existing)
			}
		})
	}
}

// TestDecideOverAPioneer: a running pioneer is followed by the name of its donor or its pool. A request for a patch does not follow a capture without a patch.
func TestDecideOverAPioneer(t *testing.T) {
	takes := prior("pool1-2026.03.09", "2026.03.09", "m", v1alpha1.PhasePatching)
	takes.Spec.Pioneer = &v1alpha1.PioneerSettings{}
	plain := prior("pool1-2026.03.09", "2026.03.09", "m", v1alpha1.PhaseDraining)
	for _, test := range []struct {
		name    string
		running v1alpha1.Prototype
		donor   Donor
		node    string
		refused string
	}{
		{"the pool, for another node", takes, Donor{Patches: true, OfPool: true}, "n", ""},
		{"another node of the pool", takes, Donor{Patches: true}, "n", "captures node m"},
		{"the donor, without a patch", takes, Donor{}, "m", ""},
		{"the donor of a capture without a patch", plain, Donor{Patches: true}, "m", "node m is being captured without a patch by Prototype pool1-2026.03.09"},
		{"the pool of a capture without a patch", plain, Donor{Patches: true, OfPool: true}, "n", "another capture of pool pool1 is running"},
	} {
		all := []v1alpha1.Prototype{test.running}
		donor := testDonor(test.node).among(t, all)
		donor.Patches, donor.OfPool = test.donor.Patches, test.donor.OfPool
		got, err := Decide(donor, "", v1alpha1.Settings{}, all, testNow)
		if test.refused != "" && (!refused(err) || !strings.Contains(err.Error(), test.refused)) || test.refused == "" && (err != nil || !got.Existing) {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
	}
}

func TestANewPrototypeCarriesEverySetting(t *testing.T) {
	got, err := Decide(testDonor("n").among(t, nil), "", v1alpha1.Settings{Keep: 5}, nil, testNow)
	if err != nil {
		t.Fatal(err)
	}
	s := got.Prototype.Spec.Settings
	if s.Keep != 5 || s.Drain.Timeout.Duration != 15*time.Minute {
		t.Errorf("settings = %+v", s)
	}
	if got.Prototype.Labels[v1alpha1.PoolLabel] != "pool1" {
		t.Errorf("labels = %v", got.Prototype.Labels)
	}
}

func TestTheSearchForANameEnds(t *testing.T) {
	var all []v1alpha1.Prototype
	for attempt := 1; attempt <= maxTries; attempt++ {
		all = append(all, prior(v1alpha1.PrototypeName("pool1", "2026.03.09", attempt), "2026.03.09", "n", v1alpha1.PhaseFailed))
	}
	if _, err := Decide(testDonor("n").among(t, all), "", v1alpha1.Settings{}, all, testNow); !refused(err) {
		t.Errorf("decide: %v, want a refusal", err)
	}
}

func TestPoolsWithoutAProviderAreComparedByName(t *testing.T) {
	d := testDonor("n")
	foreign := prior("x", "2026.03.09", "n", v1alpha1.PhaseDraining)
	foreign.Spec.Donor.ProviderID = "elsewhere://1"
	named := prior("y", "2026.03.09", "n", v1alpha1.PhaseDraining)
	named.Spec.Pool, named.Spec.PoolID = "another-name", "memory:///pools/pool1"
	elsewhere := prior("z", "2026.03.09", "n", v1alpha1.PhaseDraining)
	elsewhere.Spec.PoolID = "memory:///pools/elsewhere"
	all := []v1alpha1.Prototype{foreign, named, elsewhere}
	member := d.Pool.Its(all, d.among(t, all).Of)
	if len(member) != 2 || member[0].Name != "x" {
		t.Errorf("a Prototype whose provider ID can't be read must count for the pool that it names, and another for the pool whose ID it names: %v", member)
	}
	if d.Of[0].Pool != "" {
		t.Error("the provider reads a foreign ID")
	}
}
