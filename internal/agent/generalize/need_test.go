package generalize

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/rules"
)

const persistentNames = "etc/udev/rules.d/70-persistent-net.rules"

func udevName(name string) string {
	return `SUBSYSTEM=="net", ACTION=="add", ATTR{address}=="02:00:00:aa:bb:cc", NAME="` + name + "\"\n"
}

// TestNeeded: a file that the configuration names, or cannot do without, is not removed in silence.
func TestNeeded(t *testing.T) {
	const key = "root/.ssh/kdump_id_rsa"
	for what, test := range map[string]struct {
		files map[string]string
		rules string
	}{
		"the key of kdump":          {map[string]string{key: "k", "etc/kdump.conf": "ssh kdump@dumps.example\nsshkey /" + key + "\n"}, "user-keys"},
		"its usual key":             {map[string]string{key: "k", "etc/kdump.conf": "ssh kdump@dumps.example\n"}, "user-keys"},
		"the key of Debian's kdump": {map[string]string{key: "k", "etc/default/kdump-tools": "SSH=\"kdump@dumps.example\"\n"}, "user-keys"},
		"a comment":                 {map[string]string{key: "k", "etc/kdump.conf": "#ssh user@host\n#sshkey /" + key + "\n"}, ""},
		"another key":               {map[string]string{"root/.ssh/id_rsa": "k", "etc/kdump.conf": "ssh kdump@dumps.example\n"}, ""},
		"a longer name":             {map[string]string{"root/.ssh/id": "k", "etc/kdump.conf": "sshkey /root/.ssh/id_rsa\n"}, ""},
		"a tunnel": {map[string]string{"home/ops/.ssh/tunnel": "k",
			"etc/systemd/system/tunnel.service": "[Service]\nExecStart=/usr/bin/autossh -i /home/ops/.ssh/tunnel x\n"}, "user-keys"},
		"a copy by night": {map[string]string{"root/.ssh/backup": "k",
			"etc/cron.d/backup": "0 3 * * * root rsync -e 'ssh -i /root/.ssh/backup' /srv b:\n"}, "user-keys"},
		"sshfs": {map[string]string{"root/.ssh/fs": "k",
			"etc/fstab": "a@b:/ /mnt fuse.sshfs IdentityFile=/root/.ssh/fs,nofail,_netdev 0 0\n"}, "user-keys"},
		"a file below": {map[string]string{"root/.aws/credentials": "k",
			"etc/default/uploader": "AWS_SHARED_CREDENTIALS_FILE=/root/.aws/credentials\n"}, "personal-credentials"},
		"encrypted credentials":    {map[string]string{"var/lib/systemd/credential.secret": "k", "etc/credstore.encrypted/db": "x"}, "credential-secret"},
		"no encrypted credentials": {map[string]string{"var/lib/systemd/credential.secret": "k"}, ""},
		"a mount of a session": {map[string]string{"etc/iscsi/nodes/iqn.a/10.0.0.9,3260,1/default": "x",
			"etc/fstab": "UUID=aaaa / ext4 defaults 0 1\nUUID=bbbb /data xfs _netdev,nofail 0 0\n"}, "storage-sessions"},
		"sessions of a driver": {map[string]string{"etc/iscsi/nodes/iqn.a/10.0.0.9,3260,1/default": "x",
			"etc/fstab": "UUID=aaaa / ext4 defaults 0 1\n10.0.0.1:/x /x nfs _netdev 0 0\n"}, ""},
		"an interface by a name of the file": {map[string]string{persistentNames: udevName("lan0"),
			"etc/network/interfaces": "auto lan0\niface lan0 inet dhcp\n"}, "persistent-net-names"},
		"a VLAN on it":                    {map[string]string{persistentNames: udevName("lan0"), "etc/netplan/60-vlan.yaml": "network:\n  vlans:\n    v7: {id: 7, link: lan0}\n"}, "persistent-net-names"},
		"a sysctl of it":                  {map[string]string{persistentNames: udevName("mgmt"), "etc/sysctl.d/9.conf": "net.ipv4.conf.mgmt.rp_filter = 0\n"}, "persistent-net-names"},
		"an interface of udev":            {map[string]string{persistentNames: udevName("eth0"), "etc/network/interfaces": "iface eth0 inet dhcp\n"}, ""},
		"another interface":               {map[string]string{persistentNames: udevName("lan0"), "etc/network/interfaces": "iface lan01 inet dhcp\n# iface lan0\n"}, ""},
		"an interface that no file names": {map[string]string{persistentNames: udevName("lan0")}, ""},
		"users of systemd-homed":          {map[string]string{"var/lib/systemd/home/local.private": "k", "var/lib/systemd/home/a.identity": "{}"}, "homed-users"},
		"a unit that names no file":       {map[string]string{"home/ops/.ssh/id": "k", "etc/systemd/system/x.service": "[Service]\nExecStart=/bin/true\n"}, ""},
		"a script that names its file": {map[string]string{"root/.kube/config": "c",
			"usr/local/bin/report": "#!/bin/sh\nkubectl --kubeconfig /root/.kube/config get nodes\n"}, "personal-credentials"},
	} {
		t.Run(what, func(t *testing.T) {
			files := withoutEditsOf(node, test.files)
			dir := plant(t, files, test.files)
			r := runner(load(t, v1alpha1.ProfileBootstrap))
			refusing(t, r.Refusals(open(t, dir)), test.rules)
			if test.rules == "" {
				return
			}
			r.Allow = []string{test.rules}
			must(t, r.Refusals(open(t, dir)))
		})
	}
	dir := plant(t, node, map[string]string{key: "k", "root/.ssh/id_rsa": "k", "etc/kdump.conf": "ssh kdump@dumps.example\n"})
	r := runner(load(t, v1alpha1.ProfileBootstrap))
	kept, err := rules.LoadFiles(v1alpha1.ProfileBootstrap,
		map[string][]byte{"a.yaml": []byte("version: \"1\"\nrules:\n- {id: kdump-key, action: keep, paths: [/" + key + "], reason: dumps, source: us}\n")})
	must(t, err)
	r.Profile = kept
	_, err = run(t, dir, r)
	must(t, err)
	if !exists(dir, key) || exists(dir, "root/.ssh/id_rsa") {
		t.Error("the kept key is gone, or another key is there")
	}
}
