package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// machineIDMode is 0444 on a real disk. Here, root on the machine need not be root on the host.
const machineIDMode = 0o644

// FirstBoot creates the missing identity of the system: a machine-id that is absent, empty or "uninitialized", ssh
// host keys, seeds, the DHCP lease and the journal. Existing files stay.
func FirstBoot(root string, facts TemplateValues) error {
	facts = facts.Complete()
	path := filepath.Join(root, "etc/machine-id")
	if id := MachineID(root); id != "" {
		facts.MachineID = id
	} else if err := WriteFile(path, []byte(facts.MachineID+"\n"), machineIDMode); err != nil {
		return err
	}
	return firstBoot.write(root, facts)
}

// Provision is the provisioning of a VM by cloud-init, and on Azure by the agent: host name, hosts, agent's keys. An
// existing host name stays, so that a clone shows that its disk still has its donor's.
func Provision(root string, facts TemplateValues) error {
	facts = facts.Complete()
	if name := Hostname(root); name != "" {
		facts.Hostname = name
	} else if err := WriteFile(filepath.Join(root, "etc/hostname"), []byte(facts.Hostname+"\n"), 0o644); err != nil {
		return err
	}
	if err := ensureLine(filepath.Join(root, "etc/hosts"), "127.0.1.1 "+facts.Hostname); err != nil {
		return err
	}
	if platformOn(root) != OnAzure {
		return nil
	}
	if err := provisionAgent(root, facts); err != nil {
		return err
	}
	return recordGoal(root, facts)
}

// provisionAgent writes the agent's keys once. Their names are random, so the table cannot find existing keys.
func provisionAgent(root string, facts TemplateValues) error {
	if exists(filepath.Join(root, "var/lib/waagent/provisioned")) {
		return nil
	}
	return provision.write(root, facts)
}

// recordGoal writes the next goal state, and moves the last goal state to the history, as the agent does at each
// start.
func recordGoal(root string, facts TemplateValues) error {
	dir := filepath.Join(root, "var/lib/waagent")
	states, err := filepath.Glob(filepath.Join(dir, "GoalState.*.xml"))
	if err != nil {
		return err
	}
	number := len(states) + 1
	goal := fmt.Sprintf("<GoalState><Incarnation>%d</Incarnation><ContainerId>%s</ContainerId></GoalState>\n", number, facts.VMID)
	for path, text := range map[string]string{
		fmt.Sprintf("GoalState.%d.xml", number):                           goal,
		fmt.Sprintf("history/%d__%s/GoalState.xml", number, randomHex(2)): goal,
		fmt.Sprintf("events/%d.json", facts.Now.UnixNano()):               `{"EventName":"HeartBeat","VMId":"` + facts.VMID + "\"}\n",
	} {
		if err := WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// IsNewInstance reports whether cloud-init would treat a VM with this ID as a new instance: cloud-init is enabled,
// and the ID is new.
func IsNewInstance(root, vmID string) bool {
	if exists(filepath.Join(root, "etc/cloud/cloud-init.disabled")) {
		return false
	}
	known := readLine(filepath.Join(root, "var/lib/cloud/data/instance-id"))
	return known != vmID || !exists(filepath.Join(root, "var/lib/cloud/instances", vmID, "sem"))
}

// NewInstance is cloud-init's work for a new instance ID.
func NewInstance(root string, facts TemplateValues) error {
	facts = facts.on(root)
	dir := filepath.Join(root, "var/lib/cloud")
	previous := readLine(filepath.Join(dir, "data/instance-id"))
	setDefault(&previous, func() string { return "NO_PREVIOUS_INSTANCE_ID" })
	for name, value := range map[string]string{
		"instance-id": facts.VMID, "previous-instance-id": previous, "previous-hostname": facts.Hostname,
	} {
		if err := WriteFile(filepath.Join(dir, "data", name), []byte(value+"\n"), 0o644); err != nil {
			return err
		}
	}
	link := filepath.Join(dir, "instance")
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink("/var/lib/cloud/instances/"+facts.VMID, link); err != nil {
		return err
	}
	if err := newInstance.write(root, facts); err != nil {
		return err
	}
	if err := addMounts(root); err != nil {
		return err
	}
	return addUser(root, facts.Platform)
}

// addUser makes the login that the image's cloud.cfg names, and the swap and temporary disk lines.
func addUser(root string, on Platform) error {
	user := on.User()
	for path, line := range map[string]string{
		"etc/passwd":  user + ":x:1000:1000:Ubuntu:/home/" + user + ":/bin/bash",
		"etc/group":   user + ":x:1000:",
		"etc/shadow":  user + ":!:19800:0:99999:7:::",
		"etc/gshadow": user + ":!::",
		"etc/subuid":  user + ":100000:65536",
		"etc/subgid":  user + ":100000:65536",
	} {
		if err := ensureLine(filepath.Join(root, path), line); err != nil {
			return err
		}
	}
	lines := []string{"/swapfile none swap sw 0 0"}
	if on == OnAzure {
		lines = append([]string{"/dev/disk/cloud/azure_resource-part1 /mnt auto defaults,nofail,x-systemd.requires=cloud-init.service,comment=cloudconfig 0 2"}, lines...)
	}
	for _, line := range lines {
		if err := ensureLine(filepath.Join(root, fstab), line); err != nil {
			return err
		}
	}
	return nil
}

// RecordExtension writes the records of the agent and a VM extension's handler after a run.
func RecordExtension(root, handler, name string) error {
	dir := filepath.Join(root, "var/lib/waagent", handler+"-1.0.0")
	status := fmt.Sprintf(`[{"version":1.0,"status":{"name":%q,"status":"success","code":0}}]`+"\n", name)
	for path, text := range map[string]string{
		"mrseq":                  "0",
		"HandlerManifest.json":   `[{"version":1.0}]` + "\n",
		"config/0.settings":      `{"runtimeSettings":[{"handlerSettings":{"protectedSettings":"` + randomText(32) + `"}}]}` + "\n",
		"config/HandlerState":    "Enabled",
		"status/0.status":        status,
		"download/0/stdout":      name + " done\n",
		"config/" + name + ".id": randomUUID() + "\n",
	} {
		if err := WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return Append(filepath.Join(root, "var/log/azure", handler, "extension.log"), name+" done\n", 0o644)
}

// ExtensionDone reports whether the handler's sequence number shows a finished run.
func ExtensionDone(root, handler string) bool {
	return readLine(filepath.Join(root, "var/lib/waagent", handler+"-1.0.0", "mrseq")) != ""
}

// InstallNode installs a kubelet, a container runtime and their packages. Existing files stay.
func InstallNode(root string, facts TemplateValues) error {
	if err := nodeSoftware.write(root, facts.on(root)); err != nil {
		return err
	}
	return SetPackages(root, nodePackages)
}

// kubeletOf a disk is the path of its program; empty if there is none.
func kubeletOf(root string) string {
	for _, name := range []string{"usr/local/bin/kubelet", "usr/bin/kubelet"} {
		if path := filepath.Join(root, name); exists(path) {
			return path
		}
	}
	return ""
}

// Installed reports whether the node software is on the disk.
func Installed(root string) bool {
	return kubeletOf(root) != "" && exists(filepath.Join(root, "usr/bin/containerd"))
}

// Join writes the files of the node's join. Existing files stay, such as a credential that a cluster has signed.
func Join(root string, profile Profile, facts TemplateValues) error {
	switch profile {
	case EKS:
		return joinEKS.write(root, facts)
	case Static:
		return joinStatic.write(root, facts)
	case Bootstrap:
	}
	if !exists(filepath.Join(root, "etc/kubernetes/kubelet.conf")) {
		if err := credentialBootstrap.write(root, facts); err != nil {
			return err
		}
	}
	return joinBootstrap.write(root, facts)
}

// Joined returns the profile of the kubelet's credential on the disk, and whether a credential exists.
func Joined(root string) (Profile, bool) {
	ways := map[Profile][]string{
		Static: {"var/lib/kubelet/kubeconfig", "etc/kubernetes/certs/client.crt", "etc/kubernetes/certs/client.key", "etc/kubernetes/certs/ca.crt"},
		// The link and its target.
		Bootstrap: {"etc/kubernetes/kubelet.conf", "var/lib/kubelet/config.yaml", "var/lib/kubelet/pki/kubelet-client-current.pem"},
		// These files hold no credential.
		EKS: {"etc/eks/kubelet/environment", "etc/kubernetes/kubelet/config.json", "var/lib/kubelet/kubeconfig", "etc/kubernetes/pki/ca.crt"},
	}
	for _, profile := range []Profile{Static, Bootstrap, EKS} {
		complete := Installed(root)
		for _, path := range ways[profile] {
			info, err := os.Stat(filepath.Join(root, path))
			complete = complete && err == nil && info.Size() > 0
		}
		if complete {
			return profile, true
		}
	}
	return "", false
}

// Serve is the kubelet's start: the serving certificate if a unit creates one, and the state files.
func Serve(root string, facts TemplateValues) error {
	if exists(filepath.Join(root, "opt/azure/containers/kubelet-serving-cert.sh")) {
		if err := serveStatic.write(root, facts); err != nil {
			return err
		}
	}
	if exists(filepath.Join(root, "var/lib/kubelet/cpu_manager_state")) {
		return nil
	}
	return kubeletState.write(root, facts)
}

// Agents writes the ids and secrets of third-party agents where they are missing.
func Agents(root string, facts TemplateValues) error {
	if exists(filepath.Join(root, "opt/consul/node-id")) {
		return nil
	}
	return agents.write(root, facts)
}

// Traces writes leftovers of users on a node in service: histories, credentials, temporary files.
func Traces(root string, facts TemplateValues) error { return traces.write(root, facts.on(root)) }

// MachineID is systemd's machine ID on this disk; empty if the next boot creates an ID.
func MachineID(root string) string {
	id := readLine(filepath.Join(root, "etc/machine-id"))
	if id == "uninitialized" {
		return ""
	}
	return id
}

// Hostname that the disk claims; empty if the next boot takes the cloud's.
func Hostname(root string) string { return readLine(filepath.Join(root, "etc/hostname")) }

// Kernel of the disk, from the link boot/vmlinuz.
func Kernel(root string) string {
	target, err := os.Readlink(filepath.Join(root, "boot/vmlinuz"))
	if err != nil {
		return "unknown"
	}
	return strings.TrimPrefix(filepath.Base(target), "vmlinuz-")
}

// SetKernel installs a kernel for the next boot.
func SetKernel(root, release string) error {
	kernel := table{
		{"boot/vmlinuz-{{.Kernel}}", 0o600, "Linux {{.Kernel}}\n"},
		{"boot/initrd.img-{{.Kernel}}", 0o600, "initrd of {{.Kernel}}\n"},
		{"lib/modules/{{.Kernel}}/modules.dep", 0o644, ""},
	}
	if err := kernel.write(root, TemplateValues{Kernel: release}); err != nil {
		return err
	}
	link := filepath.Join(root, "boot/vmlinuz")
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink("vmlinuz-"+release, link)
}

// OSImage is the name of the system.
func OSImage(root string) string {
	text, err := os.ReadFile(filepath.Join(root, "etc/os-release"))
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if name, found := strings.CutPrefix(line, "PRETTY_NAME="); found {
			return strings.Trim(name, "\"\n")
		}
	}
	return "unknown"
}

// KubeletVersion is the version of the kubelet on this disk, with "v"; empty without a kubelet.
func KubeletVersion(root string) string {
	_, version, _ := strings.Cut(readLine(kubeletOf(root)), " ")
	return version
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// readLine reads a file with a single line; empty if absent or unreadable.
func readLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func ensureLine(path, line string) error {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for have := range strings.Lines(string(text)) {
		if strings.TrimSpace(have) == line {
			return nil
		}
	}
	return Append(path, line+"\n", 0o644)
}
