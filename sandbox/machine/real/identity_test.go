//go:build machines

package real

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// identity has all values of a running machine that machines must not share.
type identity struct {
	MachineID, Hostname string
	Lease               lease
	// SSH are the fingerprints of the host keys.
	SSH []string
	// Seed is the hash of the random seed on the disk at boot, or empty.
	Seed string
	// Journal has the machine IDs and host names in the journal.
	Journal []string
	// Instance is cloud-init's.
	Instance string
	// Modules of cloud-init that have run for this instance, by their semaphores.
	Modules []string
	// Provisioned has a line for each run of the recipe's commands.
	Provisioned []string
	// Serving, Own and Cluster are hashes of the kubelet's keys. Serving is the key of the serving certificate. The
	// key for the join is Own with kubeadm, and Cluster with AKS Engine.
	Serving, Own, Cluster string
	// Agent is the hash of the guest agent's key.
	Agent string
	// Files are the hashes of all files.
	Files map[string]string
	// Failed units. FirstBoot has result and state of the unit that creates the identity at a first boot.
	Failed, FirstBoot string
	// Upgraded is the version of the upgraded package.
	Upgraded string
}

// readIdentity reads a running machine. Seed is looked at before the boot, see seedOf.
func (l *lab) readIdentity(t *testing.T, m *machine, seed string) identity {
	t.Helper()
	id := identity{
		Lease:       l.leaseOf(t, m),
		MachineID:   m.sh(t, "cat /etc/machine-id"),
		Hostname:    m.sh(t, "hostname"),
		SSH:         strings.Fields(m.sh(t, `for key in /etc/ssh/ssh_host_*_key.pub; do ssh-keygen -l -f "$key" | cut -d' ' -f2; done`)),
		Seed:        seed,
		Journal:     strings.Fields(m.sh(t, "journalctl -q -m -F _MACHINE_ID; journalctl -q -m -F _HOSTNAME | grep -vx localhost")),
		Instance:    m.sh(t, "cat /var/lib/cloud/data/instance-id"),
		Modules:     strings.Fields(m.sh(t, "ls /var/lib/cloud/instance/sem")),
		Provisioned: strings.Fields(m.sh(t, "cat "+provisionedLog)),
		Failed:      m.sh(t, "systemctl --failed --plain --no-legend"),
		FirstBoot:   strings.Join(strings.Fields(m.sh(t, "systemctl show -P Result -P ActiveState kamino-first-boot.service")), " "),
	}
	m.sh(t, "systemctl is-active kubelet.service walinuxagent.service ssh.service")
	id.Upgraded = m.sh(t, "dpkg-query -W -f '${Version}' "+tools+" 2>/dev/null || true")
	if m.root != "" {
		id.readFiles(t, m.root)
	}
	if id.Own != "" {
		l.awaitHeartbeat(t, id.Hostname)
		return id
	}
	if restarts := m.sh(t, "systemctl show -P NRestarts kubelet.service"); restarts != "0" {
		t.Errorf("%s: the kubelet was started %s times too often", m.name, restarts)
	}
	return id
}

func seedOf(t *testing.T, image string) (seed string) {
	t.Helper()
	mounted(t, image, func(root string) { seed = files(t, root)["var/lib/systemd/random-seed"] })
	return seed
}

// identities returns the values of a machine that must be unique, by name.
func identities(id identity) map[string][]string {
	return map[string][]string{
		"machine-id": {id.MachineID}, "hostname": {id.Hostname}, "dhcp client id": {id.Lease.ClientID}, "duid": {id.Lease.DUID()},
		"dhcp address": {id.Lease.Address}, "dhcp hostname": {id.Lease.Hostname}, "random seed": {id.Seed}, "cloud-init instance": {id.Instance},
		"kubelet serving key": {id.Serving}, "kubelet credential": {id.Own}, "agent key": {id.Agent}, "ssh host key": id.SSH, "journal": id.Journal,
	}
}

// shared names the unique values that two machines have in common, sorted.
func shared(a, b identity) []string {
	var found []string
	other := identities(b)
	for what, values := range identities(a) {
		if slices.ContainsFunc(values, func(v string) bool { return v != "" && slices.Contains(other[what], v) }) {
			found = append(found, what)
		}
	}
	slices.Sort(found)
	return found
}

// survivors returns planted files of the donor that are unchanged on a machine, except for allowed files.
func survivors(planted []string, donor, m identity) []string {
	var found []string
	for _, path := range planted {
		if donor.Files[path] != "" && donor.Files[path] == m.Files[path] && !isAllowed(path) {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return found
}

// isAllowed allows the store of container images, and units and scripts that enroll an agent. Data of containers is not allowed.
func isAllowed(path string) bool {
	return strings.HasSuffix(path, "/mdatp-onboard.service") || strings.HasSuffix(path, "/ua-auto-attach.service") || path == "usr/local/sbin/site-enrol" ||
		strings.HasPrefix(path, "var/lib/containerd/io.containerd.content.v1.content/") ||
		strings.HasPrefix(path, "var/lib/containerd/io.containerd.metadata.v1.bolt/") ||
		strings.HasPrefix(path, "var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/") && !strings.HasSuffix(path, "/fs/tmp/scratch")
}

// complete returns the values that a machine lacks.
func (id identity) complete() error {
	for what, missing := range map[string]bool{
		"machine-id": len(id.MachineID) != 32, "hostname": id.Hostname == "", "DUID": id.Lease.DUID() == "",
		"ssh host keys": len(id.SSH) < 3, "journal": len(id.Journal) < 2, "instance": id.Instance == "",
		"kubelet serving key": id.Serving == "", "credential to join with": id.Own+id.Cluster == "", "agent key": id.Agent == "",
	} {
		if missing {
			return fmt.Errorf("%s has no %s of its own", id.Hostname, what)
		}
	}
	return nil
}

// sameImages reports whether a clone has its donor's container images.
func sameImages(donor, clone identity) bool {
	images := 0
	for path, sum := range donor.Files {
		if !strings.HasPrefix(path, "var/lib/containerd/io.containerd.content.v1.content/") {
			continue
		}
		if images++; clone.Files[path] != sum {
			return false
		}
	}
	return images > 0
}
