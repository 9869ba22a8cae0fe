package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// removal is a policy that removes donors, for the pools of the change.
func removal(change func(*v1alpha1.PrototypePolicySpec)) v1alpha1.PrototypePolicy {
	p := v1alpha1.PrototypePolicy{}
	p.Name = "swap"
	p.Spec.Settings.Donor.AfterCapture = v1alpha1.RemoveDonor
	if change != nil {
		change(&p.Spec)
	}
	return p
}

// deny lets the API server deny one request.
func deny(d *Doctor, verb, resource string) {
	d.Kube.(*fake.Clientset).PrependReactor("create", "selfsubjectaccessreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		review := a.(kubetesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		if at := review.Spec.ResourceAttributes; at.Verb != verb || at.Resource != resource {
			return false, nil, nil
		}
		return true, review, nil
	})
}

// TestPermissionsOfDonorRemoval is checked only if a profile or a policy would remove a donor: the permission in the cluster,
// and the permission in the cloud, each in one message with the remedy.
func TestPermissionsOfDonorRemoval(t *testing.T) {
	for name, c := range map[string]struct {
		joins  string // what the nodes carry
		policy *v1alpha1.PrototypePolicy
		err    error // of reading policies
		leaves string
	}{
		"they return":          {},
		"nodes of Cluster API": {joins: "cluster.x-k8s.io/machine", leaves: "Kamino deletes the join credential of profile bootstrap from the disk"},
		"a policy for all":     {policy: new(removal(nil)), leaves: "policy swap removes donors"},
		"a policy that names it": {policy: new(removal(func(p *v1alpha1.PrototypePolicySpec) { p.Pools.Names = []string{"other", "POOL1"} })),
			leaves: "policy swap removes donors"},
		"one that names another": {policy: new(removal(func(p *v1alpha1.PrototypePolicySpec) { p.Pools.Names = []string{"other"} }))},
		"a policy that selects it": {policy: new(removal(func(p *v1alpha1.PrototypePolicySpec) {
			p.Pools.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": "a"}}
		})), leaves: "policy swap removes donors"},
		"one that selects another": {policy: new(removal(func(p *v1alpha1.PrototypePolicySpec) {
			p.Pools.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": "z"}}
		}))},
		"one whose selector is broken": {policy: new(removal(func(p *v1alpha1.PrototypePolicySpec) {
			p.Pools.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "name", Operator: "near"}}}
		}))},
		"a policy whose donors return": {policy: new(removal(func(p *v1alpha1.PrototypePolicySpec) { p.Settings.Donor.AfterCapture = v1alpha1.ReturnDonor }))},
		"the policies are unknown":     {policy: new(removal(nil)), err: errors.New("forbidden")},
	} {
		for _, lacking := range []string{"", "cluster", "cloud"} {
			t.Run(strings.TrimSpace(name+" "+lacking), func(t *testing.T) {
				d, memoryCloud, _ := newDoctor(t, memory.PoolSpec{})
				for _, node := range []string{"a", "b"} {
					d.change(t, node, func(n *corev1.Node) {
						n.Labels = map[string]string{"name": node}
						if c.joins != "" {
							n.Annotations[c.joins] = "m"
						}
					})
				}
				d.Policies = func(context.Context) ([]v1alpha1.PrototypePolicy, error) {
					if c.policy == nil {
						return nil, nil
					}
					return []v1alpha1.PrototypePolicy{*c.policy}, c.err
				}
				switch lacking {
				case "cluster":
					deny(d, "delete", "nodes")
				case "cloud":
					memoryCloud.Forbid("EnsureRemoved")
				}
				report := examine(t, d)
				var reported []string
				for _, check := range []string{CheckRBAC, CheckPermissions} {
					reported = append(reported, findings(report, check)...)
				}
				want := ""
				switch {
				case c.leaves == "":
				case lacking == "cluster":
					want = "fail NotAllowed: this user may not delete nodes, needed for a donor that does not return; " + c.leaves
				case lacking == "cloud":
					want = "fail PermissionMissing: the credential lacks EnsureRemoved on memory:///pools/pool1, needed for a donor that does not return"
				default:
					want = "ok: this user may delete nodes, needed for a donor that does not return; " + c.leaves
				}
				if want != "" && !slices.Contains(reported, want) {
					t.Errorf("it does not say %q of\n%s", want, strings.Join(reported, "\n"))
				}
				if failed := report.Failures > 0; failed != (c.leaves != "" && lacking != "") {
					t.Errorf("%d failures: %s", report.Failures, strings.Join(reported, "\n"))
				}
				if c.leaves == "" && strings.Contains(strings.Join(reported, ""), "does not return") {
					t.Errorf("it speaks of what is not needed: %s", strings.Join(reported, "\n"))
				}
			})
		}
	}
}

// TestPermissionsOfTrial depends on the trial modes of the pool's policies. Each missing action is a
// failure of its own, because captures are refused.
func TestPermissionsOfTrial(t *testing.T) {
	for name, c := range map[string]struct {
		modes  []v1alpha1.TrialMode // of a policy each
		pools  []string
		needed bool
	}{
		"no policy":                  {needed: true},
		"nothing said":               {modes: []v1alpha1.TrialMode{""}, needed: true},
		"apart":                      {modes: []v1alpha1.TrialMode{v1alpha1.TrialApart}, needed: true},
		"never in others":            {modes: []v1alpha1.TrialMode{v1alpha1.TrialOff}, pools: []string{"other"}, needed: true},
		"never":                      {modes: []v1alpha1.TrialMode{v1alpha1.TrialOff}},
		"never in this by name":      {modes: []v1alpha1.TrialMode{v1alpha1.TrialOff}, pools: []string{"POOL1"}},
		"one says so, another never": {modes: []v1alpha1.TrialMode{v1alpha1.TrialOff, v1alpha1.TrialApart}, needed: true},
	} {
		t.Run(name, func(t *testing.T) {
			d, memoryCloud, _ := newDoctor(t, memory.PoolSpec{})
			d.Policies = func(context.Context) (all []v1alpha1.PrototypePolicy, _ error) {
				for _, mode := range c.modes {
					p := v1alpha1.PrototypePolicy{}
					p.Name, p.Spec.Settings.Trial.Mode, p.Spec.Pools.Names = "tries", mode, c.pools
					all = append(all, p)
				}
				return all, nil
			}
			memoryCloud.Forbid("EnsureTrial", "EndTrial")
			reported := strings.Join(findings(examine(t, d), CheckPermissions), "\n")
			for _, action := range []string{"EnsureTrial", "EndTrial"} {
				says := "fail PermissionMissing: the credential lacks " + action + " on memory:///pools/pool1, needed for a trial next to the pool"
				if strings.Contains(reported, says) != c.needed {
					t.Errorf("it says %q: %t\n%s", says, strings.Contains(reported, says), reported)
				}
			}
			if !c.needed && strings.Contains(reported, "trial") {
				t.Errorf("it speaks of what is not needed: %s", reported)
			}
		})
	}
}
