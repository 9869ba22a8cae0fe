package disk

// agents holds the files of third-party agents. Each agent creates its missing files.
var agents = table{
	{"etc/opt/microsoft/mdatp/mdatp_onboard.json", 0o600, `{"onboardingInfo":"{{secret 24}}","machineGuid":"{{uuid}}"}` + "\n"},
	{"etc/systemd/system/mdatp-onboard.service", 0o644, "[Service]\nExecStart=/usr/bin/python3 /opt/microsoft/mdatp/MicrosoftDefenderATPOnboardingLinuxServer.py\n"},
	{"usr/local/sbin/site-enrol", 0o755, "#!/bin/sh\ntailscale up --auth-key=file:/run/key\nteleport start --join-method=azure\nadcli join example.com\nsubscription-manager register --org site\n"},
	{"etc/opt/microsoft/omsagent/{{uuid}}/certs/oms.key", 0o600, `{{key "oms"}}`},
	{"opt/datadog-agent/run/host_id", 0o644, "{{uuid}}\n"},
	{"var/lib/amazon/ssm/Vault/Store/RegistrationKey", 0o600, `{"instanceID":"i-{{hex 8}}","privateKey":"{{secret 32}}"}` + "\n"},
	{"var/lib/teleport/host_uuid", 0o400, "{{uuid}}\n"},
	{"var/lib/tailscale/tailscaled.state", 0o600, `{"_machinekey":"{{secret 32}}"}` + "\n"},
	{"opt/consul/node-id", 0o600, "{{uuid}}\n"},
	{"etc/NetworkManager/system-connections/eth0.nmconnection", 0o600, "[connection]\nid=eth0\nuuid={{uuid}}\ntype=ethernet\n\n[ethernet]\nmac-address={{.MAC}}\n"},
	{"var/lib/NetworkManager/secret_key", 0o600, "nm-v2:{{raw 32}}"},
	{"var/lib/NetworkManager/internal-{{uuid}}-eth0.lease", 0o600, "ADDRESS={{.IP}}\n"},
	{"etc/krb5.keytab", 0o600, "{{raw 96}}"},
	{"var/lib/sss/secrets/.secrets.mkey", 0o600, "{{raw 32}}"},
	{"var/lib/sss/db/cache_contoso.ldb", 0o600, "{{raw 32}}"},
	{"lib/systemd/system/ua-auto-attach.service", 0o644, "[Service]\nExecStart=/usr/bin/pro auto-attach\n"},
	{"var/lib/ubuntu-advantage/private/machine-token.json", 0o600, `{"machineToken":"{{secret 24}}"}` + "\n"},
}

// traces holds leftovers of users and programs on a node in service.
var traces = table{
	{"root/.bash_history", 0o600, "kubectl get nodes\nexport TOKEN={{secret 18}}\n"},
	{"root/.lesshst", 0o600, ".less-history-file:\n"},
	{"root/.viminfo", 0o600, "# viminfo\n"},
	{"root/.kube/config", 0o600, "apiVersion: v1\nkind: Config\nusers: [{name: admin, user: {token: {{secret 24}}}}]\n"},
	{"root/.docker/config.json", 0o600, `{"auths":{"registry.example.com":{"auth":"{{secret 18}}"}}}` + "\n"},
	{"root/.aws/credentials", 0o600, "[default]\naws_secret_access_key = {{secret 30}}\n"},
	{"root/.azure/msal_token_cache.json", 0o600, `{"AccessToken":"{{secret 30}}"}` + "\n"},
	{"root/.netrc", 0o600, "machine example.com login deploy password {{secret 12}}\n"},
	{"home/{{.Platform.User}}/.bash_history", 0o600, "sudo journalctl -u kubelet\n"},
	{"home/{{.Platform.User}}/.sudo_as_admin_successful", 0o644, ""},
	{"var/lib/kubelet/config.json", 0o600, `{"auths":{"registry.example.com":{"auth":"{{secret 18}}"}}}` + "\n"},
	{"tmp/provision.{{hex 4}}.sh", 0o600, "export PASSWORD={{secret 12}}\n"},
	{"var/tmp/{{hex 4}}.cache", 0o600, "{{hex 16}}\n"},
	{"var/crash/_usr_bin_python3.0.crash", 0o640, "ProblemType: Crash\nProcCmdline: agent --token {{secret 12}}\n"},
	{"var/mail/root", 0o660, "From root@{{.Hostname}}\n"},
	{"var/spool/cron/atjobs/a0000101", 0o700, "#!/bin/sh\n"},
	{"var/spool/rsyslog/imjournal.state", 0o600, "s={{hex 16}};i=1\n"},
	{"var/log/ancestry.log", 0o644, "{{rfc3339 .Now}} built from the platform image\n"},
	{"var/log/apt/history.log", 0o644, "Start-Date: {{rfc3339 .Now}}\nCommandline: apt-get install\n"},
	{"var/log/dpkg.log", 0o644, "{{rfc3339 .Now}} startup packages configure\n"},
	{"var/log/kern.log", 0o640, "{{syslog .Now}} {{.Hostname}} kernel: Linux version {{.Kernel}}\n"},
	{"var/log/lastlog", 0o664, ""},
	{"var/log/btmp", 0o660, ""},
	{"var/lib/cni/results/cni-loopback-{{hex 8}}-lo", 0o600, `{"kind":"cniCacheV1","ifName":"lo"}` + "\n"},
}

// old holds leftovers of outdated tools on nodes after years in service.
var old = table{
	{"etc/cloud/cloud-init.disabled", 0o644, "disabled after the first boot\n"},
	{"etc/secret-userdata.txt", 0o600, "#cloud-config\nwrite_files: [{path: /run/kubeadm/kubeadm-join-config.yaml, content: 'token: {{hex 3}}.{{hex 8}}'}]\n"},
	{"var/lib/cloud/seed/nocloud-net/user-data", 0o600, "#cloud-config\npassword: {{secret 12}}\n"},
	{"var/lib/dhclient/dhclient--eth0.lease", 0o644, `lease { fixed-address {{.IP}}; option host-name "{{.Hostname}}"; }` + "\n"},
	{"var/lib/dhcpcd/eth0.lease", 0o644, "{{raw 32}}"},
	{"var/lib/dhcpcd/duid", 0o644, "00:04:{{.MachineID}}\n"},
	{"etc/sysconfig/network-scripts/ifcfg-eth0", 0o644, "DEVICE=eth0\nHWADDR={{.MAC}}\nUUID={{uuid}}\n"},
	{"var/log/pods/kube-system_calico-node-{{hex 3}}_{{uuid}}/calico-node/0.log", 0o640, "{{rfc3339 .Now}} stdout F Starting\n"},
	{"var/lib/calico/nodename", 0o644, "{{.Hostname}}"},
	{"etc/cni/net.d/calico-kubeconfig", 0o600, "apiVersion: v1\nkind: Config\nusers: [{name: calico, user: {token: {{secret 24}}}}]\n"},
	{"etc/pki/consumer/key.pem", 0o600, `{{key "consumer"}}`},
	{"etc/pki/consumer/cert.pem", 0o640, `{{cert "consumer"}}`},
	{"var/log/syslog.1", 0o640, "{{syslog .Now}} {{.Hostname}} systemd[1]: Started.\n"},
	{"var/log/syslog.2.gz", 0o640, "{{raw 48}}"},
}
