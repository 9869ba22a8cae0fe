//go:build machines

package real

import (
	"crypto/rand"
	"encoding/hex"
)

// rpmGone are the files of each layout that no clone may have, and rpmEdited those that change.
var (
	rpmGone = []string{
		"boot/loader/entries/@MACHINEID@-@VERSION@.conf", "etc/machine-id", "etc/hostname", "etc/ssh/ssh_host_*", "etc/ssl/private/ssl-cert-snakeoil.key", "etc/ssl/certs/ssl-cert-snakeoil.pem",
		"etc/nvme/hostid", "etc/nvme/hostnqn", "etc/iscsi/initiatorname.iscsi", "etc/*-", "var/cache/dnf/*", "var/cache/dnf/*/*", "var/cache/dnf/*/*/*",
	}
	rpmEdited = []string{"boot/grub2/grubenv", "etc/hosts"}
)

// rpmLayouts are nodes on RPM systems, by the name of their files in testdata.
var rpmLayouts = map[string]rpmLayout{
	"rke2": {
		profile: "bootstrap", release: "NAME=\"Red Hat Enterprise Linux\"\nID=\"rhel\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"9.4\"\n",
		// The host's kernel may have no modules, and dracut then leaves out what --hostonly adds.
		initramfs: "--hostonly --install '/etc/machine-id /etc/hostname'",
		refused:   []string{"dhcp-identity", "foreign-disks", "insights", "rancher-token", "subscriptions"},
		found:     []string{"/etc/rancher/rke2/config.yaml", "/etc/rancher/rke2/registries.yaml", "/boot/initramfs-@VERSION@.img", "the donor's host name", "dracut --force --no-hostonly"},
		// As the refusals say.
		remedy: `sed -i "/ \/data /s/defaults/defaults,nofail/" /etc/fstab
sed -i "/^node-ip/d" /etc/rancher/rke2/config.yaml
sed -i "/^DHCP_CLIENT_ID/d" /etc/sysconfig/network-scripts/ifcfg-eth0
printf '[Service]\nExecStart=/usr/sbin/subscription-manager register --org site\nExecStart=/usr/bin/insights-client --register\n' >/etc/systemd/system/site-register.service
`,
		rebuild: "TMPDIR=/tmp dracut --quiet --force --no-hostonly /boot/initramfs-$version.img $version\n",
		rules: `version: "1"
exempt:
  - rule: rancher-token
    reason: This pool's user data has no token.
  - paths: [/etc/rancher/rke2/config.yaml, /etc/rancher/rke2/registries.yaml]
    reason: The token of the cluster, and the login of its registry, are those of all nodes.
`,
		gone: []string{
			"etc/rancher/node/password", "var/lib/rancher/rke2/agent/client-kubelet.*", "var/lib/rancher/rke2/agent/serving-kubelet.*", "var/lib/rancher/rke2/agent/client-kube-proxy.key",
			"var/lib/rancher/rke2/agent/client-rke2-controller.key", "var/lib/rancher/rke2/agent/pod-manifests/*", "var/lib/rancher/rke2/agent/logs/*", "var/lib/kubelet/cpu_manager_state",
			"var/lib/kubelet/device-plugins/*", "var/lib/kubelet/pods/*/*", "etc/cni/net.d/calico-kubeconfig", "var/lib/calico/nodename", "etc/pki/consumer/*", "etc/rhsm/facts/uuid.facts",
			"var/lib/rhsm/facts/facts.json", "etc/insights-client/machine-id", "var/lib/NetworkManager/*", "etc/lvm/devices/system.devices", "home/ops/.ssh/authorized_keys", "home/ops/.bash_history",
		},
		edited: []string{"etc/NetworkManager/system-connections/eth0.nmconnection"},
	},
	"eks": {
		profile: "eks", release: "NAME=\"Amazon Linux\"\nID=\"amzn\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"2023\"\nPLATFORM_ID=\"platform:al2023\"\n",
		initramfs: "--no-hostonly", rules: "version: \"1\"\n",
		gone: []string{
			"etc/eks/kubelet/environment", "etc/eks/nodeadm/udev-net-manager/*/*", "etc/kubernetes/kubelet/config.json", "etc/kubernetes/kubelet/config.json.d/*", "etc/kubernetes/pki/ca.crt",
			"var/lib/kubelet/kubeconfig", "var/lib/kubelet/pki/*", "var/lib/kubelet/cpu_manager_state", "etc/systemd/network/80-ec2.network.d/*", "var/lib/amazon/ssm/*/*/*", "var/lib/amazon/ssm/*/*/*/*/*",
			"home/ec2-user/.ssh/authorized_keys", "etc/sudoers.d/90-cloud-init-users", "var/lib/cloud/data/*", "var/lib/cloud/instances/*/*",
		},
	},
}

// hexDigits makes a random number.
func hexDigits(digits int) string {
	b := make([]byte, digits/2)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
