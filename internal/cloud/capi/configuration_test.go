package capi

import "testing"

// TestConfiguration: a new image, or a label of Machines alone, changes nothing on nodes. Bootstrap template, labels and taints of Nodes do.
func TestConfiguration(t *testing.T) {
	configuration := func(kind, labels, infrastructure, bootstrap, taints string) string {
		return parseObject(t, "{kind: "+kind+", spec: {template: {metadata: {labels: {"+labels+"}}, spec: {infrastructureRef: {name: "+infrastructure+
			"}, bootstrap: {configRef: {kind: KubeadmConfigTemplate, name: "+bootstrap+"}}, taints: ["+taints+"]}}}}").configuration()
	}
	was := configuration(kindDeployment, "node-role.kubernetes.io/db: ''", "i1", "b1", "{key: a}")
	for name, test := range map[string]struct {
		is   string
		same bool
	}{
		"its MachineSet": {configuration(kindSet, "node-role.kubernetes.io/db: '', machine-template-hash: x", "i2", "b1", "{key: a}"), true},
		"bootstrap":      {configuration(kindSet, "node-role.kubernetes.io/db: ''", "i1", "b2", "{key: a}"), false},
		"label":          {configuration(kindSet, "node-role.kubernetes.io/web: ''", "i1", "b1", "{key: a}"), false},
		"taint":          {configuration(kindSet, "node-role.kubernetes.io/db: ''", "i1", "b1", "{key: b}"), false},
	} {
		if test.is == "" || (test.is == was) != test.same {
			t.Errorf("%s: %q, was %q", name, test.is, was)
		}
	}
	if pool := configuration(kindPool, "", "i1", "b1", ""); pool != "" || (object{}).configuration() != "" {
		t.Errorf("of a MachinePool: %q", pool)
	}
}
