package nodepatch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ofDevices are the prefixes of labels that show a device of the node. Labels about the kernel and the processor may change with
// patches. Source: Node Feature Discovery, feature labels; NVIDIA GPU feature discovery; AMD and Intel device plugins.
var ofDevices = []string{
	"feature.node.kubernetes.io/pci-", "feature.node.kubernetes.io/usb-", "feature.node.kubernetes.io/network-",
	"feature.node.kubernetes.io/storage-", "feature.node.kubernetes.io/custom-", "nvidia.com/gpu.", "nvidia.com/mig.", "amd.com/gpu.", "gpu.intel.com/",
}

// abilities are what a node offers to pods by its drivers, with their numbers: extended resources, runtime handlers and labels of devices.
func abilities(n *corev1.Node) map[string]int64 {
	found := map[string]int64{}
	for name, quantity := range n.Status.Allocatable {
		domain, _, isExtended := strings.Cut(string(name), "/")
		if isExtended && !strings.HasSuffix(domain, "kubernetes.io") && quantity.Cmp(resource.Quantity{}) > 0 {
			found["resource "+string(name)] = quantity.Value()
		}
	}
	for _, handler := range n.Status.RuntimeHandlers {
		if handler.Name != "" {
			found["runtime handler "+handler.Name] = 1
		}
	}
	for label := range n.Labels {
		if slices.ContainsFunc(ofDevices, func(prefix string) bool { return strings.HasPrefix(label, prefix) }) {
			found["label "+label] = 1
		}
	}
	return found
}

// lost names the first ability that a node had before, or had more of; empty if none is lost.
func lost(before map[string]int64, n *corev1.Node) string {
	now := abilities(n)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if had := before[name]; now[name] < had {
			return fmt.Sprintf("the node had %d of %s before the patch, and has %d since the reboot: its driver is lost, or does not fit the new kernel",
				had, name, now[name])
		}
	}
	return ""
}
