package generalize

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

// Beginnings of rules' paths that a disk can have elsewhere.
const (
	homes      = "/home/*/"
	kubeletDir = "/var/lib/kubelet/"
	podLogsDir = "/var/log/pods/"
)

// OnDisk returns the profile for a disk: its rules also have the homes and the kubelet's directories that the settings name.
func OnDisk(t *tree.Tree, p *rules.Profile) *rules.Profile {
	places := map[string][]string{
		homes: homesOf(t), kubeletDir: dirsOfKubelet(t, rootDir, kubeletDir), podLogsDir: dirsOfKubelet(t, podLogs, podLogsDir),
	}
	for _, of := range stateDirs {
		for _, dir := range dirsIn(filesOf(t, of.files...), of.setting, of.usual) {
			// All of the directory goes, so that it must be of the program alone.
			if of.own.MatchString(dir) {
				places[of.usual] = append(places[of.usual], dir)
			}
		}
	}
	return p.Elsewhere(places)
}

// stateDirs are further directories of programs, with the settings that name them, and the names of directories of the program
// alone. Source: CNI host-local, dataDir; waagent.conf, Lib.Dir; cloud-init, system_info.paths.
var stateDirs = []struct {
	usual        string
	files        []string
	setting, own *regexp.Regexp
}{
	{"/var/lib/cni/networks/", []string{"etc/cni/net.d/*.conf", "etc/cni/net.d/*.conflist", "etc/cni/net.d/*.json"},
		regexp.MustCompile(`"dataDir"\s*:\s*"(/[^"]+)"`), regexp.MustCompile(`/[^/]*(?:cni|ipam)`)},
	{"/var/lib/waagent/", []string{"etc/waagent.conf"},
		regexp.MustCompile(`(?m)^\s*Lib\.Dir\s*=\s*(/[^\s#]+)`), regexp.MustCompile(`/[^/]*waagent[^/]*/$`)},
	{"/var/lib/cloud/", []string{"etc/cloud/cloud.cfg", "etc/cloud/cloud.cfg.d/*.cfg"},
		regexp.MustCompile(`(?m)^[^#\n]*\bcloud_dir["']?\s*:\s*["']?(/[^\s"',}]+)`), regexp.MustCompile(`/`)},
}

var (
	// homeSetting matches where accounts of a directory, and new accounts, have their homes. Source: sssd.conf(5), smb.conf(5),
	// useradd(8), adduser.conf(5), nslcd.conf(5).
	homeSetting = regexp.MustCompile(`(?mi)^[ \t]*(?:override_homedir|fallback_homedir|template[ \t]+homedir|homedir_substring|HOME|DHOME|map[ \t]+passwd[ \t]+homeDirectory)[ \t]*[= \t][ \t]*"?(/[^\s"]*)`)
	// homeVariable matches the parts of such a setting that differ between accounts.
	homeVariable = regexp.MustCompile(`%[a-zA-Z]|\$\{?\w+\}?`)
	noShell      = regexp.MustCompile(`/(?:nologin|false|sync|shutdown|halt)$`)
	// podLogs matches the directory of pods' logs in a KubeletConfiguration.
	podLogs = regexp.MustCompile(`(?m)^[^#\n]*\bpodLogsDir["']?[ \t]*:[ \t]*["']?(/[^\s"',}]+)`)
	// rootDir matches the kubelet's flag, also in the agent's configuration of k3s and RKE2.
	rootDir = regexp.MustCompile(`(?m)^(?:[^#\n]*[\s"'=,\[])?(?:--)?root-dir[ =\t]+["']?(/[^\s"']+)`)
)

// homesOf returns beginnings of paths in homes other than /home/NAME: of two levels, as directories give them, of accounts
// in passwd, and of settings.
func homesOf(t *tree.Tree) []string {
	found := []string{"/home/*/*/"}
	add := func(home string) {
		home = path.Clean(home)
		top, _, _ := strings.Cut(home[1:], "/")
		if home != "/" && home != "/root" && path.Dir(home) != "/home" && !slices.Contains(notOfOne, top) && !slices.Contains(found, home+"/") {
			found = append(found, home+"/")
		}
	}
	for line := range strings.Lines(text(t, "etc/passwd")) {
		// Accounts without a shell are not of people.
		if fields := strings.Split(strings.TrimSpace(line), ":"); len(fields) == 7 && path.IsAbs(fields[5]) && !noShell.MatchString(fields[6]) {
			add("/" + literal(fields[5][1:]))
		}
	}
	for _, content := range filesOf(t, "etc/sssd/sssd.conf", "etc/sssd/conf.d/*.conf", "etc/samba/smb.conf", "etc/default/useradd",
		"etc/adduser.conf", "etc/nslcd.conf") {
		for _, m := range homeSetting.FindAllStringSubmatch(string(content), -1) {
			home := homeVariable.ReplaceAllString(m[1], "*")
			if !rules.Wild(home) {
				home += "/*"
			}
			add(home)
		}
	}
	return found
}

// dirsOfKubelet returns the directories that a setting of the kubelet names, other than its default.
func dirsOfKubelet(t *tree.Tree, setting *regexp.Regexp, usual string) []string {
	return dirsIn(filesOf(t, slices.Concat(kubeletFiles, moreOfKubelet)...), setting, usual)
}

// dirsIn returns the directories that a setting names, as patterns.
func dirsIn(files [][]byte, setting *regexp.Regexp, usual string) (found []string) {
	for _, content := range files {
		for _, m := range setting.FindAllStringSubmatch(string(content), -1) {
			dir := "/" + literal(path.Clean(m[1])[1:]) + "/"
			if dir != usual && dir != "//" && !slices.Contains(found, dir) {
				found = append(found, dir)
			}
		}
	}
	return found
}

// moreOfKubelet are files with flags and settings of the kubelet that do not name the donor.
var moreOfKubelet = []string{
	"etc/kubernetes/kubelet.env", "etc/kubernetes/kubelet-config.yaml", "etc/kubernetes/kubelet/*.json", "etc/kubernetes/kubelet/*/*", "var/lib/kubelet/instance-config.yaml",
	"usr/lib/systemd/system/kubelet.service", "usr/lib/systemd/system/kubelet.service.d/*", "lib/systemd/system/kubelet.service", "usr/local/lib/systemd/system/kubelet.service",
	"etc/rancher/*/config.yaml.d/*", "etc/systemd/system/*k3s*", "etc/systemd/system/rke2*", "var/snap/microk8s/current/args/kubelet",
}
