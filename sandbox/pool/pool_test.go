package pool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	defaults := Spec{Name: "p", Nodes: 3, Max: 10, Generation: "V2", Profile: "static", UpgradePolicy: "Manual", Security: "Standard"}
	with := func(change func(*Spec)) Spec {
		s := defaults
		change(&s)
		return s
	}
	for text, want := range map[string]Spec{
		"name=p":                                  defaults,
		"name=p, nodes=0 ,max=0":                  with(func(s *Spec) { s.Nodes, s.Max = 0, 0 }),
		"name=p,generation=v1,profile=Bootstrap":  with(func(s *Spec) { s.Generation, s.Profile = "V1", "bootstrap" }),
		"name=p,upgrade-policy=rolling":           with(func(s *Spec) { s.UpgradePolicy = "Rolling" }),
		"ephemeral,name=p,windows=true,aks=false": with(func(s *Spec) { s.Ephemeral, s.Windows = true, true }),
		"name=p,nodes=5000,light":                 with(func(s *Spec) { s.Nodes, s.Light = 5000, true }),
	} {
		got, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                         `no key ""`,
		"nodes=3":                  `name ""`,
		"name=Pool":                "lower case",
		"name=p,size=3":            `no key "size"`,
		"name=p,nodes=many":        "whole number",
		"name=p,nodes=-1":          "0 to 20000",
		"name=p,nodes=1001":        "add light",
		"name=p,max=-2":            "0 or more",
		"name=p,generation=V3":     "none of V1, V2",
		"name=p,ephemeral=perhaps": "true or false",
		"name=p,nodes=1,nodes=2":   "given twice",
		"name=p,security=trustedlaunch,generation=V1": "wants generation=V2",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want it to say %q", text, err, want)
		}
	}
}

// at reads a value from a JSON document by its path.
func at(t *testing.T, document any, path ...string) any {
	t.Helper()
	raw, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	for _, key := range path {
		object, _ := value.(map[string]any)
		value = object[key]
	}
	return value
}

func TestModelSaysWhatTheSpecSays(t *testing.T) {
	const profile = "virtualMachineProfile"
	for _, c := range []struct {
		spec string
		path []string
		want any
	}{
		{"name=p,nodes=4", []string{"sku", "capacity"}, float64(4)},
		{"name=p,max=7", []string{"tags", "max"}, "7"},
		{"name=p,max=0", []string{"tags", "max"}, nil},
		{"name=p", []string{"properties", profile, "storageProfile", "imageReference", "sku"}, "22_04-lts-gen2"},
		{"name=p,generation=V1", []string{"properties", profile, "storageProfile", "imageReference", "sku"}, "22_04-lts"},
		{"name=p", []string{"properties", profile, "storageProfile", "osDisk", "diffDiskSettings"}, nil},
		{"name=p,ephemeral", []string{"properties", profile, "storageProfile", "osDisk", "diffDiskSettings", "option"}, "Local"},
		{"name=p,windows", []string{"properties", profile, "storageProfile", "osDisk", "osType"}, "Windows"},
		{"name=p,upgrade-policy=Automatic", []string{"properties", "upgradePolicy", "mode"}, "Automatic"},
		{"name=p,os-upgrade", []string{"properties", "upgradePolicy", "automaticOSUpgradePolicy", "enableAutomaticOSUpgrade"}, true},
		{"name=p,security=TrustedLaunch", []string{"properties", profile, "securityProfile", "securityType"}, "TrustedLaunch"},
		{"name=p,aks", []string{"tags", "aks-managed-poolName"}, "p"},
		{"name=p,light", []string{"tags", LightTag}, "true"},
		{"name=p", []string{"zones"}, nil},
		{"name=p", []string{"properties", profile, "osProfile", "customData"}, "I2Nsb3VkLWNvbmZpZw=="},
	} {
		spec, err := Parse(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := at(t, spec.Model("westus2", "#cloud-config", ""), c.path...); got != c.want {
			t.Errorf("%s: %s is %v, want %v", c.spec, strings.Join(c.path, "."), got, c.want)
		}
	}
}

func TestIs(t *testing.T) {
	s := Spec{Name: "pool1"}
	for name, want := range map[string]bool{"pool1": true, "POOL1": true, s.ScaleSet(): true, "pool": false, "": false} {
		if s.Is(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
