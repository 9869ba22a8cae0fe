package generalize

import (
	"encoding/binary"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

var characterClass = regexp.MustCompile(`\[(.)[^\]]*\]`)

// concrete returns a path that a pattern matches.
func concrete(pattern string) string {
	p := strings.ReplaceAll(tree.Rel(pattern), "**", "deep/deeper/file")
	return strings.ReplaceAll(characterClass.ReplaceAllString(p, "$1"), "*", "x1")
}

// wrong has files for edits that the paths of the rule do not show.
var wrong = map[string]map[string]string{
	"own-name-in-hosts": {"etc/hosts": node["etc/hosts"]},
	"build-users": {"etc/passwd": node["etc/passwd"], "etc/shadow": "packer:!:19000::::::\nroot:*:19000::::::\n", "etc/group": "packer:x:1001:\n",
		"etc/gshadow": "packer:!::\n", "etc/subuid": "packer:100000:65536\n", "etc/subgid": "packer:100000:65536\n"},
	"network-hardware": {
		"etc/sysconfig/network-scripts/ifcfg-eth0":          "DEVICE=eth0\nHWADDR=00:0d:3a:00:00:01\nUUID=5fb06bd0\n",
		"etc/NetworkManager/system-connections/eth0.nmconn": "[connection]\nid=eth0\nuuid=5fb06bd0\n[ethernet]\nmac-address=00:0d:3a:00:00:01\n",
	},
	"rancher-token": {
		"etc/rancher/x1/config.yaml": "token: a\n", "etc/rancher/x1/config.yaml.d/x1": "\"agent-token\": a\n", "etc/systemd/system/k3sx1.service.env": "K3S_TOKEN=a\n",
		"etc/default/rke2-agent": "export RKE2_TOKEN=a\n", "etc/sysconfig/rke2-agent": "RKE2_TOKEN=a\n", "usr/local/lib/systemd/system/rke2-agent.env": "RKE2_AGENT_TOKEN=a\n",
		"var/lib/cloud/instances/i-1/user-data.txt": "export RKE2_TOKEN=a\n",
	},
	"machine-info": {"etc/machine-info": "PRETTY_HOSTNAME=Web\nCHASSIS=vm\n"},
	"host-name-settings": {
		"etc/sysconfig/network-scripts/ifcfg-eth0": "DHCP_HOSTNAME=web\n", "etc/sysconfig/network/dhcp": "DHCLIENT_HOSTNAME_OPTION=\"web\"\n", "etc/dhcpcd.conf": "hostname web\n",
	},
	"popularity-contest": {"etc/popularity-contest.conf": "PARTICIPATE=\"yes\"\nMY_HOSTID=\"0123\"\n"},
	"snmp-engine":        {"var/lib/snmp/snmpd.conf": "setserialno 1\noldEngineID 0x80001f88\nengineBoots 4\n"},
	"fstab":              {"etc/fstab": node["etc/fstab"]},
	"grub-disks":         {"var/cache/debconf/config.dat": "Name: grub-pc/install_devices\nTemplate: grub-pc/install_devices\nValue: /dev/disk/by-id/scsi-36002248\nOwners: grub-pc\n\n"},
	"foreign-disks":      {"etc/fstab": "UUID=aaaa / ext4 defaults 0 1\nUUID=bbbb /data ext4 defaults 0 2\n", "etc/crypttab": "data UUID=cccc none luks\n"},
	"boot-entries": {
		"boot/loader/entries/" + donorID + "-6.1.conf": "title Linux\nmachine-id " + donorID + "\n",
		"boot/grub2/grubenv":                           "# GRUB Environment Block\nsaved_entry=" + donorID + "-6.1\n####\n",
	},
	"image-cache":        {"var/lib/containerd/io.containerd.content.v1.content": "a directory"},
	"containerd-records": {"var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db": database(func(tx *bolt.Tx) { putContainer(tx, "k8s.io", "x1", "an environment") })},
	"named-swap": {
		"etc/systemd/system/data-pages.swap": "[Swap]\nWhat=/data/pages\n",
		"data/pages":                         swapPage,
	},
	"container-layers": {
		"var/lib/containerd/io.containerd.snapshotter.v1.x1/metadata.db":            database(func(*bolt.Tx) {}),
		"var/lib/containerd/io.containerd.snapshotter.v1.x1/snapshots/9/fs/written": "by a container",
	},
	"container-layers-docker": {
		"var/lib/docker/image/overlay2/layerdb/mounts/x1/mount-id": "x1layer", "var/lib/docker/overlay2/x1layer/diff/written": "by a container",
	},
	"container-layers-storage": {
		"var/lib/containers/storage/overlay-layers/layers.json": `[{"id":"x1layer"}]`, "var/lib/containers/storage/overlay-images/images.json": `[]`,
		"var/lib/containers/storage/overlay/x1layer/diff/written": "by a container",
	},
}

// refused has contents for refusals with a pattern.
var refused = map[string]string{
	"machine-id-of-kernel": "linux /vmlinuz root=/dev/sda1 systemd.machine_id=" + donorID + "\n",
	"disk-of-kernel":       "options root=/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123-part1 ro\n",
	"names-of-kernel":      "options root=UUID=aaaa hostname=node7 systemd.hostname=node7\n",
	"boot-files":           "menuentry 'Linux' {\n\tlinux /vmlinuz-6.9 root=UUID=aaaa ro\n}\n",
	"disk-name-of-kernel":  "linux /vmlinuz root=/dev/vda1 ro\n",
	"network-of-kernel":    "GRUB_CMDLINE_LINUX=\"ip=10.0.3.17::10.0.3.1:255.255.255.0:node:eth0:none\"\n",
	"disk-keys":            "root UUID=aaaa none luks,tpm2-device=auto\n",
	"disk-keys-of-kernel":  "root=/dev/mapper/root rd.luks.options=tpm2-device=auto\n",
	"dhcp-identity":        "DUIDRawData=00:01\nsend dhcp-client-identifier \"a\";\nclientid a\nDHCLIENT_CLIENT_ID=a\ndhcp-client-id=node-7\n",
	"boot-disks":           "RESUME=/dev/disk/by-id/scsi-36002248\n",
	"lvm-names":            "local {\n  system_id_source = \"uname\"\n}\n",
	"multipath-names":      "multipaths {\n  multipath {\n    wwid 3600508b400105e210000900000490000\n  }\n}\n",
	"gpu-names":            "devices:\n- name: GPU-1c9a7d20-3f6e-4d5b-9b1f-0a1b2c3d4e5f\n",
	"names-of-network":     "network:\n  a: {dhcp4-overrides: {hostname: web}}\n<hostname>web</hostname>\n",
	"names-of-cloud-init":  "hostname: web\n",
	"names-at-boot":        "f+ /etc/hostname - - - - web\nhostnamectl set-hostname web\n",
	"snmp-users":           "usmUser 1 3 0x8000\n",
	"nvme-config":          `[{"hostnqn": "nqn.2014-08.org.nvmexpress:uuid:0"}]`,
	"network-mac":          "network:\n  ethernets:\n    a: {match: {macaddress: \"fa:16:3e:aa:bb:cc\"}}\n",
	"network-static":       "[ipv4]\naddress=10.0.3.17/24\nIPADDR=10.0.3.17\n",
	"kubelet-of-donor":     "KUBELET_EXTRA_ARGS=\"--node-ip=10.0.3.17\"\n",
	"rhsm-own-facts":       "{\"network.hostname\": \"a\"}\n",
	"nfs-client":           "options nfs nfs4_unique_id=5fb06bd0\nnfs4_unique_id=5fb06bd0\n",
	"pod-subnet":           `{"name":"kubenet","ipam":{"subnet":"10.244.7.0/24"}}`,
	"saved-firewall":       ":KUBE-SERVICES - [0:0]\n",
	"agent-ssm-hybrid":     "{\"ManagedInstanceID\":\"mi-0123456789abcdef0\"}\n",
	"udev-hardware":        `SUBSYSTEM=="net", ATTR{address}=="00:0d:3a:12:34:56", NAME="lan0"` + "\n",
}

// besides has files without which a rule refuses nothing.
var besides = map[string]map[string]string{"boot-files": {"boot/vmlinuz-6.1": "k"}}

// contentOf returns a content that a refusal refuses at a path.
func contentOf(rule *rules.Rule, path string) string {
	content, found := refused[rule.ID]
	switch {
	case !found:
		return "data"
	case strings.HasSuffix(path, ".efi"):
		return unified(content)
	default:
		return content
	}
}

// unified returns a unified kernel image with a command line.
func unified(commandLine string) string {
	const header, coff, section, begin = 0x40, 24, 40, 0x200
	image := make([]byte, begin)
	copy(image, "MZ")
	binary.LittleEndian.PutUint32(image[0x3c:], header)
	copy(image[header:], "PE\x00\x00")
	binary.LittleEndian.PutUint16(image[header+6:], 2)
	for i, name := range []string{".osrel", ".cmdline"} {
		at := image[header+coff+i*section:]
		copy(at, name)
		binary.LittleEndian.PutUint32(at[8:], uint32(len(commandLine)))
		binary.LittleEndian.PutUint32(at[16:], uint32(len(commandLine)+100)) // padded
		binary.LittleEndian.PutUint32(at[20:], uint32(begin*(i+1)))
	}
	return string(image) + strings.Repeat("\x00", begin) + commandLine + strings.Repeat("\x00", 100)
}

// before returns files that a rule must change, by path.
func before(r *rules.Rule) map[string]string {
	if files, found := wrong[r.ID]; found {
		return files
	}
	files := map[string]string{}
	for _, p := range r.Paths {
		switch r.Action {
		case rules.Install, rules.Record:
			continue
		default:
			files[concrete(p)] = "something of the donor's: " + r.ID
		}
	}
	return files
}

// TestEveryRule creates the files of each rule of each profile, and checks the tree after a run. Then the test skips
// this rule: the check must report exactly this rule.
func TestEveryRule(t *testing.T) {
	tried := map[string]bool{}
	for _, name := range v1alpha1.Profiles() {
		p := load(t, name)
		for i := range p.Rules {
			rule := &p.Rules[i]
			if tried[rule.ID] {
				continue
			}
			tried[rule.ID] = true
			t.Run(string(name)+"/"+rule.ID, func(t *testing.T) {
				os := map[string]string{}
				if len(rule.OnlyOS) > 0 {
					os["usr/lib/os-release"] = "ID=" + rule.OnlyOS[0] + "\n"
				}
				switch rule.Action {
				case rules.Refuse:
					testRefusal(t, p, rule)
				case rules.Keep:
					testKept(t, p, rule)
				default:
					testMet(t, p, rule, os)
					testSkipped(t, p, rule, os)
				}
			})
		}
	}
}

func testMet(t *testing.T, p *rules.Profile, rule *rules.Rule, os map[string]string) {
	found := before(rule)
	dir := plant(t, withoutEditsOf(node, found), os, found, withMakers(p, rule))
	r := runner(p)
	r.Allow = allowEdit(rule)
	m, err := run(t, dir, r)
	must(t, err)
	if m.Met != m.Rules || m.Rules < 40 {
		t.Errorf("met %d of %d rules", m.Met, m.Rules)
	}
	for path, content := range found {
		switch rule.Action {
		case rules.Delete, rules.Regenerate:
			if exists(dir, path) {
				t.Errorf("%s is still there", path)
			}
		case rules.Truncate:
			if got := readFile(t, dir, path); got != "" {
				t.Errorf("%s holds %q, want it empty", path, got)
			}
		case rules.Forget:
			if gone := strings.HasSuffix(path, "/written") || strings.HasSuffix(path, "/mount-id"); gone == exists(dir, path) {
				t.Errorf("%s is there: %t", path, gone)
			}
		case rules.Edit:
			if exists(dir, path) && readFile(t, dir, path) == content {
				t.Errorf("%s was not edited", path)
			}
		default:
			t.Errorf("rule %s finds %s, and this test has no check for it", rule.ID, path)
		}
	}
	if rule.Action == rules.Install || rule.Action == rules.Record {
		if !exists(dir, tree.Rel(rule.Paths[0])) {
			t.Errorf("%s was not written", rule.Paths[0])
		}
	}
}

// allowEdit allows a rule that would refuse its own files.
func allowEdit(rule *rules.Rule) []string {
	if rule.Action == rules.Edit && rule.Allowable {
		return []string{rule.ID}
	}
	return nil
}

// testSkipped skips one rule: Verify must depend on the rule.
func testSkipped(t *testing.T, p *rules.Profile, rule *rules.Rule, os map[string]string) {
	found := before(rule)
	dir := plant(t, withoutEditsOf(node, found), os, found, withMakers(p, rule))
	r := runner(p)
	r.Allow = allowEdit(rule)
	r.skip = func(other *rules.Rule) bool { return other.ID == rule.ID || shares(p, other, rule) }
	m, err := run(t, dir, r)
	whys := unmetOf(t, err).Whys
	if !strings.Contains(strings.Join(whys, "\n"), rule.ID+": ") {
		t.Errorf("the rule was left out, and the second look found only this unmet: %q", whys)
	}
	if _, err := m.Proof(r.Now()); err == nil {
		t.Error("a proof was given for a run that left a rule out")
	}
}

// shares reports whether a different rule covers a path of rule, so that the check cannot notice the skip.
func shares(p *rules.Profile, other, rule *rules.Rule) bool {
	if other.Action != rules.Delete && other.Action != rules.Regenerate {
		return false
	}
	for file := range before(rule) {
		for _, pattern := range other.Paths {
			if expression(strings.Split(tree.Rel(pattern), "/")).MatchString(file) {
				return true
			}
			// A directory above the file.
			for dir := file; strings.Contains(dir, "/"); {
				dir = dir[:strings.LastIndexByte(dir, '/')]
				if expression(strings.Split(tree.Rel(pattern), "/")).MatchString(dir) {
					return true
				}
			}
		}
	}
	return false
}

func testRefusal(t *testing.T, p *rules.Profile, rule *rules.Rule) {
	if slices.Contains([]string{rules.CheckModules, rules.CheckDrivers, rules.CheckFIPS}, rule.Check) {
		t.Skip("these compare kernels, in TestKernelModules, TestBootDrivers and TestFIPS")
	}
	paths := slices.DeleteFunc(slices.Clone(rule.Paths), func(p string) bool { return slices.Contains(rule.Except, p) })
	for i, pattern := range paths {
		dir := plant(t, node, besides[rule.ID], map[string]string{concrete(pattern): contentOf(rule, pattern)})
		var err error
		if i == 0 {
			untouched := snapshot(t, dir)
			_, err = run(t, dir, runner(p))
			if diff := cmp.Diff(untouched, snapshot(t, dir)); diff != "" {
				t.Errorf("refused, but the tree was changed:\n%s", diff)
			}
		} else {
			err = runner(p).Refusals(open(t, dir)) // look and run begin with this
		}
		refused := refusedOf(t, err)
		if !strings.Contains(refused.Error(), rule.ID) || !strings.Contains(refused.Error(), "/"+concrete(pattern)) {
			t.Errorf("the refusal names neither rule nor path: %v", refused)
		}
		if why, err := verify(open(t, dir), rule, &DonorValues{}); err != nil || why == "" {
			t.Errorf("Verify does not see it: %q, %v", why, err)
		}
	}
	if !rule.Allowable {
		return
	}
	dir := plant(t, node, besides[rule.ID], map[string]string{concrete(paths[0]): contentOf(rule, paths[0])})
	r := runner(p)
	r.Allow = []string{rule.ID}
	m, err := run(t, dir, r)
	must(t, err)
	if at := concrete(paths[0]); !exists(dir, at) && !removes(p, open(t, dir), at) {
		t.Error("what was allowed to stay is gone")
	}
	for _, o := range m.Outcomes {
		if o.Rule == rule.ID && (!o.Waived || o.Found == 0) {
			t.Errorf("the manifest does not say what was allowed: %+v", o)
		}
	}
}

func testKept(t *testing.T, p *rules.Profile, rule *rules.Rule) {
	found := before(rule)
	dir := plant(t, node, found)
	_, err := run(t, dir, runner(p))
	must(t, err)
	for path, content := range found {
		if got := readFile(t, dir, path); got != content {
			t.Errorf("%s holds %q, want it kept", path, got)
		}
	}
	// Verify must notice the removal.
	b, err := LookBefore(open(t, dir), p)
	must(t, err)
	for path := range found {
		if _, err := open(t, dir).Remove(path, nil); err != nil {
			t.Fatal(err)
		}
	}
	if why, err := verify(open(t, dir), rule, b); err != nil || why == "" {
		t.Errorf("Verify does not see that it is gone: %q, %v", why, err)
	}
}

// withoutEditsOf returns files without the names in others.
func withoutEditsOf(files, others map[string]string) map[string]string {
	rest := map[string]string{}
	for name, content := range files {
		if _, taken := others[name]; !taken {
			rest[name] = content
		}
	}
	return rest
}

// swapPage is the start of a swap space with pages of 4 KiB.
var swapPage = strings.Repeat("\x00", 4<<10-10) + "SWAPSPACE2" + "what was in memory"

// TestSwapFilePaths: if fstab or a unit names a file as swap and the file is no swap, the file stays and the run
// is refused.
func TestSwapFilePaths(t *testing.T) {
	for name, content := range map[string]string{"a short text": "the only copy\n", "an empty file": "", "a database": strings.Repeat("row\n", 64<<10), "a signature elsewhere": "SWAPSPACE2" + swapPage} {
		for settings, files := range map[string]map[string]string{
			"fstab":  {"etc/fstab": "/data/books none swap sw 0 0\n"},
			"a unit": {"etc/systemd/system/data-books.swap": "[Swap]\nWhat=/data/books\n"},
		} {
			t.Run(name+" by "+settings, func(t *testing.T) {
				dir := plant(t, node, files, map[string]string{"data/books": content})
				was := snapshot(t, dir)
				_, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
				if why := refusedOf(t, err).Error(); !strings.Contains(why, "rule named-swap: /data/books") || !strings.Contains(why, "mkswap") {
					t.Errorf("got %q", why)
				}
				if diff := cmp.Diff(was, snapshot(t, dir)); diff != "" {
					t.Errorf("changed all the same:\n%s", diff)
				}
			})
		}
	}
}

// TestAgentsOfRancher: profile bootstrap removes the identity of an agent of k3s or RKE2. Profile static does not
// know such nodes, and refuses.
func TestAgentsOfRancher(t *testing.T) {
	key := needles{t}.pem()
	for _, of := range []string{"k3s", "rke2"} {
		at := "var/lib/rancher/" + of + "/agent/"
		files := map[string]string{
			at + "client-kubelet.key": key, at + "client-kubelet.crt": "certificate of the donor\n", at + "serving-kubelet.key": key, at + "serving-kubelet.crt": "one more\n",
			at + "client-kube-proxy.key": key, at + "client-" + of + "-controller.key": key, "etc/rancher/node/password": "0123456789abcdef0123456789abcdef\n",
		}
		stays := map[string]string{at + "client-ca.crt": "public\n", at + "server-ca.crt": "public\n", at + "kubelet.kubeconfig": "client-key: /" + at + "client-kubelet.key\n"}
		dir := plant(t, map[string]string{"etc/machine-id": node["etc/machine-id"], "etc/hostname": donor + "\n"}, files, stays)
		_, err := run(t, dir, runner(load(t, v1alpha1.ProfileBootstrap)))
		must(t, err)
		for name := range files {
			if exists(dir, name) {
				t.Errorf("%s: /%s is there", of, name)
			}
		}
		for name := range stays {
			if !exists(dir, name) {
				t.Errorf("%s: /%s is gone", of, name)
			}
		}
		for name, content := range files {
			if strings.HasSuffix(name, ".crt") {
				continue
			}
			dir := plant(t, node, map[string]string{name: content})
			if _, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic))); !strings.Contains(unmetOf(t, err).Error(), "/"+name) {
				t.Errorf("profile static: %v, want /%s found", err, name)
			}
		}
	}
}

// TestSwapFilesInFstab: a swap file and its line are removed. Partitions and entries without a file stay.
func TestSwapFilesInFstab(t *testing.T) {
	dir := plant(t, node, map[string]string{
		"etc/fstab":      "UUID=aaaa / ext4 defaults 0 1\n/data/page\\040file none swap sw 0 0\n#/srv/other none swap sw 0 0\n/dev/sda3 none swap sw 0 0\n/srv/dir none swap sw 0 0\n",
		"data/page file": swapPage, "srv/other": "stays", "srv/dir/file": "stays",
	})
	_, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
	if exists(dir, "data/page file") || !exists(dir, "srv/other") || !exists(dir, "srv/dir/file") {
		t.Error("a swap file is there, or another file is not")
	}
	want := "UUID=aaaa / ext4 defaults 0 1\n#/srv/other none swap sw 0 0\n/dev/sda3 none swap sw,nofail,x-systemd.device-timeout=10s 0 0\n"
	if diff := cmp.Diff(want, readFile(t, dir, "etc/fstab")); diff != "" {
		t.Errorf("etc/fstab (-want +got):\n%s", diff)
	}
}

func TestEditsKeepTheRest(t *testing.T) {
	dir := plant(t, node)
	_, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
	want := map[string]string{
		"etc/hosts":  "127.0.0.1 localhost\n10.240.0.7\tregistry # shared\n::1 ip6-localhost\n",
		"etc/fstab":  "UUID=aaaa / ext4 defaults 0 1\n",
		"etc/passwd": "root:x:0:0::/root:/bin/bash\nazureuser:x:1000:1000::/home/azureuser:/bin/bash\n",
	}
	for file, content := range want {
		if diff := cmp.Diff(content, readFile(t, dir, file)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}
