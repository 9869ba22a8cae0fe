//go:build machines

package real

import (
	"strings"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// plantRows lists everything that must not survive into a clone, by subject.
var plantRows = []plantRow{
	{
		what:  "machine ID and seeds",
		gone:  []string{"etc/machine-id", "var/lib/systemd/random-seed", "boot/efi/loader/random-seed", "var/lib/systemd/credential.secret", "var/lib/systemd/timers/stamp-site.timer"},
		stays: []string{"boot/efi/loader/loader.conf", "var/lib/systemd/deb-systemd-helper-enabled/ssh.service.dsh-also", "etc/os-release"},
	},
	{
		what: "name",
		gone: []string{"etc/hostname"},
		goneLines: []plantLine{
			{"etc/hosts", "127.0.1.1 donor.internal donor"}, {"etc/machine-info", "PRETTY_HOSTNAME=site"}, {"etc/sysctl.d/90-site.conf", "kernel.hostname = site"},
			{"etc/sysconfig/network-scripts/ifcfg-eth9", "DHCP_HOSTNAME=site"},
			{"etc/NetworkManager/system-connections/eth9.nmconnection", "dhcp-hostname=site"},
		},
		staysLines: []plantLine{{"etc/hosts", "10.240.0.9 registry.internal"}, {"etc/hosts", "127.0.0.1 localhost"}, {"etc/machine-info", "DEPLOYMENT=site"}, {"etc/sysctl.d/90-site.conf", "vm.swappiness = 60"}},
	},
	{
		what: "host keys",
		gone: []string{"etc/ssh/ssh_host_rsa_key", "etc/ssh/ssh_host_rsa_key.pub", "etc/ssh/ssh_host_ecdsa_key", "etc/ssh/ssh_host_ed25519_key", "etc/ssh/ssh_host_ed25519_key-cert.pub",
			"etc/ssl/private/ssl-cert-snakeoil.key", "etc/ssl/certs/ssl-cert-snakeoil.pem"},
		stays: []string{"etc/ssh/sshd_config", "etc/ssh/ssh_config", "etc/ssh/moduli", "etc/ssh/sshd_config.d/10-site.conf", "etc/ssl/certs/ca-certificates.crt"},
	},
	{
		what: "accounts and their keys",
		gone: []string{"root/.ssh/authorized_keys", "root/.ssh/known_hosts", "home/ops/.ssh/authorized_keys", "home/ops/.ssh/id_ed25519", "home/packer/.profile",
			"etc/sudoers.d/90-cloud-init-users", "etc/sudoers.d/waagent", "etc/sudoers.d/99-packer",
			"etc/passwd-", "etc/shadow-", "etc/group-", "etc/gshadow-", "etc/subuid-", "etc/subgid-"},
		stays:      []string{"etc/sudoers", "etc/sudoers.d/README", "home/ops/.profile", "root/.bashrc", "etc/pam.d/login"},
		goneLines:  []plantLine{{"etc/passwd", "packer:x:1500:1500::/home/packer:/bin/sh"}, {"etc/group", "packer:x:1500:"}, {"etc/shadow", "packer:!:19000::::::"}},
		staysLines: []plantLine{{"etc/passwd", "ops:x:1501:1501::/home/ops:/bin/sh"}, {"etc/group", "ops:x:1501:"}, {"etc/shadow", "ops:!:19000::::::"}},
	},
	{
		what: "network hardware and leases",
		gone: []string{"etc/udev/rules.d/70-persistent-net.rules", "etc/netplan/50-cloud-init.yaml", "etc/systemd/network/10-cloud-init-eth9.network", "etc/network/interfaces.d/50-cloud-init",
			"var/lib/dhclient/dhclient.leases", "var/lib/dhcp/dhclient.eth9.leases", "var/lib/dhcpcd/duid", "var/lib/dhcpcd/eth9.lease", "etc/dhcpcd.duid",
			"var/lib/NetworkManager/internal-eth9.lease", "var/lib/NetworkManager/secret_key", "var/lib/NetworkManager/timestamps", "var/lib/NetworkManager/no-auto-default.state",
			"var/lib/wicked/duid.xml", "etc/openvswitch/system-id.conf", "etc/openvswitch/conf.db", "var/lib/nfs/statd/sm/nas.site", "var/lib/nfs/statd/state"},
		stays: []string{"etc/udev/rules.d/60-site.rules", "etc/netplan/01-site.yaml", "etc/dhcp/dhclient.conf", "etc/NetworkManager/NetworkManager.conf", "etc/resolv.conf"},
		goneLines: []plantLine{
			{"etc/sysconfig/network-scripts/ifcfg-eth9", "HWADDR=00:0d:3a:00:00:09"}, {"etc/sysconfig/network-scripts/ifcfg-eth9", "UUID=5fb06bd0-0bb0-7ffb-45f1-d6edd65f3e03"},
			{"etc/NetworkManager/system-connections/eth9.nmconnection", "uuid=5fb06bd0-0bb0-7ffb-45f1-d6edd65f3e03"}, {"etc/NetworkManager/system-connections/eth9.nmconnection", "mac-address=00:0D:3A:00:00:09"},
			{"etc/NetworkManager/system-connections/eth9.nmconnection", "dhcp-client-id=01:00:0d:3a:00:00:09"}, {"etc/dhcp/dhclient.conf", "send host-name \"site\";"},
		},
		staysLines: []plantLine{{"etc/sysconfig/network-scripts/ifcfg-eth9", "BOOTPROTO=dhcp"}, {"etc/NetworkManager/system-connections/eth9.nmconnection", "type=ethernet"}},
	},
	{
		what: "cloud-init",
		gone: []string{"var/lib/cloud/data/instance-id", "var/lib/cloud/data/status.json", "var/lib/cloud/instance", "var/lib/cloud/instances/i-before/user-data.txt",
			"var/lib/cloud/sem/config_scripts_per_once.once", "etc/cloud/cloud-init.disabled", "etc/secret-userdata.txt"},
		stays: []string{"etc/cloud/cloud.cfg", "etc/cloud/cloud.cfg.d/90-datasource.cfg", "etc/cloud/templates/hosts.debian.tmpl"},
	},
	{
		what: "downloads of package managers",
		gone: []string{"var/lib/apt/lists/site_dists_stable_main_i18n_Translation-en", "var/cache/apt/archives/site_1.0_all.deb", "var/cache/dnf/site/repodata/primary.xml.gz",
			"var/cache/zypp/raw/site", "root/.cache/pip/http/site", "home/ops/.npm/_cacache/site"},
		stays: []string{"etc/apt/sources.list.d/site.list", "etc/apt/apt.conf.d/10-site", "var/lib/dpkg/info/site.list", "var/cache/site/file", "home/ops/.npmrc"},
	},
	{
		what: "Azure's agent",
		gone: []string{"var/lib/waagent/ovf-env.xml", "var/lib/waagent/TransportPrivate.pem", "var/lib/waagent/Certificates.pem", "var/lib/waagent/0A1B2C.prv", "var/lib/waagent/SharedConfig.xml",
			"var/lib/waagent/GoalState.1.xml", "var/lib/waagent/provisioned", "var/lib/waagent/Site.Extension-1.0.0/mrseq", "var/lib/waagent/Site.Extension-1.0.0/status/0.status",
			"var/lib/waagent/history/1/GoalState.xml", "var/lib/waagent/events/1.json", "var/lib/waagent/waagent_status.json"},
		stays: []string{"var/lib/waagent/WALinuxAgent-2.9.1.1/manifest.xml", "etc/waagent.conf", "usr/sbin/waagent"},
	},
	{
		what: "storage",
		gone: []string{"etc/iscsi/initiatorname.iscsi", "etc/nvme/hostid", "etc/nvme/hostnqn", "etc/lvm/devices/system.devices", "etc/iscsi/nodes/iqn.2026-01.site:a/10.0.0.9,3260,1/default", "var/lib/glusterd/glusterd.info", "etc/zfs/zpool.cache", "swapfile", "swap.img", "srv/swap/page"},
		with: map[string]string{
			"srv/swap/page": strings.Repeat("\x00", 4<<10-10) + "SWAPSPACE2",
			"etc/systemd/system/zfs-import-scan.service": "[Service]\nType=oneshot\nExecStart=/bin/true\n",
		},
		stays: []string{"etc/iscsi/iscsid.conf", "etc/zfs/zed.d/zed.rc", "etc/nvme/discovery.conf", "etc/lvm/lvm.conf"},
		goneLines: []plantLine{
			{"etc/fstab", "/swapfile none swap sw,noauto 0 0"},
			{"var/cache/debconf/config.dat-old", "Value: /dev/disk/by-id/scsi-36002248, /dev/sdz"},
			{"etc/fstab", "/srv/swap/page none swap sw,noauto 0 0"},
			{"etc/fstab", "/dev/disk/cloud/azure_resource-part1 /mnt auto defaults,nofail,noauto,comment=cloudconfig 0 2"},
		},
		staysLines: []plantLine{{"etc/fstab", "/dev/disk/by-label/site /srv ext4 nofail,noauto 0 2"}},
	},
	{
		what: "enrolment",
		with: map[string]string{
			"etc/cloud/cloud.cfg.d/95-pro.cfg": "ubuntu_pro: {}\n",
			"usr/local/sbin/site-register":     "#!/bin/sh\nlandscape-config --silent\nSUSEConnect -r site\nstep ssh certificate --host site\ngluster peer probe site\ngetcert request -f site\n",
		},
		gone: []string{"etc/krb5.keytab", "var/lib/sss/db/cache_site.ldb", "var/lib/sss/secrets/.secrets.mkey", "var/lib/samba/private/secrets.tdb", "etc/pki/consumer/key.pem", "etc/pki/entitlement/1.pem",
			"var/lib/rhsm/productid.js", "etc/sysconfig/rhn/systemid", "var/lib/ubuntu-advantage/private/machine-token.json", "var/lib/landscape/client/broker.bpickle",
			"etc/rhsm/facts/uuid.facts", "etc/zypp/credentials.d/SCCcredentials", "var/lib/zypp/AnonymousUniqueId", "var/lib/certmonger/local/creds", "var/lib/certmonger/requests/20260101000000",
			"etc/insights-client/machine-id", "etc/redhat-access-insights/machine-id", "var/lib/systemd/home/local.private", "var/lib/chrony/site.nts", "etc/kubernetes/sp.txt"},
		stays: []string{"etc/krb5.conf", "etc/sssd/sssd.conf", "etc/samba/smb.conf", "etc/pki/tls/openssl.cnf", "etc/ubuntu-advantage/uaclient.conf", "etc/landscape/client.conf"},
	},
	{
		what: "keys and IDs of services",
		with: map[string]string{
			"etc/systemd/system/httpd-init.service": "[Service]\nType=oneshot\nExecStart=/bin/true\n", "etc/systemd/system/unbound-keygen.service": "[Service]\nType=oneshot\nExecStart=/bin/true\n",
			"etc/systemd/system/named-setup-rndc.service": "[Service]\nType=oneshot\nExecStart=/bin/true\n", "etc/default/dropbear": "DROPBEAR_EXTRA_ARGS=-R\n",
		},
		gone: []string{"var/lib/systemd/tpm2-srk-public-key.pem", "var/lib/hyperv/.kvp_pool_3", "var/lib/yum/uuid", "var/lib/whoopsie/whoopsie-id", "etc/cockpit/ws-certs.d/0-self-signed.key",
			"etc/pki/tls/private/localhost.key", "etc/unbound/unbound_server.pem", "etc/rndc.key", "etc/dropbear/dropbear_ed25519_host_key"},
		stays:      []string{"etc/cockpit/cockpit.conf", "etc/pki/tls/cert.pem", "etc/unbound/unbound.conf", "etc/dropbear/run"},
		goneLines:  []plantLine{{"etc/popularity-contest.conf", "MY_HOSTID=\"site\""}, {"var/lib/snmp/snmpd.conf", "oldEngineID 0x80001f88"}},
		staysLines: []plantLine{{"etc/popularity-contest.conf", "PARTICIPATE=\"no\""}, {"var/lib/snmp/snmpd.conf", "setserialno 1"}},
	},
	{
		what: "agents of others",
		with: map[string]string{
			"etc/systemd/system/site-enrol.service": "[Service]\nExecStart=/opt/CrowdStrike/falconctl -s --cid=site\nExecStart=/usr/bin/netbird up --setup-key-file /etc/site.key\n",
			"usr/local/sbin/site-enrol-more": "#!/bin/sh\ntailscale up --auth-key=file:/run/key\nteleport start --join-method=azure\nadcli join example.com\nsubscription-manager register --org site\n" +
				"elastic-agent enroll --url=x\ndsa_control -a dsm://x\nazcmagent connect\nillumio-ven-ctl activate\nnessuscli agent link\ncmk-agent-ctl register\ntwingate setup\nzerotier-cli info\n",
			"opt/Tanium/TaniumClient/tanium-init.dat": "x\n", "etc/netdata/claim.conf": "[global]\n",
			"var/lib/kubelet/pods/site/containers/portworx/log": "x\n", "etc/chef/validation.pem": "x\n", "etc/qualys/cloud-agent/qualys-cloud-agent.conf": "ActivationId=site\n",
			"etc/rc.local": "#!/bin/sh\n# python3 /opt/site/MicrosoftDefenderATPOnboardingLinuxServer.py\n",
		},
		gone: []string{"var/lib/amazon/ssm/Vault/Store/RegistrationKey", "etc/opt/microsoft/mdatp/mdatp_onboard.json", "etc/opt/microsoft/azuremonitoragent/config-cache/metrics.json",
			"etc/opt/microsoft/omsagent/site/certs/oms.key", "etc/datadog-agent/auth_token", "opt/datadog-agent/run/host_id", "var/lib/teleport/host_uuid", "var/lib/tailscale/tailscaled.state",
			"opt/consul/node-id", "opt/consul/data/serf/local.snapshot", "opt/nomad/data/client/client-id", "etc/puppetlabs/puppet/ssl/private_keys/donor.pem", "etc/chef/client.pem",
			"etc/salt/pki/minion/minion.pem", "etc/salt/minion_id", "opt/Elastic/Agent/fleet.enc", "var/lib/filebeat/meta.json", "opt/CrowdStrike/falconstore", "var/ossec/etc/client.keys",
			"var/osquery/osquery.db", "etc/qualys/hostid", "etc/tenable_tag", "var/lib/docker/engine-id", "var/lib/spire/agent/keys.json", "var/lib/promtail/positions.yaml", "var/lib/alloy/data/alloy_seed.json", "var/lib/fwupd/pki/secret.key",
			"var/lib/zerotier-one/identity.secret", "var/lib/netbird/state.json", "var/lib/kilo/key", "var/lib/weave/weave-netdata.db", "var/lib/dynatrace/oneagent/agent/config/ruxithost.id",
			"var/lib/netdata/registry/netdata.public.unique.id", "var/lib/netdata/cloud.d/claimed_id", "etc/pwx/.private.json", "opt/orbit/identifier", "etc/rapid7/ir_agent/agent.id", "opt/Tanium/TaniumClient/client.db", "var/opt/ds_agent/dsa_core/ds_agent.crt",
			"var/opt/azcmagent/agentconfig.json", "var/opt/BESClient/KeyStorage/site", "opt/illumio_ven_data/etc/agentid", "var/lib/lacework/.hostid", "opt/sophos-spl/base/etc/machine_id.txt",
			"opt/sentinelone/configuration/basic.conf", "var/lib/cmk-agent/registered_connections.json", "var/db/newrelic-infra/data/site", "opt/splunkforwarder/etc/instance.cfg",
			"opt/aws/amazon-cloudwatch-agent/logs/state/site", "var/lib/twingate/site", "etc/hostid", "etc/multipath/wwids", "etc/multipath/prkeys", "etc/.fstab.swp", "var/lib/longhorn/longhorn-disk.cfg", "var/openebs/ndm/site"},
		stays: []string{"etc/amazon/ssm/amazon-ssm-agent.json", "etc/datadog-agent/datadog.yaml", "opt/datadog-agent/bin/agent/agent", "etc/teleport.yaml", "etc/default/tailscaled", "etc/consul.d/consul.hcl",
			"etc/puppetlabs/puppet/puppet.conf", "etc/chef/client.rb", "etc/salt/minion", "var/ossec/etc/ossec.conf", "etc/osquery/osquery.conf", "etc/docker/daemon.json", "opt/CrowdStrike/falcond"},
	},
	{
		what: "logs and traces",
		gone: []string{"var/log/syslog", "var/log/syslog.2.gz", "var/log/journal/0123456789abcdef0123456789abcdef/system.journal", "var/log/site/deep/deeper/app.log", "var/log/pods/default_web/0.log",
			"var/log/containers/web.log", "var/log/azure/extension.log", "var/log/cloud-init.log", "root/.bash_history", "home/ops/.bash_history", "root/.lesshst", "root/.viminfo",
			"root/.kube/config", "root/.docker/config.json", "root/.aws/credentials", "root/.azure/msal_token_cache.json", "root/.netrc", "root/.git-credentials", "home/ops/.kube/config",
			"tmp/site.sh", "var/tmp/site.cache", "var/crash/_usr_bin_site.crash", "var/lib/systemd/coredump/core.site", "var/mail/root", "var/spool/rsyslog/imjournal.state", "var/spool/cron/atjobs/a00001"},
		stays: []string{"var/log/ancestry.log", "etc/logrotate.d/site", "var/spool/cron/crontabs/root", "root/.profile", "etc/rsyslog.d/10-site.conf", "srv/app/app.log"},
	},
	{
		what: "kubelet",
		gone: []string{"var/lib/kubelet/pods/0b9c1a52/volumes/token", "var/lib/kubelet/cpu_manager_state", "var/lib/kubelet/memory_manager_state", "var/lib/kubelet/dra_manager_state",
			"var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", "var/lib/kubelet/plugins_registry/site.sock", "var/lib/kubelet/plugins/site/csi.sock",
			"var/lib/kubelet/plugins/kubernetes.io/csi/site/globalmount/vol_data.json", "var/lib/kubelet/checkpoints/node", "var/lib/kubelet/pods-api/pods-api.sock", "var/lib/kubelet/config.json"},
		stays: []string{"usr/local/bin/kubelet", "usr/local/bin/kubectl", "var/lib/kubelet/image_manager/pulled/sha256-0a", "var/lib/kubelet/plugins/site/state.json", "etc/systemd/system/kubelet.service"},
	},
	{
		what: "network plugins",
		with: map[string]string{"var/log/pods/kube-system_calico-node-x_1/calico-node/0.log": "x\n"},
		gone: []string{"var/lib/cni/networks/azure/10.244.0.9", "var/lib/cni/results/azure-9-eth0", "var/lib/cni/cache/results/9", "var/lib/calico/nodename", "etc/cni/net.d/calico-kubeconfig",
			"etc/cni/net.d/05-cilium.conflist", "etc/cni/net.d/multus.d/multus.kubeconfig", "etc/cni/net.d/ZZZ-istio-cni-kubeconfig", "etc/cni/net.d/ZZZ-linkerd-cni-kubeconfig", "var/lib/azure-network/azure-vnet.json"},
		stays: []string{"etc/cni/net.d/10-azure.conflist", "opt/cni/bin/azure-vnet", "etc/sysctl.d/60-kubernetes.conf"},
	},
	{
		what: "container runtime",
		gone: []string{"var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/9/resolv.conf", "var/lib/containerd/io.containerd.grpc.v1.cri/containers/9/status",
			"var/lib/containerd/io.containerd.runtime.v2.task/k8s.io/9/work", "var/lib/containerd/tmpmounts/9/file", "var/lib/containerd/io.containerd.grpc.v1.introspection/uuid",
			"var/lib/containerd/io.containerd.mount-manager.v1.bolt/mounts.db", "var/lib/cri-dockerd/sandbox/9", "var/lib/nerdctl/1935db59/containers/k8s.io/9/log-config.json",
			disk.LayerDir(containerLayer) + "/root/.token", disk.LayerDir(containerLayer) + "/tmp/scratch"},
		stays: []string{"var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/0a0b", "etc/containerd/config.toml", "usr/bin/containerd"},
	},
	{
		what: "what containers wrote into their own file systems, beside the layers of images",
		with: map[string]string{
			"var/lib/docker/image/overlay2/layerdb/sha256/9/cache-id": "0a9d",
			"var/lib/containers/storage/overlay-layers/layers.json":   `[{"id":"0a9e"},{"id":"0a9c","parent":"0a9e"}]`,
			"var/lib/containers/storage/overlay-images/images.json":   `[{"id":"9","layer":"0a9e"}]`,
		},
		gone: []string{"var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/*/fs/tmp/scratch", "var/lib/docker/overlay2/0a9b/diff/root/token", "var/lib/docker/containers/9/config.v2.json",
			"var/lib/docker/image/overlay2/layerdb/mounts/9/mount-id", "var/lib/docker/network/files/local-kv.db", "var/lib/docker/buildkit/history.db", "var/lib/docker/swarm/worker/tasks.db",
			"var/lib/docker/volumes/0123456789abcdef/_data/token", "var/lib/docker/engine-id", "etc/docker/key.json",
			"var/lib/containers/storage/overlay/0a9c/diff/root/token", "var/lib/containers/storage/overlay-containers/9/userdata/config.json", "var/lib/containers/storage/libpod/bolt_state.db",
			"var/lib/containers/storage/db.sql-wal", "var/lib/containers/storage/secrets/filedriver/secretsdata.json"},
		stays: []string{"var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/*/fs/etc/image", "var/lib/crio/version", "var/lib/crio/clean.shutdown",
			"var/lib/docker/overlay2/0a9d/diff/etc/ssh/ssh_host_rsa_key", "var/lib/containers/storage/overlay/0a9e/diff/root/.ssh/id_rsa"},
	},
	{
		what:  "AKS Engine: the kubelet's serving certificate, and the cluster's credentials that stay",
		only:  disk.Static,
		gone:  []string{"etc/kubernetes/certs/kubeletserver.key", "etc/kubernetes/certs/kubeletserver.crt"},
		stays: []string{"etc/kubernetes/certs/client.key", "etc/kubernetes/certs/client.crt", "etc/kubernetes/certs/ca.crt", "etc/kubernetes/azure.json", "var/lib/kubelet/kubeconfig", "var/lib/kubelet/config.yaml", "etc/default/kubelet", "opt/azure/containers/provision.sh"},
	},
	{
		what: "kubeadm: the node's own credential, and what the join writes",
		only: disk.Bootstrap,
		gone: []string{"var/lib/kubelet/pki/kubelet-client-current.pem", "var/lib/kubelet/pki/kubelet-client-2026-01-01.pem", "var/lib/kubelet/pki/kubelet.key", "var/lib/kubelet/pki/kubelet.crt",
			"etc/kubernetes/kubelet.conf", "etc/kubernetes/bootstrap-kubelet.conf", "etc/kubernetes/pki/ca.crt",
			"var/lib/kubelet/config.yaml", "var/lib/kubelet/kubeadm-flags.env", "var/lib/kubelet/instance-config.yaml"},
		stays: []string{"usr/local/bin/kubeadm", "etc/systemd/system/kubelet.service.d/10-kubeadm.conf", "etc/default/kubelet"},
	},
	{
		what: "EKS: what nodeadm writes at each boot, beside nodeadm itself",
		only: disk.Bootstrap,
		gone: []string{"etc/systemd/network/80-ec2.network.d/10-eks_primary_eni_only.conf", "etc/systemd/network/70-eni-0d15ea5e0ff1ce000.network",
			"etc/eks/nodeadm/udev-net-manager/i-0a1b2c3d4e5f60718/ens5", "etc/eks/kubelet/environment", "etc/kubernetes/kubelet/config.json", "etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf",
			"var/lib/kubelet/kubeconfig", ".aws/mdadm.conf", "etc/systemd/system/mnt-k8s\\x2ddisks-0.mount"},
		stays: []string{"usr/bin/nodeadm", "etc/systemd/system/nodeadm-run.service", "etc/eks/nodeadm.d/site.yaml", "etc/eks/image-credential-provider/config.json"},
	},
	{
		what: "kOps: what nodeup writes at each boot, beside nodeup and its downloads",
		only: disk.Bootstrap,
		gone: []string{"srv/kubernetes/kubelet-server.key", "srv/kubernetes/kubelet-server.crt", "srv/kubernetes/ca.crt", "var/lib/kube-proxy/kubeconfig", "var/lib/kube-router/kubeconfig",
			"etc/kubernetes/pki/cilium/etcd-client-cilium.pem", "var/lib/kubelet/kubelet.conf", "etc/sysconfig/kubelet", "opt/kops/conf/kube_env.yaml", "etc/sysconfig/kops-configuration", "etc/kubernetes/manifests/kube-proxy.manifest",
			"usr/lib/systemd/system/kops-configuration.service"},
		stays: []string{"opt/kops/bin/nodeup", "var/cache/nodeup/extracted/kubelet"},
	},
	{
		what: "k3s and RKE2: what an agent is known by, and the token that user data brings",
		only: disk.Bootstrap,
		with: map[string]string{
			"etc/rancher/k3s/config.yaml":        "server: https://10.0.0.5:6443\ntoken: K10planted::agent\n",
			"etc/cloud/cloud.cfg.d/95-agent.cfg": "write_files:\n- {path: /etc/rancher/k3s/config.yaml, content: 'token: a'}\n",
		},
		gone: []string{"etc/rancher/k3s/config.yaml", "var/lib/rancher/k3s/agent/client-kubelet.key", "var/lib/rancher/k3s/agent/serving-kubelet.crt", "var/lib/rancher/rke2/agent/client-kube-proxy.key",
			"var/lib/rancher/k3s/agent/client-k3s-controller.key", "etc/rancher/node/password", "var/lib/rancher/rke2/agent/pod-manifests/kube-proxy.yaml",
			"etc/rancher/agent/cattle-id", "var/lib/rancher/agent/rancher2_connection_info.json", "var/lib/rancher/state/.physical_host_uuid"},
	},
}

// refusals lists paths of keys and data that forbid a capture.
var refusals = []string{
	"etc/kubernetes/pki/ca.key", "etc/kubernetes/pki/etcd/server.key", "etc/kubernetes/certs/apiserver.key", "etc/kubernetes/manifests/kube-apiserver.yaml", "var/lib/etcd/member/snap/db",
	"var/lib/longhorn/replicas/pvc-1/volume.img", "var/lib/rook/rook-ceph/keyring", "var/openebs/local/pvc-1/data", "mnt/disks/vol1/data",
}
