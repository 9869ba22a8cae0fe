package generalize

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/rules"
)

// TestPlacesOnDisk: rules follow the homes and the kubelet's directories that the settings of a disk name.
func TestPlacesOnDisk(t *testing.T) {
	const flags = "etc/default/kubelet"
	for what, test := range map[string]struct{ setting, content, gone, stays string }{
		"two levels":                 {"etc/nsswitch.conf", "passwd: files sss\n", "home/corp.example/alice/.bash_history", "home/corp.example/alice/notes"},
		"an account":                 {"etc/passwd", "svc:x:1500:1500::/data/svc:/bin/bash\n", "data/svc/.ssh/authorized_keys", "data/svc/.ssh.old/x"},
		"an account without a shell": {"etc/passwd", "web:x:33:33::/srv/web/site:/usr/sbin/nologin\n", "", "srv/web/site/.docker/config.json"},
		"a home at the root":         {"etc/passwd", "svc:x:1500:1500::/:/bin/bash\n", "", ".kube/config"},
		"a home among programs":      {"etc/passwd", "svc:x:1500:1500::/usr/share/svc:/bin/bash\n", "", "usr/share/svc/.kube/config"},
		"sssd": {"etc/sssd/sssd.conf", "[nss]\noverride_homedir = /export/%d/%u\n", "export/corp/bob/.kube/config",
			"export/corp/bob/kube"},
		"winbind": {"etc/samba/smb.conf", "[global]\n  template homedir = /srv/home/%U\n", "srv/home/bob/.aws/credentials",
			"srv/home/bob/aws"},
		"useradd": {"etc/default/useradd", "# useradd\nHOME=/data/home\n", "data/home/bob/.netrc", "data/home/.netrc"},
		"adduser": {"etc/adduser.conf", "DHOME=/data/home\n", "data/home/bob/.netrc", "data/home/.netrc"},
		"the kubelet": {flags, "KUBELET_EXTRA_ARGS=--root-dir=/data/kubelet --v=2\n", "data/kubelet/pods/u/etc-hosts",
			"data/kubelet/image_manager/x"},
		"a quoted flag": {flags, "KUBELET_EXTRA_ARGS=\"--root-dir=/data/kubelet\"\n", "data/kubelet/cpu_manager_state", "data/kubelet/other"},
		"a flag in a unit": {"etc/systemd/system/kubelet.service.d/20.conf",
			"[Service]\nExecStart=/usr/bin/kubelet --root-dir /data/kubelet\n", "data/kubelet/pki/kubelet.key", "data/pki/kubelet.key"},
		"a comment": {flags, "#KUBELET_EXTRA_ARGS=--root-dir=/data/kubelet\n", "", "data/kubelet/pods/u/etc-hosts"},
		"an argument of k3s": {"etc/rancher/k3s/config.yaml", "kubelet-arg:\n- root-dir=/data/kubelet\n", "data/kubelet/pods/u/etc-hosts",
			"data/kubelet/x"},
		"kubespray": {"etc/kubernetes/kubelet.env", "KUBELET_ARGS=\"--root-dir=/data/kubelet\"\n",
			"data/kubelet/memory_manager_state", "data/kubelet/x"},
		"the logs of pods": {"var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\npodLogsDir: /data/pods\n",
			"data/pods/shop_web_1/web/0.log", "data/web.log"},
		"an argument of k3s in its unit": {"etc/systemd/system/k3s-agent.service", "[Service]\nExecStart=/usr/local/bin/k3s \\\n    agent \\\n\t'--kubelet-arg=root-dir=/data/kubelet' \\\n",
			"data/kubelet/pods/u/etc-hosts", "data/kubelet/x"},
		"kOps": {"etc/sysconfig/kubelet", "DAEMON_ARGS=\"--root-dir=/data/kubelet --config=/var/lib/kubelet/kubelet.conf\"\n", "data/kubelet/device-plugins/x", "data/kubelet/x"},
		"addresses of host-local": {"etc/cni/net.d/10-site.conflist", `{"plugins":[{"ipam":{"type":"host-local","dataDir":"/data/cni/ipam"}}]}`,
			"data/cni/ipam/pods/10.244.7.12", "data/cni/x"},
		"addresses among other data":   {"etc/cni/net.d/10-site.conf", `{"ipam":{"type":"host-local","dataDir":"/data"}}`, "", "data/pods/10.244.7.12"},
		"the Azure agent":              {"etc/waagent.conf", "Lib.Dir=/data/waagent\n", "data/waagent/ovf-env.xml", "data/waagent/WALinuxAgent-2.9.1.1/x"},
		"the Azure agent, at large":    {"etc/waagent.conf", "Lib.Dir=/data\n", "", "data/ovf-env.xml"},
		"cloud-init":                   {"etc/cloud/cloud.cfg", "system_info:\n  paths:\n    cloud_dir: /data/cloud/\n", "data/cloud/instances/i-1/obj.pkl", "data/cloud/scripts/per-boot/x"},
		"a name that ends in the flag": {flags, "X=--my-root-dir=/data/kubelet\n", "", "data/kubelet/pods/u/etc-hosts"},
	} {
		t.Run(what, func(t *testing.T) {
			files := map[string]string{test.setting: test.content, test.stays: "stays\n"}
			if test.gone != "" {
				files[test.gone] = "of the donor\n"
			}
			dir := plant(t, withoutEditsOf(node, files), files)
			r := runner(OnDisk(open(t, dir), load(t, v1alpha1.ProfileBootstrap)))
			before, err := LookBefore(open(t, dir), r.Profile)
			must(t, err)
			for i := range r.Profile.Rules {
				if rule := &r.Profile.Rules[i]; rule.Action.Is(rules.Delete, rules.Regenerate) {
					r.apply(open(t, dir), rule, before)
				}
			}
			if test.gone != "" && exists(dir, test.gone) || !exists(dir, test.stays) {
				t.Errorf("/%s is there: %t; /%s is there: %t", test.gone, exists(dir, test.gone), test.stays, exists(dir, test.stays))
			}
		})
	}
	p := load(t, v1alpha1.ProfileStatic)
	if moved := p.Elsewhere(map[string][]string{homes: {"/data/*/"}}); moved.Version != p.Version || slices.Contains(p.Rules[0].Paths, "/data/*/") {
		t.Error("the profile itself was changed")
	}
}

// TestKindsOfEdits: each editor that a rule may name has code, with the same need of a pattern.
func TestKindsOfEdits(t *testing.T) {
	known := map[string]bool{}
	for name, e := range editors {
		known[name] = e.takesPattern
	}
	if diff := cmp.Diff(maps.Clone(rules.Editors), known); diff != "" {
		t.Errorf("editors (-rules +code):\n%s", diff)
	}
}

// TestInitramfsOfDonor: a clone takes its first name from the initramfs. The refusal says how to build another.
func TestInitramfsOfDonor(t *testing.T) {
	entry := func(name, content string) string {
		head := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00", 1, 0o100644, 0, 0, 1, 0, len(content), 0, 0, 0, 0,
			len(name)+1, 0, name)
		return head + strings.Repeat("\x00", -len(head)&3) + content + strings.Repeat("\x00", -len(content)&3)
	}
	const image = "boot/initramfs-6.1.img"
	for _, host := range []string{donor, "worker"} {
		dir := plant(t, withoutEditsOf(node, map[string]string{"etc/hostname": ""}), map[string]string{
			"etc/hostname": host + "\n", image: gzipped(entry("etc/hostname", host+"\n") + entry("TRAILER!!!", "")),
		})
		_, err := run(t, dir, &Runner{Profile: load(t, v1alpha1.ProfileStatic), DryRun: true, Now: time.Now})
		if why := strings.Join(refusedOf(t, err).Lines(), "\n"); !strings.Contains(why, "the donor's host name, in gzip in /"+image) ||
			!strings.Contains(why, "dracut --force --no-hostonly") || strings.Contains(why, "remove the files") {
			t.Errorf("%s: got %s", host, why)
		}
	}
}
