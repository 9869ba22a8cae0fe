package bootconfig

import (
	"fmt"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilsysctl "k8s.io/component-helpers/node/util/sysctl"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// tunables are the kernel parameters that the kubelet sets, or only compares with protectKernelDefaults. standard is the
// kernel's own value. Source: setupKernelTunables in pkg/kubelet/cm/container_manager_linux.go.
var tunables = []struct {
	flag             string
	standard, wanted int
}{
	{utilsysctl.VMOvercommitMemory, 0, utilsysctl.VMOvercommitMemoryAlways},
	{utilsysctl.VMPanicOnOOM, 0, utilsysctl.VMPanicOnOOMInvokeOOMKiller},
	{utilsysctl.KernelPanic, 0, utilsysctl.KernelPanicRebootTimeout},
	{utilsysctl.KernelPanicOnOops, 0, utilsysctl.KernelPanicOnOopsAlways},
	{utilsysctl.RootMaxKeys, utilsysctl.RootMaxKeysSetting, utilsysctl.RootMaxKeysSetting},
	{utilsysctl.RootMaxBytes, utilsysctl.RootMaxBytesSetting, utilsysctl.RootMaxBytesSetting},
}

// protectedKernel is the failure of a kubelet that may not change kernel parameters.
func (f files) protectedKernel() error {
	var problems []error
	for _, t := range tunables {
		value := f.sysctl(strings.ReplaceAll(t.flag, "/", "."))
		if value == "" {
			value = fmt.Sprint(t.standard)
		}
		if value != fmt.Sprint(t.wanted) {
			problems = append(problems, fmt.Errorf("invalid kernel flag: %s, expected value: %d, actual value: %s", t.flag, t.wanted, value))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return failed(KubeletUnit, "Failed to start ContainerManager: %w", utilerrors.NewAggregate(problems))
}

// overlay is the module of containerd's snapshotter.
const overlay = "overlay"

// rootfs is the error of each container without the module of the snapshotter. Source: containerd, mount_linux.go.
func (f files) rootfs() string {
	if f.loads(overlay) {
		return ""
	}
	return `mount source: "overlay", target: "/run/containerd/io.containerd.runtime.v2.task/k8s.io/pod/rootfs", fstype: overlay: no such device: unknown`
}

// loads reports whether the kernel can load a module: the kernel's modules are there, and no file makes another program of
// the load. Source: modprobe.d(5); CIS benchmarks disable modules by "install NAME /bin/false".
func (f files) loads(module string) bool {
	if !f.exists("/lib/modules/" + disk.Kernel(f.root)) {
		return false
	}
	for _, dir := range []string{"/usr/lib/modprobe.d", "/lib/modprobe.d", "/etc/modprobe.d"} {
		for _, path := range f.list(dir, ".conf") {
			for line := range strings.Lines(f.text(path)) {
				words := strings.Fields(line)
				if len(words) > 2 && words[0] == "install" && words[1] == module && (strings.HasSuffix(words[2], "/false") || strings.HasSuffix(words[2], "/true")) {
					return false
				}
			}
		}
	}
	return true
}
