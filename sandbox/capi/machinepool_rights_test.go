package capi_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/capi"
	"github.com/kamino-dev/kamino/internal/cloud/registry"
)

// allow gives an account rights in a namespace.
func (p *pool) allow(user, namespace string, rules []rbacv1.PolicyRule) {
	p.t.Helper()
	name := metav1.ObjectMeta{Namespace: namespace, Name: user}
	for _, o := range []client.Object{
		&rbacv1.Role{ObjectMeta: name, Rules: rules},
		&rbacv1.RoleBinding{ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}},
	} {
		if err := p.client.Create(context.Background(), o); err != nil {
			p.t.Fatal(err)
		}
	}
}

// account creates an account with the rights that `kamino manifests` prints for a cloud.
func (p *pool) account(name string) (of cloud.Description, user string, config *rest.Config) {
	p.t.Helper()
	of, err := registry.All().Choose(name, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	rules, err := capi.Rules(of)
	if err != nil {
		p.t.Fatal(err)
	}
	user = "kamino-of-" + p.namespace
	p.allow(user, p.namespace, rules)
	config = rest.CopyConfig(p.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	as, err := client.New(config, client.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	// Rights apply a moment after their creation.
	p.wait("rights of "+user, func() bool { _, err := p.find(as, "Machine"); return err == nil })
	return of, user, config
}

// runWorkshop begins and ends a workshop.
func (p *pool) runWorkshop(recipes *capi.PoolProvider, id cloud.PoolID) {
	p.t.Helper()
	spec := cloud.WorkshopSpec{Pool: id, Name: "of-rights", Tags: ofOwner}
	if against, err := recipes.PreflightWorkshop(p.t.Context(), spec); err != nil || len(against) > 0 {
		p.t.Errorf("against a workshop: %+v, %v", against, err)
	}
	until := func(want cloud.State, look func() (cloud.State, error)) {
		p.t.Helper()
		p.wait("workshop that is "+string(want), func() bool {
			state, err := look()
			if err != nil {
				p.t.Fatal(err)
			}
			return state == want
		})
	}
	until(cloud.Complete, func() (cloud.State, error) {
		have, err := recipes.EnsureWorkshop(p.t.Context(), spec)
		return have.State, err
	})
	until(cloud.Absent, func() (cloud.State, error) { return recipes.EndWorkshop(p.t.Context(), spec) })
}

// runTrial begins and ends a trial, and calls look between.
func (p *pool) runTrial(recipes *capi.PoolProvider, trial cloud.TrialSpec, look func()) {
	p.t.Helper()
	must := func(err error) {
		p.t.Helper()
		if err != nil {
			p.t.Fatal(err)
		}
	}
	against, err := recipes.PreflightTrial(p.t.Context(), trial)
	must(err)
	if len(against) > 0 {
		p.t.Errorf("against a trial: %+v", against)
	}
	_, err = recipes.EnsureTrial(p.t.Context(), trial)
	must(err)
	p.wait("a machine to try", func() bool {
		have, err := recipes.Trial(p.t.Context(), trial)
		must(err)
		return have.State == cloud.Complete
	})
	look()
	p.wait("the trial's end", func() bool {
		state, err := recipes.EndTrial(p.t.Context(), trial)
		must(err)
		return state == cloud.Absent
	})
}

// TestRightsOfMachinePools: the rights that `kamino manifests --management` prints for Azure suffice for all work
// on a MachinePool. Without the right to read the provider's Deployment, the error names the missing right.
func TestRightsOfMachinePools(t *testing.T) {
	t.Parallel()
	p := newMachinePool(t, azurePool)
	p.publish("2026.01.09")
	azure, user, config := p.account("azure")
	recipes, err := capi.New(capi.Config{Management: config, Cluster: types.NamespacedName{Namespace: p.namespace, Name: "home"}, Images: p})
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	instances := p.instances()
	preflight := func() []cloud.Refusal {
		t.Helper()
		found, err := recipes.PreflightRecipe(t.Context(), cloud.PreflightSpec{Pool: p.id(), Instance: instances[2]})
		must(err)
		return found
	}
	if found := preflight(); !slices.Equal(reasons(found), []string{"NodesWouldBeReplaced"}) ||
		!strings.Contains(found[0].Message, "kamino manifests --management") {
		t.Fatalf("without the right to look at the Deployment: %+v", found)
	}
	for namespace, rules := range capi.RulesApart(azure) {
		p.allow(user, namespace, rules)
	}
	p.wait("the right", func() bool { return len(preflight()) == 0 })

	lacks, err := recipes.Permissions(t.Context(), p.id())
	must(err)
	if slices.ContainsFunc(lacks, func(l cloud.Permission) bool { return !l.Allowed }) {
		t.Errorf("rights: %+v", lacks)
	}
	pools, err := recipes.PoolsInScope(t.Context(), p.id())
	must(err)
	census, err := recipes.Instances(t.Context(), p.id())
	must(err)
	if !slices.Equal(pools, []cloud.PoolID{p.id()}) || len(census) != 3 {
		t.Errorf("pools %v with %+v", pools, census)
	}
	change, err := recipes.RecipeChange(t.Context(), cloud.Target{Pool: p.id(), Version: "2026.01.09", Image: p.imageID("2026.01.09")}, false)
	must(err)
	must(recipes.SetRecipe(t.Context(), change))
	trial := cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: p.id(), Version: "2026.01.09"}, Name: "of-rights", To: p.imageID("2026.01.09")}
	p.runTrial(recipes, trial, func() {
		for _, m := range p.list("Machine") { // the pool's zone, but not the data
			if m.GetLabels()["told"] != "kept" || m.GetLabels()["cluster.x-k8s.io/pool-name"] == "" &&
				m.Object["spec"].(map[string]any)["failureDomain"] != "2" {
				t.Errorf("Machine %s: %v, %v", m.GetName(), m.GetLabels(), m.Object["spec"])
			}
		}
	})
	if now := p.instances(); p.size() != 3 || !slices.Equal(now, instances) {
		t.Errorf("the pool wants %d machines, and has %v", p.size(), now)
	}
}
