package generalize

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// donorFile is a file of people or their tools with a value of the donor.
type donorFile struct {
	path, content string
	// want is the result: "refused RULE", "found VALUE", "edited RULE" (the value is gone), "removed RULE", or "stays".
	want string
}

// donorFiles name the donor. docs/reference/verification.md sums up the table.
var donorFiles = []donorFile{
	// kubelet
	{"etc/default/kubelet", "KUBELET_EXTRA_ARGS=\"--hostname-override=" + donor + "\"\n", "refused kubelet-of-donor"},
	{"etc/default/kubelet", "KUBELET_EXTRA_ARGS=--node-ip=10.0.3.17\n", "refused kubelet-of-donor"},
	{"etc/default/kubelet", "KUBELET_EXTRA_ARGS=--provider-id=azure:///subscriptions/s/x/pool1/7\n", "refused kubelet-of-donor"},
	{"etc/sysconfig/kubelet", "KUBELET_EXTRA_ARGS='--v=2 --node-ip 2001:db8::7'\n", "refused kubelet-of-donor"},
	{"etc/systemd/system/kubelet.service.d/20-node-ip.conf", "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--node-ip=10.0.3.17\"\n", "refused kubelet-of-donor"},
	{"etc/systemd/system/kubelet.service", "[Service]\nExecStart=/usr/bin/kubelet --hostname-override node-7\n", "refused kubelet-of-donor"},
	{"etc/kubernetes/kubelet.env", "KUBELET_HOSTNAME=\"--hostname-override=" + donor + "\"\n", "refused kubelet-of-donor"},
	{"etc/kubernetes/kubelet-config.yaml", "kind: KubeletConfiguration\nproviderID: aws:///eu-central-1a/i-0abcdef0123456789\n", "refused kubelet-of-donor"},
	{"var/lib/kubelet/config.yaml", "providerID: openstack:///7\n", "refused kubelet-of-donor"},
	{"etc/rancher/k3s/config.yaml", "node-name: node-7\n", "refused kubelet-of-donor"},
	{"etc/rancher/rke2/config.yaml.d/10.yaml", "node-external-ip: \"10.0.3.17\"\n", "refused kubelet-of-donor"},
	{"etc/systemd/system/k3s-agent.service.env", "K3S_NODE_NAME='node-7'\n", "refused kubelet-of-donor"},
	{"var/snap/microk8s/current/args/kubelet", "--node-ip=10.0.3.17\n", "refused kubelet-of-donor"},
	{"etc/default/kubelet", "KUBELET_EXTRA_ARGS=\"--hostname-override=$(hostname) --node-ip=::\"\n", "stays"},
	// network
	{"etc/netplan/01-netcfg.yaml", "network:\n  ethernets:\n    ens3:\n      addresses: [10.0.3.17/24]\n", "refused network-static"},
	{"etc/netplan/01-netcfg.yaml", "network:\n  ethernets:\n    ens3:\n      addresses:\n        - 10.0.3.17/24\n", "refused network-static"},
	{"etc/netplan/01-netcfg.yaml", "network:\n  ethernets:\n    ens3:\n      match:\n        macaddress: fa:16:3e:aa:bb:cc\n      dhcp4: true\n", "refused network-mac"},
	{"etc/systemd/network/10-lan.network", "[Match]\nName=eth0\n[Network]\nAddress=10.0.3.17/24\n", "refused network-static"},
	{"etc/systemd/network/10-lan.network", "[Match]\nMACAddress=fa:16:3e:aa:bb:cc\n[Network]\nDHCP=yes\n", "refused network-mac"},
	{"etc/systemd/network/10-lan.network.d/10-address.conf", "[Network]\nAddress=2001:db8::7/64\n", "refused network-static"},
	{"etc/systemd/network/10-lan.network.d/10-mac.conf", "[Match]\nPermanentMACAddress=fa:16:3e:aa:bb:cc\n", "refused network-mac"},
	{"etc/systemd/network/70-lan.link", "[Match]\nMACAddress=fa:16:3e:aa:bb:cc\n[Link]\nName=lan\n", "refused network-mac"},
	{"etc/systemd/network/70-lan.link.d/10.conf", "[Link]\nMACAddress=fa:16:3e:aa:bb:cc\n", "refused network-mac"},
	{"etc/systemd/network/20-bridge.netdev", "[NetDev]\nName=br0\nKind=bridge\nMACAddress=fa:16:3e:aa:bb:cc\n", "refused network-mac"},
	{"usr/lib/netplan/01-netcfg.yaml", "network:\n  ethernets:\n    ens3:\n      match: {macaddress: \"fa:16:3e:aa:bb:cc\"}\n", "refused network-mac"},
	{"etc/netplan/01-ovs.yaml", "network:\n  bridges:\n    br0:\n      openvswitch:\n        other-config: {hwaddr: \"fa:16:3e:aa:bb:cc\"}\n", "refused network-mac"},
	{"etc/systemd/network/70-lan.link", "[Match]\nPermanentMACAddress=fa-16-3e-aa-bb-cc\n[Link]\nName=lan\n", "refused network-mac"},
	{"etc/systemd/network/70-lan.link", "[Match]\nMACAddress=fa16.3eaa.bbcc\n", "refused network-mac"},
	{"usr/local/lib/systemd/network/70-lan.link", "[Match]\nMACAddress=fa:16:3e:aa:bb:cc\n", "refused network-mac"},
	{"etc/systemd/network/20-bridge.netdev.d/10.conf", "[NetDev]\nMACAddress=fa:16:3e:aa:bb:cc\n", "refused network-mac"},
	{"etc/systemd/network/70-lan.link", "[Match]\nOriginalName=*\n[Link]\nMACAddressPolicy=persistent\n# MACAddress=fa:16:3e:aa:bb:cc\n", "stays"},
	{"etc/NetworkManager/conf.d/10.conf", "[device-lan]\nmatch-device=mac:FA:16:3E:AA:BB:CC\nmanaged=0\n", "refused network-mac"},
	{"etc/NetworkManager/NetworkManager.conf", "[main]\nno-auto-default=fa:16:3e:aa:bb:cc\n[keyfile]\nunmanaged-devices=interface-name:cali*;driver:veth\n", "refused network-mac"},
	{"etc/wicked/ifconfig/eth0.xml", "<interface>\n  <name namespace=\"ethernet\">\n    <permanent-address>fa:16:3e:aa:bb:cc</permanent-address>\n  </name>\n</interface>\n", "refused network-mac"},
	{"etc/mactab", "# names\nlan0 fa:16:3e:aa:bb:cc\n", "refused network-mac"},
	{"etc/network/interfaces", "rename mac/fa:16:3e:aa:bb:cc=lan0\n", "refused network-mac"},
	{"etc/network/interfaces", "iface eth0 inet static\n  address 10.0.3.17\n  netmask 255.255.255.0\n", "refused network-static"},
	{"etc/network/interfaces.d/eth0", "iface eth0 inet dhcp\n  hwaddress ether fa:16:3e:aa:bb:cc\n", "refused network-mac"},
	{"etc/dhcpcd.conf", "interface eth0\nstatic ip_address=10.0.3.17/24\n", "refused network-static"},
	{"etc/sysconfig/network-scripts/ifcfg-eth0", "DEVICE=eth0\nBOOTPROTO=none\nIPADDR=10.0.3.17\n", "refused network-static"},
	{"etc/sysconfig/network-scripts/ifcfg-eth0", "DEVICE=eth0\nHWADDR=fa:16:3e:aa:bb:cc\n", "edited network-hardware"},
	{"etc/sysconfig/network/ifcfg-eth0", "BOOTPROTO='static'\nIPADDR='10.0.3.17/24'\n", "refused network-static"},
	{"etc/sysconfig/network/ifcfg-eth0", "BOOTPROTO='dhcp'\nLLADDR='fa:16:3e:aa:bb:cc'\n", "edited network-hardware"},
	{"etc/NetworkManager/system-connections/eth0.nmconnection", "[ipv4]\nmethod=manual\naddress1=10.0.3.17/24,10.0.3.1\n", "refused network-static"},
	{"etc/NetworkManager/system-connections/eth0.nmconnection", "[connection]\nid=eth0\n[ethernet]\nmac-address=FA:16:3E:AA:BB:CC\n", "edited network-hardware"},
	{"etc/NetworkManager/system-connections/eth0.nmconnection", "[ethernet]\ncloned-mac-address=FA:16:3E:AA:BB:CC\n", "edited network-hardware"},
	{"etc/NetworkManager/system-connections/eth0.nmconnection", "[ethernet]\ncloned-mac-address=random\n", "stays"},
	{"etc/default/grub", "GRUB_CMDLINE_LINUX=\"ip=10.0.3.17::10.0.3.1:255.255.255.0:node:eth0:none\"\n", "refused network-of-kernel"},
	{"boot/loader/entries/6.1.conf", "options root=UUID=aaaa ifname=lan:fa:16:3e:aa:bb:cc ip=lan:dhcp\n", "refused network-of-kernel"},
	{"etc/kernel/cmdline", "root=UUID=aaaa ip=dhcp rd.neednet=1\n", "stays"},
	{"etc/udev/rules.d/70-lan.rules", "SUBSYSTEM==\"net\", ATTR{address}==\"fa:16:3e:aa:bb:cc\", NAME=\"lan0\"\n", "refused udev-hardware"},
	{"etc/systemd/networkd.conf", "[DHCPv4]\nDUIDType=vendor\nDUIDRawData=00:00:ab:11:f9:2a:c2:77:29:f9:5c:00\n", "refused dhcp-identity"},
	{"etc/systemd/networkd.conf.d/10.conf", "[DHCPv6]\nDUIDRawData = ab11\n", "refused dhcp-identity"},
	{"etc/systemd/network/10-lan.network", "[DHCPv4]\nClientIdentifier=duid-only\nDUIDType=uuid\n", "stays"},
	{"etc/dhcp/dhclient.conf", "send dhcp-client-identifier \"web\";\n", "refused dhcp-identity"},
	{"etc/dhcp/dhclient-eth0.conf", "send dhcp-client-identifier 1:0:a0:24:ab:fb:9c;\n", "refused dhcp-identity"},
	{"etc/dhclient.conf", "send dhcp6.client-id 00:01:00:01;\n", "refused dhcp-identity"},
	{"etc/dhcp/dhclient.conf", "#send dhcp-client-identifier 1:0:a0:24:ab:fb:9c;\nsend dhcp-client-identifier = hardware;\nsend host-name = gethostname();\n", "stays"},
	{"etc/dhcpcd.conf", "clientid web\n", "refused dhcp-identity"},
	{"etc/dhcpcd.conf", "interface eth0\nrequest 10.0.3.99\n", "refused dhcp-identity"},
	{"etc/dhcp/dhclient.conf", "send dhcp-requested-address 10.0.3.99;\n", "refused dhcp-identity"},
	{"etc/systemd/network/10-lan.network", "[DHCPv4]\nRequestAddress=10.0.3.99\n", "refused dhcp-identity"},
	{"etc/systemd/network/10-lan.network", "[IPv6AcceptRA]\nToken=static:::7\n", "refused network-static"},
	{"etc/systemd/network/10-lan.network", "[IPv6AcceptRA]\nToken=::1a:2b\n", "refused network-static"},
	{"etc/systemd/network/10-lan.network", "[IPv6AcceptRA]\nToken=prefixstable:2001:db8::\nToken=eui64\n", "stays"},
	{"etc/netplan/01-netcfg.yaml", "network:\n  ethernets:\n    ens3:\n      dhcp6: true\n      ipv6-address-token: \"::7\"\n", "refused network-static"},
	{"etc/sysconfig/network-scripts/ifcfg-eth0", "BOOTPROTO=dhcp\nIPV6_TOKEN=::7\n", "refused network-static"},
	{"etc/NetworkManager/system-connections/eth0.nmconnection", "[ipv6]\nmethod=auto\ntoken=::7\n", "refused network-static"},
	{"etc/dhcpcd.conf", "hostname\nclientid\nduid\npersistent\n", "stays"},
	{"etc/sysconfig/network/dhcp", "DHCLIENT_CLIENT_ID=\"web\"\n", "refused dhcp-identity"},
	{"etc/sysconfig/network/ifcfg-eth0", "BOOTPROTO='dhcp'\nDHCLIENT6_CLIENT_ID='00:01'\n", "refused dhcp-identity"},
	{"etc/sysconfig/network/dhcp", "DHCLIENT_CLIENT_ID=\"\"\nDHCLIENT_HOSTNAME_OPTION=\"AUTO\"\n", "stays"},
	{"etc/sysconfig/network-scripts/ifcfg-eth0", "BOOTPROTO=dhcp\nDHCP_CLIENT_ID=web\n", "refused dhcp-identity"},
	{"etc/NetworkManager/system-connections/eth0.nmconnection", "[ipv4]\nmethod=auto\ndhcp-client-id=web01\n", "refused dhcp-identity"},
	{"etc/NetworkManager/conf.d/10.conf", "[connection]\nipv4.dhcp-client-id=web01\n", "refused dhcp-identity"},
	{"etc/NetworkManager/conf.d/10.conf", "[connection]\nipv4.dhcp-client-id=ipv6-duid\nipv6.dhcp-duid=stable-llt\n", "stays"},
	{"etc/crypttab", "root UUID=0b1c2d3e-0000-4000-8000-00000000aaaa none luks,tpm2-device=auto\n", "refused disk-keys"},
	{"etc/crypttab", "root UUID=0b1c2d3e-0000-4000-8000-00000000aaaa - fido2-device=auto,discard\n", "refused disk-keys"},
	{"etc/crypttab", "root UUID=0b1c2d3e-0000-4000-8000-00000000aaaa /root.key:LABEL=keys luks,keyfile-timeout=10s\n", "refused disk-keys"},
	{"etc/crypttab", "root UUID=0b1c2d3e-0000-4000-8000-00000000aaaa none luks,header=/h:/dev/sdb1\n", "refused disk-keys"},
	{"etc/crypttab", "data UUID=0b1c2d3e-0000-4000-8000-00000000bbbb none luks,tpm2-device=auto,nofail\n", "stays"},
	{"etc/kernel/cmdline", "root=/dev/mapper/root rd.luks.options=0b1c2d3e-0000-4000-8000-00000000aaaa=discard,tpm2-device=auto\n", "refused disk-keys-of-kernel"},
	{"etc/kernel/cmdline", "root=/dev/mapper/root rd.luks.options=discard\n", "stays"},
	{"efi/EFI/Linux/linux.efi", unified("root=UUID=aaaa systemd.hostname=" + donor), "refused names-of-kernel"},
	{"boot/efi/EFI/Linux/linux.efi", unified("root=/dev/nvme0n1p2 quiet"), "refused disk-name-of-kernel"},
	{"boot/EFI/Linux/linux.efi.extra.d/site.addon.efi", unified("resume=UUID=bbbb"), "refused boot-disks"},
	{"efi/EFI/Linux/linux.efi", unified("root=UUID=aaaa quiet"), "stays"},
	{"efi/EFI/Linux/linux.efi", "MZ and nothing more", "stays"},
	{"efi/EFI/Linux/" + strings.Repeat("0a", 16) + "-6.1.efi", unified("root=UUID=aaaa quiet"), "refused boot-directories"},
	{"etc/netplan/50-cloud-init.yaml", network, "removed network-by-cloud-init"},
	// the name that a machine announces, or that its configuration sets
	{"etc/machine-info", "PRETTY_HOSTNAME=\"Web 7\"\nDEPLOYMENT=production\n", "edited machine-info"},
	{"etc/machine-info", "DEPLOYMENT=production\nCHASSIS=vm\nKERNEL_INSTALL_LAYOUT=bls\n", "stays"},
	{"etc/sysconfig/network-scripts/ifcfg-eth0", "BOOTPROTO=dhcp\nDHCP_HOSTNAME=web\n", "edited host-name-settings"},
	{"etc/sysconfig/network-scripts/ifcfg-eth0", "BOOTPROTO=dhcp\nDHCPV6_FQDN='web.example'\n", "edited host-name-settings"},
	{"etc/sysconfig/network", "NETWORKING=yes\nHOSTNAME=web.example\n", "edited host-name-settings"},
	{"etc/sysconfig/network/dhcp", "DHCLIENT_HOSTNAME_OPTION=\"web\"\n", "edited host-name-settings"},
	{"etc/sysconfig/network/ifcfg-eth0", "BOOTPROTO='dhcp'\nDHCLIENT6_HOSTNAME_OPTION='automat'\n", "edited host-name-settings"},
	{"etc/sysconfig/network/ifcfg-eth0", "BOOTPROTO='dhcp'\nDHCLIENT6_HOSTNAME_OPTION='auto'\nDHCLIENT_HOSTNAME_OPTION=\nDHCLIENT_SET_HOSTNAME=yes\n", "stays"},
	{"etc/NetworkManager/system-connections/eth0.nmconnection", "[ipv4]\nmethod=auto\ndhcp-hostname=web\n", "edited host-name-settings"},
	{"etc/NetworkManager/system-connections/eth0.nmconnection", "[ipv6]\nmethod=auto\ndhcp-fqdn = web.example\n", "edited host-name-settings"},
	{"etc/NetworkManager/system-connections/eth0.nmconnection", "[ipv4]\nmethod=auto\ndhcp-send-hostname=false\n[hostname]\npriority=50\n", "stays"},
	{"etc/NetworkManager/NetworkManager.conf", "[keyfile]\nhostname=web\n", "edited host-name-settings"},
	{"etc/NetworkManager/conf.d/10.conf", "[main]\nhostname-mode=none\n# hostname=web\n", "stays"},
	{"etc/dhcp/dhclient.conf", "send host-name \"web\";\n", "edited host-name-settings"},
	{"etc/dhcp/dhclient-eth0.conf", "supersede host-name = \"web\";\n", "edited host-name-settings"},
	{"etc/dhclient.conf", "send fqdn.fqdn \"web.example.\";\n", "edited host-name-settings"},
	{"etc/dhcp/dhclient.conf", "send fqdn.fqdn = gethostname();\nrequest subnet-mask, host-name;\n", "stays"},
	{"etc/dhcpcd.conf", "hostname web\n", "edited host-name-settings"},
	{"etc/network/interfaces", "auto eth0\niface eth0 inet dhcp\n\thostname web\n", "edited host-name-settings"},
	{"etc/systemd/network/10-lan.network", "[Match]\nName=eth0\n[DHCPv4]\nHostname=web\n", "edited host-name-settings"},
	{"etc/systemd/network/10-lan.network.d/10.conf", "[DHCPv4]\nSendHostname=yes\nUseHostname=no\n", "stays"},
	{"etc/sysctl.d/90-name.conf", "kernel.hostname = web\n", "edited host-name-settings"},
	{"etc/sysctl.conf", "-kernel/hostname=web\nvm.swappiness=0\n", "edited host-name-settings"},
	{"etc/netplan/01-netcfg.yaml", "network:\n  ethernets:\n    ens3:\n      dhcp4-overrides:\n        hostname: web\n", "refused names-of-network"},
	{"usr/lib/netplan/01-netcfg.yaml", "network: {ethernets: {ens3: {dhcp6-overrides: {\"hostname\": web}}}}\n", "refused names-of-network"},
	{"etc/netplan/01-netcfg.yaml", "network:\n  ethernets:\n    ens3:\n      dhcp4-overrides: {send-hostname: true, use-hostname: false}\n", "stays"},
	{"etc/netplan/90-NM.yaml", "network:\n  ethernets:\n    NM:\n      networkmanager:\n        passthrough:\n          ipv4.dhcp-hostname: \"web\"\n", "refused names-of-network"},
	{"etc/cloud/cloud.cfg.d/99-name.cfg", "fqdn: " + donor + ".example.internal\n", "refused names-of-cloud-init"},
	{"etc/cloud/cloud.cfg", "users: [default]\nhostname: web\n", "refused names-of-cloud-init"},
	{"etc/cloud/cloud.cfg.d/99-installer.cfg", "datasource:\n  None:\n    metadata: {instance-id: a}\n    userdata_raw: \"#cloud-config\\nhostname: web\\n\"\n", "refused names-of-cloud-init"},
	{"etc/cloud/cloud.cfg.d/90.cfg", "datasource:\n  NoCloud:\n    meta-data: {local-hostname: web}\n", "refused names-of-cloud-init"},
	{"etc/cloud/cloud.cfg.d/90.cfg", "preserve_hostname: false\nprefer_fqdn_over_hostname: true\ncloud_init_modules: [set_hostname, update_hostname]\n# hostname: web\n" +
		"datasource: {Azure: {hostname_bounce: {hostname_command: hostname}}}\nmanage_etc_hosts: true\n", "stays"},
	{"etc/wicked/ifconfig/eth0.xml", "<interface>\n  <name>eth0</name>\n  <ipv4:dhcp>\n    <hostname>web</hostname>\n  </ipv4:dhcp>\n</interface>\n", "refused names-of-network"},
	{"etc/wicked/ifconfig/eth0.xml", "<interface>\n  <ipv4:dhcp>\n    <client-id>01:fa:16:3e</client-id>\n  </ipv4:dhcp>\n</interface>\n", "refused dhcp-identity"},
	{"etc/wicked/ifconfig/eth0.xml", "<interface>\n  <ipv4:static>\n    <address><local>10.0.3.99/24</local></address>\n  </ipv4:static>\n</interface>\n", "refused network-static"},
	{"boot/efi/loader/credentials/system.hostname.cred", "web", "refused credentials-of-loader"},
	{"efi/EFI/Linux/linux.efi.extra.d/db.cred", "k6iUCUh0RJCQyvL8k8q1UyAAAAABAAAADAAAABAAAAA", "refused credentials-of-loader"},
	{"etc/wicked/client.xml", "<config>\n  <!-- <hostname>web</hostname> -->\n  <update>hostname</update>\n</config>\n", "stays"},
	{"etc/tmpfiles.d/name.conf", "f+ /etc/hostname 0644 - - - web\n", "refused names-at-boot"},
	{"etc/tmpfiles.d/name.conf", "w! /proc/sys/kernel/hostname - - - - web\n", "refused names-at-boot"},
	{"etc/tmpfiles.d/name.conf", "z /etc/hostname 0644 root root\n", "stays"},
	{"etc/rc.local", "#!/bin/sh\nhostnamectl --static set-hostname 'web'\n", "refused names-at-boot"},
	{"etc/rc.d/rc.local", "#!/bin/sh\ntest -x /a && /bin/hostname web\n", "refused names-at-boot"},
	{"etc/systemd/system/name.service", "[Service]\nExecStart=/usr/bin/hostnamectl hostname web\n", "refused names-at-boot"},
	{"etc/cron.d/name", "@reboot root nmcli general hostname web\n", "refused names-at-boot"},
	{"usr/local/sbin/name", "#!/bin/sh\necho web >/etc/hostname\n", "refused names-at-boot"},
	{"usr/local/sbin/name", "#!/bin/sh\n# hostnamectl set-hostname web\nhostnamectl set-hostname \"$(curl -s http://169.254.169.254/name)\"\nhostname -f\nhostname --file /etc/x\n" +
		"hostnamectl set-hostname localhost\necho localhost.localdomain >/etc/hostname\nname=$(hostname)\nhostname \"$name\"\nhostname | tee /run/name\nhostname > /run/name\necho \"$name\" >/etc/hostname\nnmcli general hostname\n" +
		"echo \"the hostname is wrong\"\nif [ \"$(hostname)\" = a ]; then echo hostname of a; fi\n", "stays"},
	// agents and services
	{"etc/zabbix/zabbix_agentd.conf", "Hostname=" + donor + "\n", "found host name"},
	{"etc/postfix/main.cf", "myhostname = " + donor + ".example.internal\n", "found host name"},
	{"etc/telegraf/telegraf.conf", "[agent]\n  hostname = \"" + donor + "\"\n", "found host name"},
	{"etc/prometheus/node.labels", "az=eu-central-1a ip=10.0.3.17\n", "found address"},
	{"etc/consul.d/node.hcl", "node_name = \"" + strings.ToUpper(donor) + "\"\n", "found host name"},
	{"etc/rsyslog.d/10-host.conf", "$LocalHostName " + donor + "\n", "found host name"},
	{"etc/datadog-agent/datadog.yaml", "hostname: " + donor + "\n", "found host name"},
	{"etc/newrelic-infra.yml", "display_name: " + donor + "\n", "found host name"},
	{"etc/fluent-bit/fluent-bit.conf", "[FILTER]\n    Add instance i-0abcdef0123456789\n", "found instance ID"},
	{"opt/acme/state.json", "{\"mac\":\"00-0D-3A-12-34-56\"}\n", "found MAC address"},
	{"opt/acme/id", "0b1c2d3e00004000800000000000aaaa", "found file system's UUID"},
	{"etc/puppetlabs/puppet/puppet.conf", "[main]\ncertname = " + donor + "\n", "found host name"},
	{"etc/mailname", donor + "\n", "found host name"},
	{"etc/salt/minion_id", donor + "\n", "removed agent-salt"},
	{"etc/hostname", donor + "\n", "removed hostname"},
	{"etc/hosts", "127.0.0.1 localhost\n127.0.1.1 " + donor + "\n", "edited own-name-in-hosts"},
}

// TestDonorFiles: each file of people or their tools that names the donor is refused, found, edited or removed.
func TestDonorFiles(t *testing.T) {
	p := load(t, v1alpha1.ProfileStatic)
	for i, file := range donorFiles {
		t.Run(fmt.Sprintf("%d %s", i, path.Base(file.path)), func(t *testing.T) {
			dir := plant(t, node, map[string]string{
				"var/lib/cloud/instances/i-0abcdef0123456789/x": "x", "etc/netplan/50-cloud-init.yaml": network,
				"var/lib/dhcp/dhclient.leases": "lease {\n  fixed-address 10.0.3.17;\n}\n",
				"etc/fstab":                    "UUID=0b1c2d3e-0000-4000-8000-00000000aaaa / ext4 defaults 0 1\n", file.path: file.content,
			})
			manifest, err := run(t, dir, runner(p))
			how, what, _ := strings.Cut(file.want, " ")
			switch how {
			case "refused":
				if why := refusedOf(t, err).Error(); !strings.Contains(why, "rule "+what+": /"+file.path) {
					t.Errorf("got %q", why)
				}
				return
			case "found":
				if why := unmetOf(t, err).Error(); !strings.Contains(why, "the donor's "+what+" in /"+file.path) {
					t.Errorf("got %q", why)
				}
				return
			}
			must(t, err)
			now, err := os.ReadFile(filepath.Join(dir, file.path))
			unchanged, changed := string(now) == file.content, false
			for _, o := range manifest.Outcomes {
				changed = changed || o.Rule == what && o.Changed > 0
			}
			switch {
			case how == "stays" && !unchanged:
				t.Errorf("the file is now %q (%v)", now, err)
			case how == "edited" && (err != nil || unchanged || !changed):
				t.Errorf("rule %s did not edit the file: %q (%v)", what, now, err)
			case how == "removed" && (err == nil && len(now) > 0 || !changed):
				t.Errorf("rule %s left %q", what, now)
			}
		})
	}
}

// TestEditedLinks: a link among edited files stays. The run is refused only if the link leads to a file that no rule edits.
func TestEditedLinks(t *testing.T) {
	links := map[string]string{
		"etc/sysctl.d/99-sysctl.conf": "-> ../sysctl.conf", "etc/systemd/network/10-lan.network": "-> /dev/null", "etc/sysctl.d/50.conf": "-> ../none.conf",
	}
	p := load(t, v1alpha1.ProfileStatic)
	dir := plant(t, node, links, map[string]string{"etc/sysctl.conf": "kernel.hostname=web\nvm.swappiness=0\n", "etc/sysconfig/network/": ""})
	_, err := run(t, dir, runner(p))
	must(t, err)
	if got := readFile(t, dir, "etc/sysctl.conf"); got != "vm.swappiness=0\n" {
		t.Errorf("the target of a link is %q", got)
	}
	for name, link := range links {
		if target, err := os.Readlink(filepath.Join(dir, name)); err != nil || "-> "+target != link {
			t.Errorf("/%s leads to %q (%v)", name, target, err)
		}
	}
	dir = plant(t, node, map[string]string{"etc/sysctl.d/99.conf": "-> /srv/name.conf", "srv/name.conf": "kernel.hostname=web\n"})
	_, err = run(t, dir, runner(p))
	if why := refusedOf(t, err).Error(); !strings.Contains(why, "rule host-name-settings: /etc/sysctl.d/99.conf is not a regular file") {
		t.Errorf("got %q", why)
	}
}

// TestSettingsBesideNames: an edit of names leaves the rest of the file.
func TestSettingsBesideNames(t *testing.T) {
	dir := plant(t, node, map[string]string{
		"etc/machine-info":       "PRETTY_HOSTNAME=\"Web 7\"\nICON_NAME=computer-vm\nCHASSIS=vm\nDEPLOYMENT=production\nLOCATION=\"Rack 4\"\nKERNEL_INSTALL_MACHINE_ID=" + donorID + "\nKERNEL_INSTALL_LAYOUT=bls\nHARDWARE_MODEL=x\n",
		"etc/dhcp/dhclient.conf": "option rfc3442 code 121 = array of unsigned integer 8;\nsend host-name \"web\";\nrequest host-name;\n",
	})
	_, err := run(t, dir, runner(load(t, v1alpha1.ProfileStatic)))
	must(t, err)
	for file, want := range map[string]string{
		"etc/machine-info":       "ICON_NAME=computer-vm\nCHASSIS=vm\nDEPLOYMENT=production\nKERNEL_INSTALL_LAYOUT=bls\n",
		"etc/dhcp/dhclient.conf": "option rfc3442 code 121 = array of unsigned integer 8;\nrequest host-name;\n",
	} {
		if got := readFile(t, dir, file); got != want {
			t.Errorf("/%s is %q", file, got)
		}
	}
}
