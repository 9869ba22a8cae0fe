package pool

import (
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/azure"
)

// clusterSuffix is part of all names of a cluster.
const clusterSuffix = "24816321"

// ScaleSet is the name of the pool's scale set, in the form of AKS Engine. Node names add six characters.
func (s Spec) ScaleSet() string { return "k8s-" + s.Name + "-" + clusterSuffix + "-vmss" }

// Group is the name of the pool's Auto Scaling group.
func (s Spec) Group() string { return "nodes-" + s.Name + "-" + clusterSuffix }

// In is the name of the pool in a cloud.
func (s Spec) In(cloud Cloud) string {
	if cloud == AWS {
		return s.Group()
	}
	return s.ScaleSet()
}

// BootstrapExtension is the name of the extension that bootstraps the nodes of a static pool.
const BootstrapExtension = "vmssCSE"

// Is reports whether name is the pool's name or its name in a cloud, in any case.
func (s Spec) Is(name string) bool {
	return strings.EqualFold(name, s.Name) || slices.ContainsFunc(Clouds(), func(c Cloud) bool { return strings.EqualFold(name, s.In(c)) })
}

// windowsImage is a generic image of generation 2.
const windowsImage = "MicrosoftWindowsServer:WindowsServer:2022-datacenter-core-g2:20348.2762.241009"

// Azure is the description of the pool for the simulated cloud.
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
