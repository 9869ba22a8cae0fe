package pool

import (
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/azure"
)

// clusterSuffix is in the names of everything that is made for one cluster.
const clusterSuffix = "24816321"

// ScaleSet is the name of the pool's scale set, in the form that AKS Engine gives it. Nodes are named after
// it, with six more characters.
func (s Spec) ScaleSet() string { return "k8s-" + s.Name + "-" + clusterSuffix + "-vmss" }

// Group is the name of the pool's Auto Scaling group.
func (s Spec) Group() string { return "nodes-" + s.Name + "-" + clusterSuffix }

// In is what the pool is called in a cloud.
func (s Spec) In(cloud Cloud) string {
	if cloud == AWS {
		return s.Group()
	}
	return s.ScaleSet()
}

// BootstrapExtension is the name of the extension that bootstraps the nodes of a static pool.
const BootstrapExtension = "vmssCSE"

// Is tells whether a person means this pool: by its own name, or by what it is called in its cloud, in any case.
func (s Spec) Is(name string) bool {
	return strings.EqualFold(name, s.Name) || slices.ContainsFunc(Clouds(), func(c Cloud) bool { return strings.EqualFold(name, s.In(c)) })
}

// windowsImage is a generic one of generation 2.
const windowsImage = "MicrosoftWindowsServer:WindowsServer:2022-datacenter-core-g2:20348.2762.241009"

// Azure is the pool as the simulated cloud is told to make it.
func (s Spec) Azure(customData string) azure.PoolSpec {
	out := azure.PoolSpec{
		Name:          s.ScaleSet(),
		Nodes:         s.Nodes,
		MaxNodes:      s.Max,
		Generation:    s.Generation,
		Profile:       s.Profile,
		UpgradePolicy: s.UpgradePolicy,
		AutoOSUpgrade: s.OSUpgrade,
		Ephemeral:     s.Ephemeral,
		AKSManaged:    s.AKS,
		Windows:       s.Windows,
		CustomData:    []byte(customData),
		Light:         s.Light,
		Tags:          map[string]string{"poolName": s.Name, "resourceNameSuffix": clusterSuffix},
	}
	if s.Max > 0 {
		out.MinNodes = 1
	}
	if s.Security != "Standard" {
		out.SecurityType = s.Security
	}
	if s.Zones {
		out.Zones = []string{"1", "2", "3"}
	}
	if s.Windows {
		out.Image = windowsImage
	}
	return out
}
