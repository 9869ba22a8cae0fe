package generalize

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// TestLiterals: files of people and their tools must not name the donor.
// TestDistinctNames: a host name is searched if other files hardly have it.
func TestDistinctNames(t *testing.T) {
	for name, want := range map[string]bool{
		donor: true, "worker-alpha": true, "ip-10-0-3-17": true, "alpha.corp.example": true, "green_tiger_lamp": true,
		"worker": false, "kube-worker": false, "control-plane": false, "localhost.localdomain": false, "debian": false, "a-b": false, "web-server": false, "prometheus": false,
	} {
		if got := isDistinctName(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	dir := plant(t, withoutEditsOf(node, map[string]string{"etc/hostname": ""}), map[string]string{
		"etc/hostname": "worker-alpha\n", "var/lib/acme/state.db": `["map",[["hostname","worker-alpha"],["other","worker-alphabet"]]]`,
	})
	r := runner(load(t, v1alpha1.ProfileStatic))
	_, err := r.Preflight(t.Context(), open(t, dir))
	if why := refusedOf(t, err); why.Count != 1 || !strings.Contains(why.Error(), "the donor's host name in /var/lib/acme/state.db") {
		t.Errorf("got %v", why)
	}
}

func TestLiterals(t *testing.T) {
	for name, test := range map[string]struct {
		path, content string
		want          string // empty: not found
	}{
		"the host name":       {"etc/zabbix/zabbix_agentd.conf", "Hostname=" + donor + "\n", "the donor's host name in /etc/zabbix/zabbix_agentd.conf"},
		"in capitals":         {"opt/acme/acme.conf", "NAME=" + strings.ToUpper(donor) + "\n", "host name"},
		"with its domain":     {"etc/postfix/main.cf", "myhostname = " + donor + ".example.internal\n", "host name"},
		"in a name":           {"etc/ssl/private/" + donor + ".crt", "x", "the donor's host name in its name"},
		"in a link":           {"etc/acme/link", "-> /srv/" + donor + "/x", "the target of a link"},
		"the instance ID":     {"etc/prometheus/node.labels", "instance_id=i-0abcdef0123456789\n", "the donor's instance ID"},
		"a longer name":       {"etc/acme.conf", "Hostname=" + donor + "7\n", ""},
		"a word before":       {"etc/acme.conf", "Hostname=x" + donor + "\n", ""},
		"a log":               {"var/log/acme.log", donor + "\n", ""},
		"a removed file":      {"var/lib/azure-network/azure-vnet.json", donor, ""},
		"a file of no person": {"usr/share/acme/x", donor, ""},
		"another MAC address": {"etc/acme.conf", "00:0d:3a:12:34:57", ""},
		"the MAC address":     {"etc/acme.conf", "mac=00-0D-3A-12-34-56\n", "the donor's MAC address"},
		"the address":         {"etc/consul.d/node.hcl", "bind_addr = \"10.0.3.17\"\n", "the donor's address in /etc/consul.d/node.hcl"},
		"another address":     {"etc/acme.conf", "10.0.3.170 110.0.3.17 10.0.3.17.4 1.10.0.3.17", ""},
		"the root's UUID":     {"opt/acme/id", "0B1C2D3E00004000800000000000AAAA", "the donor's file system's UUID"},
		"it in GRUB":          {"etc/default/grub", "GRUB_CMDLINE_LINUX=root=UUID=0b1c2d3e-0000-4000-8000-00000000aaaa\n", ""},
		"without colons":      {"etc/acme.conf", "mac=000d3a123456\n", "the donor's MAC address"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{
				"var/lib/cloud/instances/i-0abcdef0123456789/x": "x", "etc/netplan/50-cloud-init.yaml": network, "opt/cni/bin/azure-vnet": "\x7fELF",
				"var/lib/dhcp/dhclient.leases": "lease {\n  fixed-address 10.0.3.17;\n}\n",
				"etc/fstab":                    "UUID=0b1c2d3e-0000-4000-8000-00000000aaaa / ext4 defaults 0 1\n", test.path: test.content,
			}
			dir := plant(t, node, files)
			was := snapshot(t, dir)
			before := runner(load(t, v1alpha1.ProfileStatic))
			before.DryRun = true
			_, early := run(t, dir, before)
			if diff := cmp.Diff(was, snapshot(t, dir)); diff != "" {
				t.Errorf("the look changed something:\n%s", diff)
			}
			m, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
			if test.want == "" {
				must(t, err)
				must(t, early)
				return
			}
			if why := unmetOf(t, err).Error(); !strings.Contains(why, test.want) {
				t.Errorf("got %q", why)
			}
			if why := refusedOf(t, early).Error(); !strings.Contains(why, test.want) {
				t.Errorf("the look says %q", why)
			}
			if _, err := m.Proof(before.Now()); err == nil {
				t.Error("a proof was given")
			}
		})
	}
}

// TestExemptLiterals may stay, with the reason.
func TestExemptLiterals(t *testing.T) {
	p := load(t, v1alpha1.ProfileStatic)
	p.Exempt = []rules.Exemption{{Paths: []string{"/etc/acme.conf"}, Reason: "written at each boot"}}
	m, err := run(t, plant(t, node, map[string]string{"etc/acme.conf": donor}), runner(p))
	must(t, err)
	if len(m.Scan.Kept) != 1 || m.Scan.Kept[0].Kept != "exempt: written at each boot" {
		t.Errorf("got %+v", m.Scan.Kept)
	}
}

// TestKernelLiterals: sysfs has the addresses of real network cards, and the UUID of the firmware.
func TestKernelLiterals(t *testing.T) {
	running, err := tree.OpenRunning(plant(t, map[string]string{
		"sys/class/net/eth0/device/x": "", "sys/class/net/eth0/address": "00:0d:3a:12:34:56\n", "sys/class/net/lo/address": "00:00:00:00:00:00\n",
		"sys/class/net/docker0/address": "02:42:00:00:00:01\n", "sys/class/dmi/id/product_uuid": "4C4C4544-004B-4E10-8031-C7C04F563932\n",
	}))
	must(t, err)
	defer running.Close()
	var got, words []string
	for _, l := range literals(running, &DonorValues{Names: []string{"debian", "node-1", "localhost"}}) {
		if l.IsWord { // only some files are searched for a word
			words = append(words, l.Text)
			continue
		}
		got = append(got, l.Text)
	}
	if want := []string{"debian", "localhost"}; !slices.Equal(words, want) {
		t.Errorf("words: %v, want %v", words, want)
	}
	want := []string{"node-1", "4c4c4544-004b-4e10-8031-c7c04f563932", "4c4c4544004b4e108031c7c04f563932", "44454c4c-4b00-104e-8031-c7c04f563932", "44454c4c4b00104e8031c7c04f563932", "00:0d:3a:12:34:56", "00-0d-3a-12-34-56", "000d3a123456"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestKubeletLiterals: flags and settings of the kubelet name the donor. Variables and comments do not.
func TestKubeletLiterals(t *testing.T) {
	dir := plant(t, map[string]string{
		"etc/eks/kubelet/environment":                          "NODEADM_KUBELET_ARGS=--node-ip=10.0.3.17 --provider-id=aws:///eu-central-1a/i-0abcdef0123456789\n",
		"etc/default/kubelet":                                  "# --node-ip=10.9.9.9\nARGS=\"--hostname-override $(hostname) --node-ip=0.0.0.0\"\n",
		"etc/systemd/system/kubelet.service.d/20-node-ip.conf": "[Service]\nEnvironment=\"A=--node-ip 2001:db8::7 --hostname-override=node-7\"\n",
		"var/lib/kubelet/config.yaml":                          "providerID: azure:///subscriptions/s/x\n",
	})
	got := map[string]string{}
	for _, l := range literals(open(t, dir), &DonorValues{}) {
		got[l.Text] = l.What
	}
	want := map[string]string{
		"10.0.3.17": "address", "2001:db8::7": "address", "aws:///eu-central-1a/i-0abcdef0123456789": "provider ID", "i-0abcdef0123456789": "instance ID",
		"node-7": "host name", "azure:///subscriptions/s/x": "provider ID",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestKernelAddresses: the addresses of network cards, not of bridges and services.
func TestKernelAddresses(t *testing.T) {
	running, err := tree.OpenRunning(plant(t, map[string]string{
		"sys/class/net/eth0/device/x": "", "sys/class/net/cni0/address": "",
		"proc/1/net/route": "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
			"eth0\t00000000\t0103000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\neth0\t0003000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\ncni0\t0000F40A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
		"proc/1/net/fib_trie": "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.3.0\n        /24 link UNICAST\n     |-- 10.0.3.17\n        /32 host LOCAL\n     |-- 10.96.0.10\n        /32 host LOCAL\n     |-- 10.244.0.1\n        /32 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\n",
		"proc/1/net/if_inet6": "20010db8000000000000000000000007 02 40 00 80     eth0\nfe8000000000000002420afffe000311 02 40 20 80     eth0\n20010db8000000000000000000000008 03 40 00 80     cni0\n",
	}))
	must(t, err)
	defer running.Close()
	if diff := cmp.Diff([]string{"10.0.3.17", "2001:db8::7"}, addresses(running)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLookSearches: findings in files that no rule removes are known while the donor serves.
func TestLookSearches(t *testing.T) {
	key := pemKey(t)
	for file, want := range map[string]bool{"etc/acme/key": true, "root/.ssh/id_ed25519": false, "var/lib/kubelet/pods/1/volumes/key": false} {
		running, err := tree.OpenRunning(plant(t, node, map[string]string{file: key}))
		must(t, err)
		_, err = runner(load(t, v1alpha1.ProfileStatic)).Preflight(t.Context(), running)
		if want && !strings.Contains(refusedOf(t, err).Error(), "/"+file) || !want && err != nil {
			t.Errorf("/%s: %v", file, err)
		}
		_ = running.Close()
	}
}
