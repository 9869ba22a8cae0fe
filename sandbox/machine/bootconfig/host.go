package bootconfig

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// timeServices set the clock. Without one of them, the clock is what the boot makes of files.
var timeServices = []string{"systemd-timesyncd.service", "chronyd.service", "chrony.service", "ntpd.service", "ntp.service"}

// clock is how far the system's clock is ahead. A time service, such as systemd-timesyncd, sets it right. Without one,
// the hardware clock may have local time (hwclock(8)), and a file has the earliest time (systemd(1)).
func (f files) clock(now time.Time) time.Duration {
	for _, unit := range timeServices {
		installed := unit == timeServices[0] || f.exists("/etc/systemd/system/multi-user.target.wants/"+unit)
		if installed && !f.masked(unit) {
			return 0
		}
	}
	ahead := time.Duration(0)
	if lines := strings.Split(f.text("/etc/adjtime"), "\n"); len(lines) > 2 && strings.TrimSpace(lines[2]) == "LOCAL" {
		ahead = -f.zone(now)
	}
	if path, err := f.resolve("/usr/lib/clock-epoch"); err == nil {
		if info, err := os.Stat(path); err == nil {
			ahead = max(ahead, info.ModTime().Sub(now))
		}
	}
	return ahead
}

// zone is the offset of the disk's time zone: /etc/localtime is a link into /usr/share/zoneinfo.
func (f files) zone(now time.Time) time.Duration {
	target, err := os.Readlink(filepath.Join(f.root, "etc/localtime"))
	if err != nil {
		return 0
	}
	_, name, _ := strings.Cut(target, "zoneinfo/")
	zone, err := time.LoadLocation(name)
	if err != nil {
		return 0
	}
	_, seconds := now.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

// nameServers that answer: systemd-resolved's, Azure's, and EC2's of each VPC and of this one.
var nameServers = []string{"127.0.0.53", "168.63.129.16", "169.254.169.253", "10.240.0.2"}

// resolver is the error of each look-up on the host; empty if the name server answers. Source: resolv.conf(5).
func (f files) resolver() string {
	for line := range strings.Lines(f.text("/etc/resolv.conf")) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if slices.Contains(nameServers, words[1]) {
			return ""
		}
		return "on " + words[1] + ":53: read udp: i/o timeout"
	}
	return "on [::1]:53: read udp: connection refused"
}

// bundles are the files with the system's authorities. Source: crypto/x509, root_linux.go.
var bundles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"}

// authorities is the error of each TLS connection to the world; empty if the system has a valid authority.
func (f files) authorities(now time.Time) string {
	for _, path := range bundles {
		text, err := f.read(path)
		if err != nil {
			continue
		}
		if err := expired(certificates(text), now); err != nil {
			return err.Error()
		}
		return ""
	}
	return errUnknownAuthority.Error()
}

// sysctl is a kernel parameter after the boot. Later names win. Source: sysctl.d(5).
func (f files) sysctl(name string) (value string) {
	byName := map[string]string{}
	for _, dir := range []string{"/usr/lib/sysctl.d", "/etc/sysctl.d"} {
		for _, path := range f.list(dir, ".conf") {
			byName[filepath.Base(path)] = path
		}
	}
	var names []string
	for base := range byName {
		names = append(names, base)
	}
	slices.Sort(names)
	for _, base := range names {
		if set, found := settings(f.text(byName[base]))[name]; found {
			value = set
		}
	}
	return value
}

// volatile directories are no part of the disk.
var volatile = []string{"dev", "proc", "run", "sys"}

// used is the space of all files, with holes.
func (f files) used() (bytes int64) {
	_ = filepath.WalkDir(f.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if entry.IsDir() && filepath.Dir(path) == f.root && slices.Contains(volatile, entry.Name()) {
			return filepath.SkipDir
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

// pressure reports whether the free space is below a hard eviction threshold. Images and pods share the disk.
func (f files) pressure(thresholds map[string]string, capacity *resource.Quantity) (bool, error) {
	free := capacity.Value() - f.used()
	for _, signal := range []string{"nodefs.available", "imagefs.available"} {
		if thresholds[signal] == "" {
			continue
		}
		least, err := share(thresholds[signal], *capacity)
		if err != nil {
			return false, err
		}
		if free < least.Value() {
			return true, nil
		}
	}
	return false, nil
}

// problems are the conditions of the node problem detector, if its service has monitors on the disk. A permanent rule
// makes a condition True. Source: kubernetes/node-problem-detector, pkg/systemlogmonitor; AKS installs the directory.
func (f files) problems(kernel []string) (conditions []corev1.NodeCondition) {
	for _, path := range f.list("/etc/node-problem-detector.d/system-log-monitor", ".json") {
		var monitor struct {
			LogPath    string `json:"logPath"`
			Plugin     string `json:"plugin"`
			Conditions []struct{ Type, Reason, Message string }
			Rules      []struct{ Type, Condition, Reason, Pattern string }
		}
		if json.Unmarshal([]byte(f.text(path)), &monitor) != nil {
			continue
		}
		lines := kernel
		if monitor.Plugin == "filelog" {
			lines = strings.Split(f.text(monitor.LogPath), "\n")
		}
		for _, c := range monitor.Conditions {
			condition := corev1.NodeCondition{Type: corev1.NodeConditionType(c.Type), Status: corev1.ConditionFalse, Reason: c.Reason, Message: c.Message}
			for _, rule := range monitor.Rules {
				pattern, err := regexp.Compile(rule.Pattern)
				if err != nil || rule.Type != "permanent" || rule.Condition != c.Type {
					continue
				}
				if i := slices.IndexFunc(lines, pattern.MatchString); i >= 0 {
					condition.Status, condition.Reason, condition.Message = corev1.ConditionTrue, rule.Reason, lines[i]
				}
			}
			conditions = append(conditions, condition)
		}
	}
	return conditions
}
