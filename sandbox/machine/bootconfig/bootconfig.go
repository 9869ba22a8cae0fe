// Package bootconfig reads the files that a boot reads of a machine's disk: the kubelet's flags, configuration and static
// pods, the container runtime's, the network plugin's, kernel parameters and modules, resolver, authorities, clock, free
// space and problem detector.
// The package decides what the Node says, or with which sentence a program ends. Flags, defaults and validation
// are the kubelet's own code. The package changes no file.
package bootconfig

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The units that a boot starts.
const (
	KubeletUnit = "kubelet.service"
	RuntimeUnit = "containerd.service"
)

// ClusterDNS is the address of the cluster's name server.
const ClusterDNS = "10.0.0.10"

// Machine holds the facts that are not on the disk.
type Machine struct {
	// Hostname of the running system, and IP of its network card.
	Hostname, IP string
	// Type is the instance type.
	Type string
	// Server is the host name of the cluster's API server; empty if the connection itself shows another cluster.
	Server string
	// Now is the true time.
	Now time.Time
	// KernelLog holds the lines of the kernel during this boot.
	KernelLog []string
}

// Config is the effect of a disk on its node.
type Config struct {
	// NodeName and ProviderID by the kubelet's flags and configuration. Without a ProviderID, the cloud's controller
	// sets one if the kubelet runs with an external cloud provider.
	NodeName, ProviderID string
	ExternalCloud        bool
	// Address is the InternalIP; empty if the kubelet refuses its --node-ip.
	Address string
	Labels  map[string]string
	Taints  []corev1.Taint

	Capacity, Allocatable corev1.ResourceList
	DiskPressure          bool
	// Conditions of the node problem detector.
	Conditions []corev1.NodeCondition
	// Clock is how far the system's clock is ahead of the true time.
	Clock time.Duration
	// NoClusterDNS: pods ask another name server than the cluster's. NoForwarding: pods have no way out of the node.
	NoClusterDNS, NoForwarding bool

	// Network is the runtime's message that its network is not ready; empty if the network is ready.
	Network string
	// Sandbox is the error of each new pod sandbox with an own network; Cgroup and Rootfs those of each new pod sandbox.
	Sandbox, Cgroup, Rootfs string
	// OpenFiles is the hard limit of open files in containers; 0 for the host's.
	OpenFiles uint64
	// StaticPods are the mirror pods of the kubelet, without an owner.
	StaticPods []corev1.Pod

	// resolver and authorities are the errors of each pull; registries the errors by host.
	resolver, authorities string
	registries            map[string]string
}

// Failure is the end of a program at its start, or its endless retry. Text is the program's last line.
type Failure struct{ Unit, Text string }

// Error implements error.
func (f *Failure) Error() string { return f.Unit + ": " + f.Text }

func failed(unit, format string, args ...any) error {
	return &Failure{unit, fmt.Errorf(format, args...).Error()}
}

// cores by the end of AWS's types. Types of Azure have the number behind the letters of the family.
var (
	cores       = map[string]int64{"medium": 1, "large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16}
	coresOfSize = regexp.MustCompile(`^Standard_[A-Z]+([0-9]+)`)
)

// Capacity of a machine of a type with 4 GiB for each core, such as Standard_D2s_v5 or m6i.large, and a disk of 30 GiB.
func Capacity(kind string) corev1.ResourceList {
	n := cores[kind[strings.LastIndex(kind, ".")+1:]]
	if size := coresOfSize.FindStringSubmatch(kind); size != nil {
		n, _ = strconv.ParseInt(size[1], 10, 64)
	}
	if n == 0 {
		n = cores["large"]
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(n, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(n*4<<30, resource.BinarySI),
		corev1.ResourceEphemeralStorage: resource.MustParse("30Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
}

// CheckRuntime returns a *Failure if the container runtime does not start from the disk at root.
func CheckRuntime(root string) error {
	_, err := files{root}.runtime()
	return err
}

// Read reads the disk at root. The error is a *Failure if container runtime or kubelet would not run.
func Read(root string, m Machine) (Config, error) {
	f := files{root}
	c := Config{Clock: f.clock(m.Now)}
	now := m.Now.Add(c.Clock)
	runtime, err := f.runtime()
	if err != nil {
		return c, err
	}
	server, err := f.kubelet()
	if err != nil {
		return c, err
	}
	if err := f.credential(server.KubeletFlags, m, now); err != nil {
		return c, err
	}
	if runtime.withoutCRI {
		return c, failed(KubeletUnit, "failed to run Kubelet: validate service connection: validate CRI v1 runtime API for endpoint %q: "+
			"rpc error: code = Unimplemented desc = unknown service runtime.v1.RuntimeService", server.ContainerRuntimeEndpoint)
	}
	if !server.RegisterNode {
		return c, failed(KubeletUnit, "the kubelet does not register a Node: --register-node is false")
	}
	if err := c.node(server, m); err != nil {
		return c, err
	}
	if server.ProtectKernelDefaults {
		if err := f.protectedKernel(); err != nil {
			return c, err
		}
	}
	if c.DiskPressure, err = f.pressure(server.EvictionHard, c.Capacity.StorageEphemeral()); err != nil {
		return c, err
	}
	c.Conditions = f.problems(m.KernelLog)
	c.NoClusterDNS = len(server.ClusterDNS) > 0 && !slices.Contains(server.ClusterDNS, ClusterDNS)
	c.NoForwarding = f.sysctl("net.ipv4.ip_forward") != "1"
	c.Network, c.Sandbox = f.network(runtime)
	c.Cgroup, c.Rootfs = runtime.cgroupProblem(server.CgroupDriver), f.rootfs()
	c.OpenFiles = f.openFiles(RuntimeUnit)
	c.StaticPods = f.staticPods(server.StaticPodPath, c.NodeName)
	c.resolver, c.authorities, c.registries = f.resolver(), f.authorities(now), f.registries(runtime)
	return c, nil
}
