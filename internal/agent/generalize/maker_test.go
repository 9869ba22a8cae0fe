package generalize

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// network is a file that cloud-init wrote for the donor's network card.
const network = "network:\n  ethernets:\n    eth0: {match: {macaddress: \"00:0d:3a:12:34:56\"}}\n"

// TestMakerIsDisabled: a disk is refused, and not changed, if a setting keeps cloud-init from creating removed files.
func TestMakerIsDisabled(t *testing.T) {
	const netplan, cfg = "etc/netplan/50-cloud-init.yaml", "etc/cloud/cloud.cfg.d/99-ours.cfg"
	unit := "etc/systemd/system/cloud-init.target.wants/cloud-init-local.service"
	for name, test := range map[string]struct {
		files   map[string]string
		without string
		rule    string // empty: not refused
		names   string
	}{
		"nothing":                {},
		"the network in a line":  {map[string]string{cfg: "network: {config: disabled}\n"}, "", "network-by-cloud-init", "/" + cfg},
		"the network in a block": {map[string]string{cfg: "# ours\nnetwork:\n    config: \"disabled\"\n"}, "", "network-by-cloud-init", "/" + cfg},
		"the network in JSON":    {map[string]string{cfg: `{"network": {"config": "Disabled"}}`}, "", "network-by-cloud-init", "/" + cfg},
		"the network in cloud.cfg": {map[string]string{"etc/cloud/cloud.cfg": "network: {config: disabled}\n"}, "",
			"network-by-cloud-init", "/etc/cloud/cloud.cfg"},
		"the network in a later file": {map[string]string{"etc/cloud/cloud.cfg.d/01.cfg": "network: {config: disabled}\n",
			cfg: "network: {config: {version: 2}}\n"}, "", "", ""},
		"the network, by the kernel": {map[string]string{"etc/default/grub.d/50.cfg": "GRUB_CMDLINE_LINUX=\"quiet network-config=disabled\"\n"}, "", "network-by-cloud-init", "/etc/default/grub.d/50.cfg"},
		"a comment": {map[string]string{cfg: "# network: {config: disabled}\n",
			"etc/default/grub": "# cloud-init=disabled\n"}, "", "", ""},
		"a file that is not YAML": {map[string]string{cfg: "network: {config: disabled\n"}, "", "", ""},
		"a file of another name":  {map[string]string{cfg + ".off": "network: {config: disabled}\n"}, "", "", ""},
		"cloud-init, by the kernel": {map[string]string{"boot/loader/entries/a.conf": "options root=/dev/sda1 cloud-init=disabled\n"}, "",
			"cloud-init-state", "/boot/loader/entries/a.conf"},
		"cloud-init, by its mask": {map[string]string{"etc/systemd/system/cloud-init.service": "-> /dev/null"}, "", "cloud-init-state",
			"/etc/systemd/system/cloud-init.service"},
		"cloud-init, by its policy": {map[string]string{"etc/cloud/ds-identify.cfg": "policy: disabled\n"}, "", "cloud-init-state",
			"/etc/cloud/ds-identify.cfg"},
		"cloud-init keeps its cache":  {map[string]string{cfg: "manual_cache_clean: yes\n"}, "", "cloud-init-state", "/" + cfg},
		"cloud-init without a source": {map[string]string{cfg: "datasource_list: [ None ]\n"}, "", "cloud-init-state", "/" + cfg},
		"several sources":             {map[string]string{cfg: "datasource_list: [ Azure, None ]\n"}, "", "", ""},
		"cloud-init, masked by the kernel": {map[string]string{"etc/default/grub": "GRUB_CMDLINE_LINUX=systemd.mask=cloud-init-local.service\n"},
			"", "cloud-init-state", "/etc/default/grub"},
		"the first boot, by the kernel": {map[string]string{"etc/kernel/cmdline": "quiet systemd.mask=kamino-first-boot.service\n",
			"etc/ssh/ssh_host_rsa_key": "k"}, "", "ssh-host-keys", "/etc/kernel/cmdline"},
		"the first boot, by a drop-in of all": {map[string]string{"etc/systemd/system/service.d/10.conf": "[Unit]\nConditionFirstBoot=no\n",
			"etc/ssh/ssh_host_rsa_key": "k"}, "", "ssh-host-keys", "/etc/systemd/system/service.d/10.conf"},
		"cloud-init's unit":           {nil, unit, "network-by-cloud-init", "cloud-init-local.service is not enabled"},
		"cloud-init itself":           {nil, "usr/bin/cloud-init", "network-by-cloud-init", "is not on the disk"},
		"the host name":               {map[string]string{cfg: "preserve_hostname: true\n"}, "", "hostname", "/" + cfg},
		"the host name's modules":     {map[string]string{cfg: "cloud_init_modules: [seed_random, [growpart, always]]\n"}, "", "hostname", "/" + cfg},
		"a module with its frequency": {map[string]string{cfg: "cloud_init_modules: [[set-hostname, always]]\n"}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(node)
			delete(files, test.without)
			dir := plant(t, files, map[string]string{netplan: network, "var/lib/cloud/instances/i-1/obj.pkl": "x"}, test.files)
			was := snapshot(t, dir)
			_, err := run(t, dir, runner(load(t, v1alpha1.ProfileBootstrap)))
			if test.rule == "" {
				must(t, err)
				return
			}
			if why := refusedOf(t, err).Error(); !strings.Contains(why, "rule "+test.rule+": ") || !strings.Contains(why, test.names) {
				t.Errorf("got %q", why)
			}
			if diff := cmp.Diff(was, snapshot(t, dir)); diff != "" {
				t.Errorf("changed all the same:\n%s", diff)
			}
		})
	}
}

// TestMakersAtBoot: makers are checked as the next boot finds them.
func TestMakersAtBoot(t *testing.T) {
	const keys, off = "home/ops/.ssh/authorized_keys", "run/cloud-init/disabled"
	unit := "[Service]\n[Install]\nWantedBy=multi-user.target\n"
	for what, test := range map[string]struct {
		files map[string]string
		rules string // refusing, joined by spaces
	}{
		"enabled": {map[string]string{"run/cloud-init/enabled": "", keys: "k"}, ""},
		"without a data source": {map[string]string{off: "", keys: "k", "etc/kubernetes/kubelet.conf": "c"},
			"hostname authorized-keys kubelet-credentials"},
		"in the log of an older release": {map[string]string{"run/cloud-init/ds-identify.log": "No ds found [mode=search, notfound=disabled]. Disabled cloud-init [1]\n"}, "hostname"},
		"found":                          {map[string]string{"run/cloud-init/ds-identify.log": "Found single datasource: NoCloud\n"}, ""},
		"a file that no clone has":       {map[string]string{off: "", "etc/cloud/cloud-init.disabled": "", keys: "k"}, ""},
		"the policy of the kernel":       {map[string]string{"etc/kernel/cmdline": "quiet ci.di.policy=disabled\n", keys: "k"}, "hostname authorized-keys"},
		"a name from DHCP":               {map[string]string{off: "", "run/systemd/netif/leases/2": "ADDRESS=10.0.3.17\nHOSTNAME=a\n"}, ""},
		"a name that networkd leaves": {map[string]string{off: "", "run/systemd/netif/leases/2": "HOSTNAME=a\n",
			"run/systemd/network/10-netplan-eth0.network": "[Match]\nName=eth0\n[DHCP]\nUseHostname=false\n"}, "hostname"},
		"a name by NetworkManager": {map[string]string{off: "", "var/lib/NetworkManager/internal-1-eth0.lease": "HOSTNAME=a\n",
			"etc/NetworkManager/conf.d/10.conf": "[main]\nhostname-mode=dhcp\n", "etc/systemd/network/10.network": "[DHCPv4]\nUseHostname=no\n"}, ""},
		"a name that NetworkManager leaves": {map[string]string{off: "", "var/lib/NetworkManager/internal-1-eth0.lease": "HOSTNAME=a\n",
			"etc/NetworkManager/conf.d/10.conf": "[main]\nhostname-mode = none\n"}, "hostname"},
		"a connection without a name": {map[string]string{off: "", "var/lib/NetworkManager/internal-1-eth0.lease": "HOSTNAME=a\n",
			"etc/NetworkManager/system-connections/eth0.nmconnection": "[hostname]\nfrom-dhcp=0\n"}, "hostname"},
		"a name by wicked": {map[string]string{off: "", "var/lib/wicked/lease-eth0-dhcp-ipv4.xml": "<lease><hostname>a</hostname></lease>\n",
			"etc/sysconfig/network/dhcp": "DHCLIENT_SET_HOSTNAME=\"yes\"\n"}, ""},
		"a name that wicked leaves": {map[string]string{off: "", "var/lib/wicked/lease-eth0-dhcp-ipv4.xml": "<lease><hostname>a</hostname></lease>\n",
			"etc/sysconfig/network/dhcp": "DHCLIENT_SET_HOSTNAME=\"no\"\n"}, "hostname"},
		"the Azure agent": {map[string]string{off: "", keys: "k", "etc/waagent.conf": "Provisioning.Agent=waagent\n",
			"usr/lib/systemd/system/walinuxagent.service": "[Service]\n"}, ""},
		"the Azure agent, off": {map[string]string{off: "", keys: "k", "etc/waagent.conf": "Provisioning.Agent=waagent\n"},
			"hostname authorized-keys"},
		"a join by a unit": {map[string]string{off: "", "run/systemd/netif/leases/2": "HOSTNAME=a\n", "etc/kubernetes/kubelet.conf": "c",
			"etc/systemd/system/join.service": "[Service]\nExecStart=/usr/bin/kubeadm join --config /run/join\n"}, ""},
		"a comment about a join": {map[string]string{off: "", "run/systemd/netif/leases/2": "HOSTNAME=a\n", "etc/kubernetes/kubelet.conf": "c",
			"etc/systemd/system/kubelet.service.d/10-kubeadm.conf": "# \"kubeadm init\" and \"kubeadm join\" generate it\n[Service]\n"}, "kubelet-credentials"},
		"an agent of RKE2": {map[string]string{off: "", "run/systemd/netif/leases/2": "HOSTNAME=a\n", "var/lib/rancher/rke2/agent/client-kubelet.key": "k",
			"usr/lib/systemd/system/rke2-agent.service": unit, "etc/systemd/system/multi-user.target.wants/rke2-agent.service": "-> /usr/lib/systemd/system/rke2-agent.service"}, ""},
		"a token of user data":       {map[string]string{"etc/rancher/rke2/config.yaml": "token: a\n", "var/lib/cloud/instances/i-1/scripts/part-001": "cat >/etc/rancher/rke2/config.yaml\n"}, ""},
		"a token without user data":  {map[string]string{"etc/rancher/rke2/config.yaml": "token: a\n", "var/lib/cloud/instances/i-1/scripts/part-001": "# /etc/rancher/rke2/config.yaml\n"}, "rancher-token"},
		"an agent without its token": {map[string]string{"etc/rancher/rke2/config.yaml": "server: https://a:9345\ntoken-file: /run/token\n"}, ""},
		"an agent that is off": {map[string]string{off: "", "run/systemd/netif/leases/2": "HOSTNAME=a\n", "var/lib/rancher/rke2/agent/client-kubelet.key": "k",
			"usr/lib/systemd/system/rke2-agent.service": unit}, "rancher-credentials"},
		"a host certificate":      {map[string]string{"etc/ssh/ssh_host_rsa_key-cert.pub": "c"}, "ssh-host-certificates"},
		"a cached address of CNI": {map[string]string{"var/lib/azure-network/azure-vnet.json": "{}"}, "cni-identity"},
		"Insights":                {map[string]string{"etc/insights-client/machine-id": "x"}, "insights"},
		"a join token of SPIRE": {map[string]string{"var/lib/spire/agent/keys.json": "{}",
			"etc/spire/agent/agent.conf": "plugins { NodeAttestor \"join_token\" { } }\n"}, "agent-spire"},
		"a registration with SUSE": {map[string]string{"etc/zypp/credentials.d/SCCcredentials": "x"}, "suse-registration"},
		"a pod of a worker":        {map[string]string{"etc/kubernetes/manifests/nginx-proxy.yml": "kind: Pod\n"}, "static-pods"},
		"a draft of a pod":         {map[string]string{"etc/kubernetes/manifests/.proxy.yml.swp": "kind: Pod\n"}, ""},
		"a pod without nodeup":     {map[string]string{"etc/kubernetes/manifests/kube-proxy.manifest": "kind: Pod\n"}, "kops-static-pods"},
	} {
		t.Run(what, func(t *testing.T) {
			err := runner(load(t, v1alpha1.ProfileBootstrap)).Refusals(open(t, plant(t, node, test.files)))
			refusing(t, err, test.rules)
		})
	}
}

// refusing fails the test unless exactly these rules refuse.
func refusing(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		must(t, err)
		return
	}
	var got []string
	for _, why := range refusedOf(t, err).Whys {
		rule, _, _ := strings.Cut(strings.TrimPrefix(why, "rule "), ":")
		got = append(got, rule)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(strings.Fields(want))), slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("rules that refuse (-want +got):\n%s\n%v", diff, err)
	}
}

// TestAllowedWithoutMaker: the user takes over the work of the maker, and the files are removed.
func TestAllowedWithoutMaker(t *testing.T) {
	p := load(t, v1alpha1.ProfileBootstrap)
	allowed := runner(p)
	allowed.Allow = []string{"network-by-cloud-init"}
	exempt := runner(load(t, v1alpha1.ProfileBootstrap))
	exempt.Profile.Exempt = []rules.Exemption{{Rule: "network-by-cloud-init", Refusal: true, Reason: "we write it"}}
	for name, r := range map[string]*Runner{"by name": allowed, "by an exemption": exempt} {
		dir := plant(t, node, map[string]string{"etc/netplan/50-cloud-init.yaml": network, "etc/cloud/cloud.cfg": "network: {config: disabled}\n"})
		m, err := run(t, dir, r)
		must(t, err)
		if exists(dir, "etc/netplan/50-cloud-init.yaml") {
			t.Errorf("%s: the donor's file is there", name)
		}
		for _, o := range m.Outcomes {
			if (o.Rule == "network-by-cloud-init") != o.Allowed || o.Waived {
				t.Errorf("%s: the manifest says of rule %s %+v", name, o.Rule, o)
			}
		}
	}
}

// TestProfileSetsHostName: the file that profile static installs overrides an earlier setting.
func TestProfileSetsHostName(t *testing.T) {
	dir := plant(t, node, map[string]string{"etc/cloud/cloud.cfg": "preserve_hostname: true\n"})
	_, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
}

// TestEnabled covers the states of a unit.
func TestEnabled(t *testing.T) {
	const at, unit = "usr/lib/systemd/system/a.service", "[Service]\n[Install]\nWantedBy=multi-user.target\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"missing":  {nil, false},
		"static":   {map[string]string{at: "[Service]\n"}, true},
		"disabled": {map[string]string{at: unit}, false},
		"wanted":   {map[string]string{at: unit, "etc/systemd/system/multi-user.target.wants/a.service": "-> /" + at}, true},
		"required": {map[string]string{at: unit, "usr/lib/systemd/system/x.target.requires/a.service": "-> ../a.service"}, true},
		"masked": {map[string]string{at: unit, "etc/systemd/system/a.service": "-> /dev/null",
			"etc/systemd/system/x.target.wants/a.service": "-> /" + at}, false},
		"masked by an empty file": {map[string]string{at: "[Service]\n", "etc/systemd/system/a.service": ""}, false},
		"replaced":                {map[string]string{at: "[Service]\n", "etc/systemd/system/a.service": unit}, false},
	} {
		got, err := files{tree: open(t, plant(t, test.files))}.enabled("a.service")
		if err != nil || got != test.want {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}

// TestMakerEvidence: one path or one setting suffices.
func TestMakerEvidence(t *testing.T) {
	m := rules.Maker{Name: "m", Missing: "a token", Remedy: "r", Paths: []string{"/a/*"}, Evidence: []rules.Setting{{Paths: []string{"/b"},
		Pattern: "token", Matcher: regexp.MustCompile("token")}}}
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"neither": {map[string]string{"b": "none"}, "a token is not on the disk"},
		"a path":  {map[string]string{"a/x": ""}, ""},
		"setting": {map[string]string{"b": "token: 1"}, ""},
		"a link":  {map[string]string{"b": "-> /c"}, "a token is not on the disk"},
	} {
		got, err := whyNot(&m, files{tree: open(t, plant(t, test.files))})
		if err != nil || got != test.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// scripts show makers that no file alone shows.
var scripts = map[string]string{
	"azure-arc-enrolment": "azcmagent connect -g x\n", "red-hat-registration": "subscription-manager register --org x\n", "landscape-registration": "landscape-config --silent\n",
	"host-certificate": "step ssh certificate --host x\n", "suse-registration": "registercloudguest\n", "certificate-request": "getcert request -f x\n",
	"zerotier-authorization": "curl https://my.zerotier.com/api\n", "gluster-join": "gluster --remote-host=a peer probe $(hostname)\n",
}

// withMakers returns files that show the makers of a rule.
func withMakers(p *rules.Profile, r *rules.Rule) map[string]string {
	shown := map[string]string{}
	for i := range p.Makers {
		m := &p.Makers[i]
		if !slices.Contains(r.MakerNames(), m.Name) {
			continue
		}
		if script := scripts[m.Name]; script != "" {
			shown["usr/local/sbin/enrol-"+m.Name] = script
		}
		if len(m.Paths) > 0 {
			shown[concrete(m.Paths[0])] = "x"
		}
		for _, unit := range m.Units {
			shown[tree.Rel("/usr/lib/systemd/system/"+unit)] = "[Unit]\n"
		}
	}
	return shown
}

// TestEnrolment: an agent loses its enrolment only if something on the disk enrols it again.
func TestEnrolment(t *testing.T) {
	for rule, test := range map[string]struct{ store, evidence, content string }{
		"agent-falcon": {"opt/CrowdStrike/falconstore", "etc/systemd/system/enrol.service",
			"[Service]\nExecStart=/opt/CrowdStrike/falconctl -s -f --cid=$CID\n"},
		"agent-defender": {"etc/opt/microsoft/mdatp/mdatp_onboard.json", "var/lib/waagent/Microsoft.Azure.AzureDefenderForServers.MDE.Linux-1.0/mrseq", "0"},
		"agent-qualys":   {"etc/qualys/hostid", "etc/qualys/cloud-agent/qualys-cloud-agent.conf", "ActivationId=a\nCustomerId=b\n"},
		"agent-puppet":   {"etc/puppetlabs/puppet/ssl/private_keys/a.pem", "etc/puppetlabs/puppet/puppet.conf", "[main]\nserver = x\n"},
		"agent-chef":     {"etc/chef/client.pem", "usr/local/bin/bootstrap.sh", "#!/bin/sh\nchef-client --once\n"},
		"agent-netbird": {"etc/netbird/config.json", "etc/systemd/system/netbird.service.d/key.conf",
			"[Service]\nEnvironment=NB_SETUP_KEY_FILE=/run/key\n"},
		"agent-tanium": {"opt/Tanium/TaniumClient/TaniumClient.ini", "opt/Tanium/TaniumClient/tanium-init.dat", "x"},
		"agent-tailscale": {"var/lib/tailscale/tailscaled.state", "etc/systemd/system/up.service",
			"[Service]\nExecStart=/usr/bin/tailscale up --auth-key=file:/run/key\n"},
		"agent-teleport":    {"var/lib/teleport/host_uuid", "etc/teleport.yaml", "teleport:\n  join_params:\n    method: iam\n"},
		"agent-elastic":     {"opt/Elastic/Agent/fleet.enc", "var/lib/waagent/Elastic.ElasticAgent.linux-1.0/mrseq", "0"},
		"agent-trend-micro": {"var/opt/ds_agent/dsa_core/ds_agent.config", "etc/rc.local", "/opt/ds_agent/dsa_control -a dsm://x:4120/\n"},
		"agent-azure-arc":   {"var/opt/azcmagent/agentconfig.json", "usr/local/bin/arc", "azcmagent connect --cloud x\n"},
		"agent-illumio":     {"opt/illumio_ven_data/etc/agentid", "usr/local/sbin/ven", "/opt/illumio_ven/illumio-ven-ctl activate --management-server x\n"},
		"agent-nessus":      {"etc/tenable_tag", "opt/nessus_agent/var/nessus/config.json", "{}"},
		"agent-checkmk": {"var/lib/cmk-agent/registered_connections.json", "etc/cloud/cloud.cfg.d/50-site.cfg",
			"bootcmd: [cmk-agent-ctl register --hostname x]\n"},
		"agent-twingate":  {"var/lib/twingate/id", "etc/twingate/service_key.json", "{}"},
		"kerberos":        {"etc/krb5.keytab", "etc/systemd/system/join.service", "[Service]\nExecStart=/usr/sbin/adcli join example.com\n"},
		"subscriptions":   {"etc/pki/consumer/cert.pem", "etc/rhsm/rhsm.conf", "[rhsmcertd]\nauto_registration = 1\n"},
		"cni-credentials": {"var/lib/calico/nodename", "var/log/pods/kube-system_calico-node-x_1/calico-node/0.log", "x"},
		"ubuntu-pro":      {"var/lib/ubuntu-advantage/private/machine-token.json", "usr/lib/systemd/system/ua-auto-attach.service", "[Service]\n"},
	} {
		p := load(t, v1alpha1.ProfileStatic)
		dir := plant(t, node, map[string]string{test.store: "the donor's"})
		if _, err := run(t, dir, runner(p)); !strings.Contains(refusedOf(t, err).Error(), "--allow "+rule) || !exists(dir, test.store) {
			t.Errorf("%s without an enrolment: %v", rule, err)
		}
		writeFile(t, dir, test.evidence, test.content)
		if _, err := run(t, dir, runner(p)); err != nil || exists(dir, test.store) {
			t.Errorf("%s with an enrolment: %v", rule, err)
		}
		allowed := runner(p)
		allowed.Allow = []string{rule}
		dir = plant(t, node, map[string]string{test.store: "the donor's"})
		if _, err := run(t, dir, allowed); err != nil || exists(dir, test.store) {
			t.Errorf("%s allowed: %v", rule, err)
		}
	}
}
