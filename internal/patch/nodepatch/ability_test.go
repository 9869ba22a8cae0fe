package nodepatch

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kamino-dev/kamino/internal/patch/plan"
)

// TestLostDrivers: a pioneer that offers less after its reboot fails before its capture, and the failure names what is lost.
func TestLostDrivers(t *testing.T) {
	type change func(n *corev1.Node)
	gpus := func(count string) change {
		return func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "nvidia.com/gpu": resource.MustParse(count), "hugepages-2Mi": resource.MustParse("0")}
		}
	}
	handlers := func(names ...string) change {
		return func(n *corev1.Node) {
			n.Status.RuntimeHandlers = nil
			for _, name := range names {
				n.Status.RuntimeHandlers = append(n.Status.RuntimeHandlers, corev1.NodeRuntimeHandler{Name: name})
			}
		}
	}
	label := func(name string) change { return func(n *corev1.Node) { n.Labels[name] = "true" } }
	without := func(name string) change { return func(n *corev1.Node) { delete(n.Labels, name) } }
	for name, c := range map[string]struct {
		before, after change
		lost          string
	}{
		"nothing":           {gpus("8"), gpus("8"), ""},
		"more than before":  {gpus("4"), gpus("8"), ""},
		"all GPUs":          {gpus("8"), gpus("0"), "had 8 of resource nvidia.com/gpu before the patch, and has 0"},
		"a GPU":             {gpus("8"), gpus("7"), "and has 7"},
		"a runtime handler": {handlers("", "runc", "nvidia"), handlers("", "runc"), "runtime handler nvidia"},
		"a device's label":  {label("feature.node.kubernetes.io/pci-10de.present"), without("feature.node.kubernetes.io/pci-10de.present"), "pci-10de.present"},
		"a processor's":     {label("feature.node.kubernetes.io/cpu-cpuid.RTM"), without("feature.node.kubernetes.io/cpu-cpuid.RTM"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t)
			s.change(func(n *corev1.Node) {
				if n.Labels == nil {
					n.Labels = map[string]string{}
				}
				c.before(n)
			})
			s.between = func(int) {
				if n := s.node(); s.record.Boot != "" && n.Status.NodeInfo.BootID != s.record.Boot {
					s.change(c.after)
				}
			}
			s.run()
			if c.lost == "" {
				s.wantPatched()
				return
			}
			if s.record.Failure != string(plan.SoakFailed) || !strings.Contains(s.record.Problem, c.lost) {
				t.Errorf("failed with %q, %q; want %q", s.record.Failure, s.record.Problem, c.lost)
			}
			if s.node().Spec.Unschedulable {
				t.Error("the node is not in service")
			}
		})
	}
}
