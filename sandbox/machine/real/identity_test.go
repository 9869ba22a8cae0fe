//go:build machines

package real

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// identity is all that machines must not share, as a running machine shows it.
type identity struct {
	MachineID, Hostname string
	Lease               lease
	// SSH are the fingerprints of the host keys.
	SSH []string
	// Seed is the hash of the random seed that was on the disk when it booted, empty for none.
	Seed string
	// Journal are machine IDs and host names that the journal speaks of.
	Journal []string
	// Instance is cloud-init's.
	Instance string
	// Provisioned has a line for each time that the recipe's commands ran.
	Provisioned []string
	// Serving and Client are hashes of the kubelet's keys: its own, and the cluster's.
	Serving, Client string
	// Agent is the hash of the guest agent's key.
	Agent string
	// Files are the hashes of all files.
	Files map[string]string
	// Failed units.
	Failed string
	// Upgraded is the version of the upgraded package.
	Upgraded string
}

// look reads a running machine. Seed is looked at before the boot, see seedOf.
func (l *lab) look(t *testing.T, m *machine, seed string) identity {
	t.Helper()
	id := identity{
		Lease:       l.leaseOf(t, m),
		MachineID:   m.sh(t, "cat /etc/machine-id"),
		Hostname:    m.sh(t, "hostname"),
		SSH:         strings.Fields(m.sh(t, `for key in /etc/ssh/ssh_host_*_key.pub; do ssh-keygen -l -f "$key" | cut -d' ' -f2; done`)),
		Seed:        seed,
		Journal:     strings.Fields(m.sh(t, "journalctl -q -m -F _MACHINE_ID; journalctl -q -m -F _HOSTNAME")),
		Instance:    m.sh(t, "cat /var/lib/cloud/data/instance-id"),
		Provisioned: strings.Fields(m.sh(t, "cat /opt/azure/provisioned.log")),
		Failed:      m.sh(t, "systemctl --failed --plain --no-legend"),
		Upgraded:    m.sh(t, "dpkg-query -W -f '${Version}' "+tools),
	}
	m.sh(t, "systemctl is-active kubelet.service walinuxagent.service ssh.service")
	if restarts := m.sh(t, "systemctl show -P NRestarts kubelet.service"); restarts != "0" {
		t.Errorf("%s: the kubelet was started %s times too often", m.name, restarts)
	}
	id.Files = files(t, m.root)
	id.Serving, id.Client = id.Files["etc/kubernetes/certs/kubeletserver.key"], id.Files["etc/kubernetes/certs/client.key"]
	id.Agent = id.Files["var/lib/waagent/TransportPrivate.pem"]
	return id
}

func seedOf(t *testing.T, image string) (seed string) {
	t.Helper()
	mounted(t, image, func(root string) { seed = files(t, root)["var/lib/systemd/random-seed"] })
	return seed
}

// shared names what two machines have in common that they must not; empty if they are two machines.
func shared(a, b identity) []string {
	var found []string
	same := func(what, x, y string) {
		if x == y && x != "" {
			found = append(found, what)
		}
	}
	same("machine-id", a.MachineID, b.MachineID)
	same("hostname", a.Hostname, b.Hostname)
	same("dhcp client id", a.Lease.ClientID, b.Lease.ClientID)
	same("duid", a.Lease.DUID(), b.Lease.DUID())
	same("dhcp address", a.Lease.Address, b.Lease.Address)
	same("dhcp hostname", a.Lease.Hostname, b.Lease.Hostname)
	same("random seed", a.Seed, b.Seed)
	same("cloud-init instance", a.Instance, b.Instance)
	same("kubelet serving key", a.Serving, b.Serving)
	same("agent key", a.Agent, b.Agent)
	for _, key := range a.SSH {
		if slices.Contains(b.SSH, key) {
			found = append(found, "ssh host key")
			break
		}
	}
	for _, entry := range a.Journal {
		if slices.Contains(b.Journal, entry) {
			found = append(found, "journal")
			break
		}
	}
	return found
}

// survivors returns what was planted on the donor and is unchanged on a machine, but for what may be.
func survivors(planted []string, donor, m identity) []string {
	var found []string
	for _, path := range planted {
		if donor.Files[path] != "" && donor.Files[path] == m.Files[path] && !mayStay(path) {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return found
}

// mayStay knows the container image store, and a file without content that says sudo was used.
func mayStay(path string) bool {
	return strings.HasPrefix(path, "var/lib/containerd/io.containerd.content.v1.content/") ||
		strings.HasPrefix(path, "var/lib/containerd/io.containerd.metadata.v1.bolt/") ||
		strings.HasPrefix(path, "var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/")
}

// complete says what a machine lacks that every machine must have.
func (id identity) complete() error {
	for what, missing := range map[string]bool{
		"machine-id": len(id.MachineID) != 32, "hostname": id.Hostname == "", "DUID": id.Lease.DUID() == "",
		"ssh host keys": len(id.SSH) < 3, "journal": len(id.Journal) < 2, "instance": id.Instance == "",
		"kubelet serving key": id.Serving == "", "cluster credential": id.Client == "", "agent key": id.Agent == "",
	} {
		if missing {
			return fmt.Errorf("%s has no %s of its own", id.Hostname, what)
		}
	}
	return nil
}

// sameImages says whether a clone has its donor's container images.
func sameImages(donor, clone identity) bool {
	store := func(id identity) map[string]string {
		images := maps.Clone(id.Files)
		maps.DeleteFunc(images, func(path, _ string) bool {
			return !strings.HasPrefix(path, "var/lib/containerd/io.containerd.content.v1.content/")
		})
		return images
	}
	return len(store(donor)) > 0 && maps.Equal(store(donor), store(clone))
}
