package bench

import (
	"fmt"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
)

// latencies are the sandbox's own, except for steps that a correct capture does not wait for while the donor is out of service.
func latencies() (azure.Latencies, machine.Latencies) {
	return azure.Latencies{Version: 45 * time.Second, Create: time.Second}, machine.Latencies{
		Install: time.Second, Join: time.Second, Extension: time.Second, Kubelet: kubelet.Latencies{ImagePull: time.Second},
	}
}

// shortened names the values that differ from the sandbox's own.
func shortened() string {
	cloud, machines := latencies()
	cloud, machines = cloud.Defaulted(), machines.Defaulted()
	ownCloud, ownMachines := azure.Latencies{}.Defaulted(), machine.Latencies{}.Defaulted()
	var words []string
	for _, l := range []struct {
		of       string
		set, own time.Duration
	}{
		{"publishing", cloud.Version, ownCloud.Version},
		{"creation of an instance", cloud.Create, ownCloud.Create},
		{"installation", machines.Install, ownMachines.Install},
		{"join", machines.Join, ownMachines.Join},
		{"an extension", machines.Extension, ownMachines.Extension},
		{"an image pull", machines.Kubelet.ImagePull, ownMachines.Kubelet.ImagePull},
	} {
		words = append(words, fmt.Sprintf("%s %s (else %s)", l.of, brief(l.set), brief(l.own)))
	}
	return strings.Join(words, ", ")
}

// brief writes a duration without trailing zeros.
func brief(d time.Duration) string {
	if d >= 2*time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%.3g s", d.Seconds())
}
