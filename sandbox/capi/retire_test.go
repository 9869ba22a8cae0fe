package capi_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestRetiredTemplates: the template of a deleted version stays while a MachineSet refers to the template. The next
// promotion deletes the template.
func TestRetiredTemplates(t *testing.T) {
	t.Parallel()
	p := newPool(t, withTwoMachines(deployment))
	r := p.recipes()
	const first = "2026.03.14"
	p.promote(r, first)
	// template of the first version; empty if there is none.
	template := func() string {
		all := p.list("AWSMachineTemplate")
		at := slices.IndexFunc(all, func(o unstructured.Unstructured) bool { return o.GetAnnotations()["kamino.dev/version"] == first })
		if at < 0 {
			return ""
		}
		return all[at].GetName()
	}
	// sets returns the MachineSets that refer to the template.
	sets := func() []unstructured.Unstructured {
		return slices.DeleteFunc(p.list("MachineSet"), func(set unstructured.Unstructured) bool {
			return text(&set, "spec", "template", "spec", "infrastructureRef", "name") != template()
		})
	}
	p.wait("MachineSet of the first version", func() bool { return template() != "" && len(sets()) == 1 })
	p.mu.Lock()
	delete(p.published, first)
	p.mu.Unlock()
	p.promote(r, "2026.03.15")
	if template() == "" {
		t.Fatal("the template is gone, which a MachineSet names")
	}
	if err := p.client.Delete(t.Context(), &sets()[0]); err != nil { // as Cluster API deletes a set without machines
		t.Fatal(err)
	}
	p.wait("end of the MachineSet", func() bool { return len(sets()) == 0 })
	p.promote(r, "2026.03.16")
	if left := template(); left != "" {
		t.Errorf("template %s is left, but no recipe names the template", left)
	}
	p.waitSize(2)
}
