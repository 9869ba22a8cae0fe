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
	"github.com/kamino-dev/kamino/internal/cloud/memory"
)

// removal is a policy whose donors are removed, for the pools that the change says.
func removal(change func(*v1alpha1.PrototypePolicySpec)) v1alpha1.PrototypePolicy {
	p := v1alpha1.PrototypePolicy{}
	p.Name = "swap"
	p.Spec.Settings.Donor.Afterwards = v1alpha1.Remove
	if change != nil {
		change(&p.Spec)
	}
	return p
}

// deny has the API server deny one request.
func deny(d *Doctor, verb, resource string) {
	d.Kube.(*fake.Clientset).PrependReactor("create", "selfsubjectaccessreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		review := a.(kubetesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		if at := review.Spec.ResourceAttributes; at.Verb != verb || at.Resource != resource {
			return false, nil, nil
		}
		return true, review, nil
	})
}

// TestWhatRemovingADonorNeeds is looked for where a donor would be removed, by how the nodes join or by a policy that is for
// the pool, and nowhere else: the right in the cluster, and that at the cloud, each in one sentence with the remedy.
func TestWhatRemovingADonorNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		joins  string // what the nodes carry
		policy *v1alpha1.PrototypePolicy
		err    error // of reading policies
		leaves string
	}{
		"they return":            {},
		"nodes of Cluster API":   {joins: "cluster.x-k8s.io/machine", leaves: "nodes of profile bootstrap join with what is taken off the disk"},
		"a policy for all":       {policy: new(removal(nil)), leaves: "policy swap has it removed"},
		"a policy that names it": {policy: new(removal(func(p *v1alpha1.PrototypePolicySpec) { p.Pools.Names = []string{"other", "POOL1"} })), leaves: "policy swap has it removed"},
		"one that names another": {policy: new(removal(func(p *v1alpha1.PrototypePolicySpec) { p.Pools.Names = []string{"other"} }))},
		"a policy that selects it": {policy: new(removal(func(p *v1alpha1.PrototypePolicySpec) {
			p.Pools.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": "a"}}
		})), leaves: "policy swap has it removed"},
		"one that selects another": {policy: new(removal(func(p *v1alpha1.PrototypePolicySpec) {
			p.Pools.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": "z"}}
		}))},
		"one whose selector is broken": {policy: new(removal(func(p *v1alpha1.PrototypePolicySpec) {
			p.Pools.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "name", Operator: "near"}}}
		}))},
		"a policy whose donors return": {policy: new(removal(func(p *v1alpha1.PrototypePolicySpec) { p.Settings.Donor.Afterwards = v1alpha1.Return }))},
		"nobody tells the policies":    {policy: new(removal(nil)), err: errors.New("forbidden")},
	} {
		for _, lacking := range []string{"", "cluster", "cloud"} {
			t.Run(strings.TrimSpace(name+" "+lacking), func(t *testing.T) {
				d, world, _ := stage(t, memory.PoolSpec{})
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
					world.Forbid("EnsureRemoved")
				}
				report := examine(t, d)
				var told []string
				for _, check := range []string{CheckRBAC, CheckPermissions} {
					told = append(told, findings(report, check)...)
				}
				want := ""
				switch {
				case c.leaves == "":
				case lacking == "cluster":
					want = "fail RemovalNotAllowed: this user may not delete nodes, which a donor that does not return needs; " + c.leaves
				case lacking == "cloud":
					want = "fail PermissionMissing: the credential may not do EnsureRemoved on memory:///pools/pool1, which a donor that does not return needs"
				default:
					want = "ok: this user may delete nodes, which a donor that does not return needs; " + c.leaves
				}
				if want != "" && !slices.Contains(told, want) {
					t.Errorf("it does not say %q of\n%s", want, strings.Join(told, "\n"))
				}
				if failed := report.Failures > 0; failed != (c.leaves != "" && lacking != "") {
					t.Errorf("%d failures: %s", report.Failures, strings.Join(told, "\n"))
				}
				if c.leaves == "" && strings.Contains(strings.Join(told, ""), "does not return") {
					t.Errorf("it speaks of what is not needed: %s", strings.Join(told, "\n"))
				}
			})
		}
	}
}

// TestWhatATrialNeeds is looked for where a policy for the pool may try versions apart: it fails where the policy says that it
// does, and is a warning where it says nothing, for a trial may be in the pool instead.
func TestWhatATrialNeeds(t *testing.T) {
	const says = ": the credential may not do EnsureTrial on memory:///pools/pool1, which a trial of a version needs"
	for name, c := range map[string]struct {
		mode  v1alpha1.TrialMode
		pools []string
		none  bool
		level string
	}{
		"no policy":             {none: true},
		"nothing said":          {level: "warn"},
		"apart":                 {mode: v1alpha1.TrialApart, level: "fail PermissionMissing"},
		"apart in others":       {mode: v1alpha1.TrialApart, pools: []string{"other"}},
		"in the pool":           {mode: v1alpha1.TrialInPool},
		"never":                 {mode: v1alpha1.TrialOff},
		"apart in this by name": {mode: v1alpha1.TrialApart, pools: []string{"POOL1"}, level: "fail PermissionMissing"},
	} {
		t.Run(name, func(t *testing.T) {
			d, world, _ := stage(t, memory.PoolSpec{})
			d.Policies = func(context.Context) ([]v1alpha1.PrototypePolicy, error) {
				if c.none {
					return nil, nil
				}
				p := v1alpha1.PrototypePolicy{}
				p.Name, p.Spec.Settings.Trial.Mode, p.Spec.Pools.Names = "tries", c.mode, c.pools
				return []v1alpha1.PrototypePolicy{p}, nil
			}
			world.Forbid("EnsureTrial")
			told := strings.Join(findings(examine(t, d), CheckPermissions), "\n")
			if c.level == "" {
				if strings.Contains(told, "trial") {
					t.Errorf("it speaks of what is not needed: %s", told)
				}
				return
			}
			if !strings.Contains(told, c.level+says) {
				t.Errorf("it does not say %q of\n%s", c.level+says, told)
			}
		})
	}
}
