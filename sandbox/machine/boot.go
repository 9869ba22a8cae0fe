package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/sandbox/machine/bootconfig"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/machine/kubeadm"
	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
	"github.com/kamino-dev/kamino/sandbox/machine/nodeadm"
)

// boot takes the machine from power-on to a Ready Node, as far as disk and recipe allow.
func (s *session) boot() {
	type step struct {
		program string
		run     func() error
	}
	steps := []step{
		{"kernel", s.comeUp}, {"systemd", s.mount}, {"systemd", s.firstBoot}, {"cloud-init", s.cloudInit}, {"systemd", s.returning},
		{"waagent", s.extensions}, {"nodeadm", s.nodeadm}, {"kubelet", s.join},
	}
	if s.spec.Light {
		steps = []step{{"kernel", s.comeUp}, {"kubelet", s.joinLight}}
	}
	for _, step := range steps {
		err := step.run()
		if s.booting.Err() != nil {
			return
		}
		if err != nil {
			s.machine.fleet.config.Log.Error("boot got stuck", "machine", s.spec.ID, "error", err)
			s.printFailure(step.program, err)
			break
		}
	}
	s.login()
}

func (s *session) comeUp() error {
	for _, line := range s.kernelLog() {
		s.print("kernel", "%s", line)
	}
	return s.sleep(WaitBoot, "", s.latencies().Boot)
}

// mount reads fstab. A missing device ends the boot: no one sees the emergency shell.
func (s *session) mount() error {
	device, at := disk.MissingDevice(s.root)
	if device == "" {
		return nil
	}
	s.print("systemd", "Timed out waiting for device %s.", device)
	return fmt.Errorf("dependency failed for %s: dependency failed for local file systems. You are in emergency mode", at)
}

// login is the end of the boot on the console.
func (s *session) login() {
	name := disk.Hostname(s.root)
	s.printRaw(fmt.Sprintf("\n%s %s ttyS0\n\n%s login: \n", disk.OSImage(s.root), name, name))
}

func (s *session) latencies() Latencies { return s.machine.fleet.config.Latencies }

// facts of this machine, for files on its disk.
func (s *session) facts() disk.TemplateValues {
	address := s.machine.address()
	var a, b, c, d byte
	_, _ = fmt.Sscanf(address, "%d.%d.%d.%d", &a, &b, &c, &d)
	return disk.TemplateValues{
		Hostname: strings.ToLower(s.spec.ComputerName), VMID: s.instanceID(), IP: address,
		MAC:        fmt.Sprintf("00:0d:%02x:%02x:%02x:%02x", a, b, c, d),
		MachineID:  disk.MachineID(s.root),
		CustomData: string(s.spec.CustomData), Kernel: disk.Kernel(s.root),
		Kubelet: s.machine.fleet.config.KubeletVersion, Now: s.machine.fleet.config.Clock.Now(), Labels: s.poolLabels(),
	}
}

// poolLabels are the labels that the bootstrap of the pool gives to the kubelet's flags. Source: AKS Engine,
// KUBELET_NODE_LABELS in its cloud-init. The pool's own label is on Azure only.
func (s *session) poolLabels() string {
	if s.onEC2() {
		return ""
	}
	own := "agentpool=" + s.spec.Pool
	if orders, err := disk.ReadOrders(string(s.spec.CustomData)); err != nil || orders.Profile == disk.Bootstrap {
		return own
	}
	return staticLabels + "," + own
}

const staticLabels = "kubernetes.azure.com/role=agent,kubernetes.azure.com/cluster=sandbox,storageprofile=managed,storagetier=Premium_LRS"

// instanceID is the instance ID for cloud-init: the VM's UUID on Azure, the instance ID on EC2.
func (s *session) instanceID() string {
	if s.onEC2() {
		return s.spec.ID
	}
	return s.spec.VMID
}

func (s *session) onEC2() bool { return strings.HasPrefix(s.spec.ProviderID, "aws://") }

// firstBoot creates the missing identity, before any step with data of the cloud.
func (s *session) firstBoot() error {
	facts := s.facts()
	if name := disk.Hostname(s.root); name != "" {
		facts.Hostname = name
	}
	if err := disk.FirstBoot(s.root, facts); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.machineID = disk.MachineID(s.root)
	return nil
}

// returning runs the script of the first-boot unit that checks the machine. The rest of the unit creates on a real
// system what firstBoot creates here.
func (s *session) returning() error {
	if !disk.StartsAtBoot(s.root, "kamino-first-boot.service") || !disk.Exists(s.root, "etc/kamino/returning.sh") {
		return nil
	}
	if err := s.sleep(WaitBoot, "first-boot unit", s.latencies().FirstBoot); err != nil {
		return err
	}
	out, err := exec.CommandContext(s.booting, "/bin/sh", filepath.Join(s.root, "etc/kamino/returning.sh"), s.root).CombinedOutput()
	if err != nil {
		return fmt.Errorf("first-boot unit: %w: %s", err, out)
	}
	return nil
}

// cloudInit runs cloud-init's work for a new instance: the orders of the customData, restricted to the modules in the
// settings on the disk.
func (s *session) cloudInit() error {
	fresh := disk.IsNewInstance(s.root, s.instanceID())
	if err := disk.Provision(s.root, s.facts()); err != nil {
		return err
	}
	if !fresh {
		return nil
	}
	facts := s.facts()
	facts.Hostname = disk.Hostname(s.root)
	if err := disk.NewInstance(s.root, facts); err != nil {
		return err
	}
	orders, err := disk.ReadOrders(disk.Render(string(s.spec.CustomData), facts.Hostname))
	if err != nil {
		return err
	}
	modules, err := disk.CloudInitModules(s.root)
	if err != nil {
		return err
	}
	orders = orders.Within(modules)
	if err := orders.WriteFiles(s.root); err != nil || !orders.Bootstrap {
		return err
	}
	return s.bootstrap(orders, facts)
}

// bootstrap makes the machine a node. The time depends on the missing parts of the disk.
func (s *session) bootstrap(orders disk.Orders, facts disk.TemplateValues) error {
	if !disk.Installed(s.root) {
		if err := s.sleep(WaitInstall, "packages", s.latencies().Install); err != nil {
			return err
		}
		if err := errors.Join(disk.InstallNode(s.root, facts), disk.Traces(s.root, facts)); err != nil {
			return err
		}
	}
	for _, image := range disk.BaseImages {
		if disk.HasImage(s.root, image) {
			continue
		}
		if err := s.sleep(WaitPull, image, s.latencies().Kubelet.ImagePull); err != nil {
			return err
		}
		if err := disk.AddImage(s.root, image); err != nil {
			return err
		}
	}
	if err := s.sleep(WaitJoin, "", s.latencies().Join); err != nil {
		return err
	}
	if orders.Profile == disk.Bootstrap {
		if err := os.MkdirAll(filepath.Join(s.root, "run/kubeadm"), 0o700); err != nil {
			return err
		}
		var err error
		if facts.Taints, err = s.kubeadm(orders.Commands, facts.Hostname); err != nil {
			return err
		}
	}
	return disk.Join(s.root, orders.Profile, facts)
}

// kubeadm gives the machine a credential signed by the cluster, and returns the taints of the new Node.
func (s *session) kubeadm(commands, name string) (taints string, err error) {
	if !s.machine.fleet.config.Kubeadm {
		return "", nil
	}
	order, err := kubeadm.Read(s.root, commands)
	if err != nil {
		return "", err
	}
	// kubeadm pauses for five seconds of real time.
	patience := max(s.machine.fleet.config.Clock.Real(kubeadm.Patience), 10*time.Second)
	return order.Taints, kubeadm.Join(s.booting, s.root, name, order, patience)
}

// extensions runs each VM extension of the recipe whose handler has no record of a run.
func (s *session) extensions() error {
	for _, extension := range s.spec.Extensions {
		handler := extension.Publisher + "." + extension.Type
		if disk.ExtensionDone(s.root, handler) {
			continue
		}
		if err := s.sleep(WaitInstall, extension.Name, s.latencies().Extension); err != nil {
			return err
		}
		if err := disk.RecordExtension(s.root, handler, extension.Name); err != nil {
			return err
		}
	}
	return nil
}

// nodeadm joins the node at each boot if the disk has nodeadm.
func (s *session) nodeadm() error {
	join := s.machine.fleet.config.Nodeadm
	if !nodeadm.Present(s.root) || join == nil {
		return nil
	}
	if err := s.sleep(WaitJoin, "", s.latencies().Join); err != nil {
		return err
	}
	// systemd restarts the units until they succeed. (Restart=on-failure)
	return s.keepTrying("nodeadm", func() error {
		config, err := join(s.booting, s.root, s.spec.ID)
		if err != nil {
			return err
		}
		facts := s.facts()
		facts.Hostname = nodeadm.NodeName(s.root)
		s.mu.Lock()
		s.role = config
		s.mu.Unlock()
		return disk.Join(s.root, disk.EKS, facts)
	})
}

// join starts container runtime and kubelet. A disk with neither a bootstrap nor a credential never joins.
func (s *session) join() error {
	_, joined := disk.Joined(s.root)
	if !joined {
		if _, err := bootconfig.Read(s.root, s.hardware()); err != nil && disk.Installed(s.root) {
			s.printFailure("kubelet", err)
		}
		return errors.New("there is no kubelet with a credential on its disk, and nothing in its recipe bootstraps one")
	}
	s.mu.Lock()
	s.name = bootconfig.NodeName(s.root, disk.Hostname(s.root))
	s.mu.Unlock()
	if err := s.units.Set(containerdUnit, true); err != nil {
		return err
	}
	facts := s.facts()
	facts.Hostname = s.name
	if err := errors.Join(disk.CollectGarbage(s.root), disk.Serve(s.root, facts), disk.Agents(s.root, facts)); err != nil {
		return err
	}
	if s.defect.Kind == disk.NeverJoins {
		return errors.New("its kubelet does not start: the disk has the defect " + string(s.defect.Kind))
	}
	if err := s.sleep(WaitJoin, "kubelet", s.latencies().KubeletStart+s.late()); err != nil {
		return err
	}
	return s.keepTrying("kubelet", func() error {
		if s.machine.isHung() {
			return nil
		}
		return s.units.Set(kubeletUnit, true)
	})
}

func (s *session) joinLight() error {
	s.mu.Lock()
	s.name = strings.ToLower(s.spec.ComputerName)
	s.mu.Unlock()
	if err := s.sleep(WaitJoin, "kubelet", s.latencies().KubeletStart); err != nil {
		return err
	}
	return s.keepTrying("kubelet", func() error {
		if s.machine.isHung() {
			return nil
		}
		return s.startKubelet()
	})
}

// keepTrying restarts a program that ended because a server is away, as systemd does. A program that fails because of
// the disk does not start again: only a new boot, or an order to systemd, reads the disk again.
func (s *session) keepTrying(program string, start func() error) error {
	for last := ""; ; {
		err := start()
		var failure *bootconfig.Failure
		if err == nil || s.booting.Err() != nil || errors.As(err, &failure) {
			return err
		}
		if text := err.Error(); text != last {
			s.print(program, "%s", text)
			last = text
		}
		s.machine.fleet.config.Log.Warn("kubelet did not start, trying again", "machine", s.spec.ID, "error", err)
		if err := s.machine.fleet.config.Clock.Sleep(s.booting, 10*time.Second); err != nil {
			return err
		}
	}
}

// startKubelet starts the kubelet, with the host name that the disk had during this boot.
func (s *session) startKubelet() error {
	if s.machine.isHung() {
		return fmt.Errorf("the kubelet of %s hangs", s.spec.ID)
	}
	s.starting.Lock()
	defer s.starting.Unlock()
	k := s.agent()
	if k == nil {
		var err error
		if k, err = s.prepareKubelet(); err != nil {
			return err
		}
	}
	if err := k.Start(s.ctx); err != nil {
		return err
	}
	s.printUnit(kubeletUnit, description(kubeletUnit), nil)
	s.machine.fleet.lookForCollision(s.ctx, s.machine, k.Node())
	return nil
}

func (s *session) prepareKubelet() (*kubelet.Kubelet, error) {
	s.mu.Lock()
	name := s.name
	s.mu.Unlock()
	if name == "" {
		return nil, fmt.Errorf("machine %s has not come far enough to start its kubelet", s.spec.ID)
	}
	node := kubelet.Node{
		Name: name, ProviderID: s.spec.ProviderID, IP: s.machine.address(), Root: s.root, Labels: s.labels(), Info: s.info(),
		FirstRead: s.machine.firstRead,
	}
	var err error
	if !s.spec.Light {
		if node.Config, err = bootconfig.Read(s.root, s.hardware()); err != nil {
			return nil, err
		}
		s.obey(&node)
	}
	s.applyDefect(&node)
	if node.Client, err = s.client(); err != nil {
		return nil, err
	}
	if err := s.machine.fleet.takeName(s.ctx, node); err != nil {
		return nil, err
	}
	if err := s.machine.change(func(r *record) { r.Node = name }); err != nil {
		return nil, err
	}
	k := s.machine.fleet.kubelets.Prepare(s.ctx, node)
	return k, s.adopt(k)
}

// hardware holds the facts of this boot that are not on the disk. Invented kubeconfigs name an invented API server.
func (s *session) hardware() bootconfig.Machine {
	m := bootconfig.Machine{Hostname: disk.Hostname(s.root), IP: s.machine.address(), Now: time.Now(), KernelLog: s.kernelLog(), Type: s.spec.Type}
	if profile, _ := disk.Joined(s.root); profile == disk.Static || profile == disk.Bootstrap && !s.machine.fleet.config.Kubeadm {
		m.Server = disk.Server
	}
	return m
}

// obey applies the disk's configuration to the kubelet. Without an external cloud provider, the cloud's controller
// does nothing for the Node: no provider ID, no labels of the cloud. Source: cloud-provider, node controller.
func (s *session) obey(node *kubelet.Node) {
	if !node.Config.ExternalCloud {
		node.ProviderID, node.Labels = "", nil
	}
	if node.Config.ProviderID != "" {
		node.ProviderID = node.Config.ProviderID
	}
	node.Isolated = node.Config.NoForwarding
}

// client is a client with the machine's credential; nil if nodes share a credential.
func (s *session) client() (kubernetes.Interface, error) {
	profile, _ := disk.Joined(s.root)
	s.mu.Lock()
	config := s.role
	s.mu.Unlock()
	switch {
	case s.root != "" && profile == disk.EKS && config == nil:
		return nil, errors.New("the kubelet has no credential: nodeadm has not given its instance a role")
	case s.root != "" && profile == disk.EKS:
	case s.root == "" || profile != disk.Bootstrap || !s.machine.fleet.config.Kubeadm:
		return nil, nil
	default:
		var err error
		if config, err = kubeadm.Config(s.root); err != nil {
			return nil, fmt.Errorf("the kubelet's credential: %w", err)
		}
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	return kubernetes.NewForConfig(config)
}

// info is the system information of the Node.
func (s *session) info() corev1.NodeSystemInfo {
	info := corev1.NodeSystemInfo{
		MachineID: strings.ReplaceAll(s.spec.VMID, "-", ""), SystemUUID: s.uuid(), BootID: s.bootID,
		KernelVersion: disk.DefaultKernel, OSImage: "Ubuntu 22.04.5 LTS", KubeletVersion: s.machine.fleet.config.KubeletVersion,
		ContainerRuntimeVersion: "containerd://1.7.25", OperatingSystem: "linux", Architecture: "amd64",
	}
	if s.root == "" {
		return info
	}
	s.mu.Lock()
	info.MachineID = s.machineID
	s.mu.Unlock()
	info.KernelVersion, info.OSImage, info.KubeletVersion = disk.Kernel(s.root), disk.OSImage(s.root), disk.KubeletVersion(s.root)
	return info
}

// labels are those of the cloud's controller.
func (s *session) labels() map[string]string {
	labels := map[string]string{corev1.LabelInstanceTypeStable: cmp.Or(s.spec.Type, "Standard_D2s_v5")}
	if s.spec.Light {
		// A light machine has no disk with the kubelet's flags.
		for pair := range strings.SplitSeq(staticLabels, ",") {
			key, value, _ := strings.Cut(pair, "=")
			labels[key] = value
		}
		if !s.onEC2() {
			labels["agentpool"] = s.spec.Pool
		}
	}
	if zone := s.spec.Zone; zone != "" {
		labels[corev1.LabelTopologyZone] = zone
	}
	if region := s.machine.fleet.config.Region; region != "" {
		labels[corev1.LabelTopologyRegion] = region
	}
	return labels
}

// takeName removes a Node with this name whose instance no longer exists: a provider ID cannot change, and no
// lifecycle controller of a cloud runs here.
func (f *Fleet) takeName(ctx context.Context, node kubelet.Node) error {
	owner, err := f.kubelets.ProviderOf(ctx, node.Name)
	if err != nil || owner == "" || fold(owner) == fold(node.ProviderID) || f.byProvider(owner) != nil {
		return err
	}
	return f.kubelets.RemoveNode(ctx, node.Name, owner)
}
