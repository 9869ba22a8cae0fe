package disk

// firstBoot holds the files that the system creates when missing.
var firstBoot = table{
	{"etc/ssh/ssh_host_ecdsa_key", 0o600, `{{sshKey "ecdsa"}}`},
	{"etc/ssh/ssh_host_ecdsa_key.pub", 0o644, `{{sshPub "ecdsa"}}`},
	{"etc/ssh/ssh_host_ed25519_key", 0o600, `{{sshKey "ed25519"}}`},
	{"etc/ssh/ssh_host_ed25519_key.pub", 0o644, `{{sshPub "ed25519"}}`},
	{"var/lib/systemd/random-seed", 0o600, "{{raw 512}}"},
	{"boot/efi/loader/random-seed", 0o600, "{{raw 32}}"},
	{"var/lib/systemd/credential.secret", 0o400, "{{raw 64}}"},
	{"var/lib/systemd/timers/stamp-apt-daily.timer", 0o644, ""},
	{"etc/iscsi/initiatorname.iscsi", 0o600, "InitiatorName=iqn.2004-10.com.ubuntu:01:{{hex 6}}\n"},
	{"etc/nvme/hostid", 0o644, "{{uuid}}\n"},
	{"etc/nvme/hostnqn", 0o644, "nqn.2014-08.org.nvmexpress:uuid:{{uuid}}\n"},
	{"etc/lvm/devices/system.devices", 0o600, "SYSTEMID={{uuid}}\nVERSION=1.1.1\n"},
	{"etc/machine-info", 0o644, "PRETTY_HOSTNAME={{.Hostname}}\nDEPLOYMENT=production\n"},
	{"etc/udev/rules.d/70-persistent-net.rules", 0o644, `SUBSYSTEM=="net", ACTION=="add", ATTR{address}=="{{.MAC}}", NAME="eth0"` + "\n"},
	{"var/lib/dhcp/dhclient.eth0.leases", 0o644, `default-duid "\000\004{{.MachineID}}";
lease {
  interface "eth0";
  fixed-address {{.IP}};
  option dhcp-client-identifier ff:{{.MachineID}};
  option host-name "{{.Hostname}}";
  expire {{dhcp .Now}};
}
`},
	{"var/log/journal/{{.MachineID}}/system.journal", 0o640, "{{syslog .Now}} {{.Hostname}} systemd[1]: Startup finished.\n"},
	{"var/log/syslog", 0o640, "{{syslog .Now}} {{.Hostname}} kernel: Linux version {{.Kernel}}\n"},
	{"var/log/auth.log", 0o640, "{{syslog .Now}} {{.Hostname}} sshd[812]: Server listening on 0.0.0.0 port 22.\n"},
	{"var/log/wtmp", 0o664, "reboot {{.Hostname}}\n"},
}

// provision holds the files of the Azure agent for a new VM.
var provision = table{
	{"var/lib/waagent/ovf-env.xml", 0o600, `<Environment xmlns="http://schemas.dmtf.org/ovf/environment/1" xmlns:wa="http://schemas.microsoft.com/windowsazure"><wa:ProvisioningSection><wa:Version>1.0</wa:Version><wa:LinuxProvisioningConfigurationSet><wa:HostName>{{.Hostname}}</wa:HostName><wa:UserName>azureuser</wa:UserName><wa:CustomData>{{base64 .CustomData}}</wa:CustomData></wa:LinuxProvisioningConfigurationSet></wa:ProvisioningSection><wa:PlatformSettingsSection><wa:Version>1.0</wa:Version><wa:PlatformSettings><wa:ProvisionGuestAgent>true</wa:ProvisionGuestAgent></wa:PlatformSettings></wa:PlatformSettingsSection></Environment>` + "\n"},
	{"var/lib/waagent/TransportCert.pem", 0o600, `{{cert "LinuxTransport"}}`},
	{"var/lib/waagent/TransportPrivate.pem", 0o600, `{{key "LinuxTransport"}}`},
	{"var/lib/waagent/Certificates.pem", 0o600, `{{cert "tenant"}}{{key "tenant"}}`},
	{"var/lib/waagent/{{hex 20}}.crt", 0o600, `{{cert "tenant"}}`},
	{"var/lib/waagent/{{hex 20}}.prv", 0o600, `{{key "tenant"}}`},
	{"var/lib/waagent/provisioned", 0o644, "{{.VMID}}"},
	{"var/lib/waagent/published_hostname", 0o644, "{{.Hostname}}"},
	{"var/lib/waagent/SharedConfig.xml", 0o600, `<SharedConfig><Deployment name="{{uuid}}"/><Incarnation number="1" instance="{{.Hostname}}"/></SharedConfig>` + "\n"},
	{"var/lib/waagent/history/", 0o755, ""},
	{"var/lib/waagent/events/", 0o700, ""},
	{"var/log/waagent.log", 0o644, "{{rfc3339 .Now}} INFO Daemon Provisioning complete for {{.VMID}}\n"},
}

// newInstance holds the files of cloud-init for a new instance ID. NewInstance writes the link var/lib/cloud/instance
// and the files with the name of the current instance.
var newInstance = table{
	{"var/lib/cloud/instances/{{.VMID}}/user-data.txt", 0o600, "{{.CustomData}}"},
	{"var/lib/cloud/instances/{{.VMID}}/cloud-config.txt", 0o600, "{{.CustomData}}"},
	{"var/lib/cloud/instances/{{.VMID}}/vendor-data.txt", 0o600, ""},
	{"var/lib/cloud/instances/{{.VMID}}/obj.pkl", 0o400, "{{raw 64}}"},
	{"var/lib/cloud/instances/{{.VMID}}/datasource", 0o644, "{{.Platform.Source}}: {{.Platform.Seed}}\n"},
	{"var/lib/cloud/instances/{{.VMID}}/sem/config_ssh", 0o644, "{{rfc3339 .Now}}\n"},
	{"var/lib/cloud/instances/{{.VMID}}/sem/config_scripts_user", 0o644, "{{rfc3339 .Now}}\n"},
	{"var/lib/cloud/sem/config_scripts_per_once.once", 0o644, "{{rfc3339 .Now}}\n"},
	{"var/lib/cloud/data/status.json", 0o644, `{"v1":{"datasource":"{{.Platform.Source}}","stage":null}}` + "\n"},
	{"var/lib/cloud/data/result.json", 0o644, `{"v1":{"datasource":"{{.Platform.Seed}}","errors":[]}}` + "\n"},
	{"var/lib/cloud/seed/", 0o755, ""},
	{"var/log/cloud-init.log", 0o640, "{{rfc3339 .Now}} main.py[DEBUG]: instance-id {{.VMID}}\n"},
	{"var/log/cloud-init-output.log", 0o640, "Cloud-init finished. Datasource {{.Platform.Source}}.\n"},
	{"etc/netplan/50-cloud-init.yaml", 0o600, `network:
  version: 2
  ethernets:
    eth0: {dhcp4: true, match: {macaddress: "{{.MAC}}"}, set-name: eth0}
`},
	{"etc/systemd/network/10-cloud-init-eth0.network", 0o644, "[Match]\nMACAddress={{.MAC}}\n\n[Network]\nDHCP=ipv4\n"},
	{"etc/sudoers.d/90-cloud-init-users", 0o440, "{{.Platform.User}} ALL=(ALL) NOPASSWD:ALL\n"},
	{"root/.ssh/authorized_keys", 0o600, `no-port-forwarding,command="echo 'Please login as {{.Platform.User}}'" {{sshPub "ed25519"}}`},
	{"home/{{.Platform.User}}/", 0o750, ""},
	{"home/{{.Platform.User}}/.ssh/authorized_keys", 0o600, `{{sshPub "ed25519"}}`},
	{"etc/passwd-", 0o644, "root:x:0:0:root:/root:/bin/bash\n"},
	{"etc/group-", 0o644, "root:x:0:\n"},
	{"etc/shadow-", 0o600, "root:*:19700:0:99999:7:::\n"},
	{"etc/gshadow-", 0o600, "root:*::\n"},
	{"etc/subuid-", 0o644, "{{.Platform.User}}:100000:65536\n"},
	{"etc/subgid-", 0o644, "{{.Platform.User}}:100000:65536\n"},
	{"swapfile", 0o600, "SWAPSPACE2{{raw 64}}"},
}
