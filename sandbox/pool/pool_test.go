package pool

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/sandbox/azure"
)

func TestParse(t *testing.T) {
	defaults := Spec{Name: "p", Nodes: 3, Max: 10, Generation: "V2", UpgradePolicy: "Manual", Security: "Standard"}
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
		"name=p,profile=bootstrap,token-ttl=24h":  with(func(s *Spec) { s.Profile, s.TokenTTL = "bootstrap", 24*time.Hour }),
		"name=p,kind=clusterclass":                with(func(s *Spec) { s.Kind = ClusterClass }),
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
		"":                         `key "" is unknown`,
		"nodes=3":                  `name ""`,
		"name=Pool":                "lower case",
		"name=p,size=3":            `key "size" is unknown`,
		"name=p,nodes=many":        "whole number",
		"name=p,nodes=-1":          "0 to 20000",
		"name=p,nodes=1001":        "add light",
		"name=p,max=-2":            "0 or more",
		"name=p,generation=V3":     "use one of V1, V2",
		"name=p,kind=MachineSet":   "use one of MachineDeployment, ClusterClass, MachinePool",
		"name=p,ephemeral=perhaps": "true or false",
		"name=p,profile=bootstrap,token-ttl=soon":     "pass a duration",
		"name=p,nodes=1,nodes=2":                      "is set twice",
		"name=p,security=trustedlaunch,generation=V1": "needs generation=V2",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want it to say %q", text, err, want)
		}
	}
}

func TestAzureSpec(t *testing.T) {
	for text, says := range map[string]func(azure.PoolSpec) bool{
		"name=p,nodes=4":                  func(p azure.PoolSpec) bool { return p.Nodes == 4 },
		"name=p,max=7":                    func(p azure.PoolSpec) bool { return p.MaxNodes == 7 && p.MinNodes == 1 },
		"name=p,max=0":                    func(p azure.PoolSpec) bool { return p.MaxNodes == 0 && p.MinNodes == 0 },
		"name=p,generation=V1":            func(p azure.PoolSpec) bool { return p.Generation == "V1" && p.Image == "" },
		"name=p,profile=bootstrap":        func(p azure.PoolSpec) bool { return p.Profile == "bootstrap" },
		"name=p,ephemeral":                func(p azure.PoolSpec) bool { return p.Ephemeral },
		"name=p,windows":                  func(p azure.PoolSpec) bool { return p.Windows && p.Image == windowsImage },
		"name=p,upgrade-policy=Automatic": func(p azure.PoolSpec) bool { return p.UpgradePolicy == "Automatic" },
		"name=p,os-upgrade":               func(p azure.PoolSpec) bool { return p.AutoOSUpgrade },
		"name=p":                          func(p azure.PoolSpec) bool { return p.SecurityType == "" && p.Zones == nil },
		"name=p,security=TrustedLaunch":   func(p azure.PoolSpec) bool { return p.SecurityType == "TrustedLaunch" },
		"name=p,aks":                      func(p azure.PoolSpec) bool { return p.AKSManaged },
		"name=p,zones":                    func(p azure.PoolSpec) bool { return len(p.Zones) == 3 },
		"name=p,light":                    func(p azure.PoolSpec) bool { return p.Light },
	} {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := spec.Azure("#cloud-config"); !says(got) || string(got.CustomData) != "#cloud-config" || got.Name != spec.ScaleSet() {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestIs(t *testing.T) {
	s := Spec{Name: "pool1"}
	for name, want := range map[string]bool{"pool1": true, "POOL1": true, s.ScaleSet(): true, s.Group(): true, "pool": false, "": false} {
		if s.Is(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

func TestOn(t *testing.T) {
	for text, want := range map[string]struct {
		cloud   Cloud
		profile string
		refused string
	}{
		"name=p":                          {Azure, "static", ""},
		"name=p,profile=bootstrap,aks":    {Azure, "bootstrap", ""},
		"name=p,nodes=2,max=4,zones":      {AWS, "bootstrap", ""},
		"name=p,token-ttl=10m":            {Azure, "", "needs profile=bootstrap"},
		"name=p,profile=static":           {AWS, "", "profile=static is for Azure"},
		"name=p,generation=V1":            {AWS, "", "generation is for Azure"},
		"name=p,upgrade-policy=Automatic": {AWS, "", "upgrade-policy is for Azure"},
		"name=p,os-upgrade":               {AWS, "", "os-upgrade is for Azure"},
		"name=p,ephemeral":                {AWS, "", "ephemeral is for Azure"},
		"name=p,windows":                  {AWS, "", "windows is for Azure"},
		"name=p,security=TrustedLaunch":   {AWS, "", "security is for Azure"},
		"name=p,aks":                      {AWS, "", "aks is for Azure"},
		"name=p,light":                    {AWS, "", "light is for Azure"},
		"name=p,kind=machinepool":         {AWS, "bootstrap", ""},
	} {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := spec.On(want.cloud)
		switch {
		case want.refused == "" && (err != nil || got.Profile != want.profile):
			t.Errorf("%s on %s: profile %q, %v", text, want.cloud, got.Profile, err)
		case want.refused != "" && (err == nil || !strings.Contains(err.Error(), want.refused)):
			t.Errorf("%s on %s: %v, want it to say %q", text, want.cloud, err, want.refused)
		}
	}
}
