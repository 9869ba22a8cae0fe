package generalize

import (
	"crypto/x509"
	"encoding/pem"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// literals returns the donor's values in plain text, from its disk and, on a running machine, from the kernel.
func literals(t *tree.Tree, before *DonorValues) []scan.Literal {
	var l literalSet
	for _, name := range before.Names {
		if isDistinctName(name) {
			l.add("host name", name)
		} else {
			l = append(l, scan.Literal{What: "host name", Text: name, IsWord: true})
		}
	}
	if entries, err := t.List("var/lib/cloud/instances"); err == nil {
		for _, entry := range entries {
			if isDistinct(entry.Name()) {
				l.add("instance ID", entry.Name())
			}
		}
	}
	l.firmware(t)
	for _, mac := range l.macs(t) {
		l.add("MAC address", mac)
	}
	l.kubelet(t)
	l.certificates(t)
	for _, address := range addresses(t) {
		l.add("address", address)
	}
	l.hosts(t, before)
	l.fileSystems(t)
	return l
}

// hosts adds the addresses of the donor's own names. The file may give such an address to other names, too.
func (l *literalSet) hosts(t *tree.Tree, before *DonorValues) {
	const file = "/etc/hosts"
	for line := range strings.Lines(text(t, tree.Rel(file))) {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) > 1 && isOwn(fields[0]) && slices.ContainsFunc(fields[1:], before.owns) {
			l.add("address", fields[0], file)
		}
	}
}

// nodeUser begins the user name of a kubelet. Source: Kubernetes, node authorization.
const nodeUser = "system:node:"

// certificates adds names and addresses in the certificates of the kubelet.
func (l *literalSet) certificates(t *tree.Tree) {
	for _, content := range filesOf(t, "var/lib/kubelet/pki/*", "etc/kubernetes/certs/kubeletserver.crt", "srv/kubernetes/kubelet-server.crt") {
		for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				continue
			}
			names := c.DNSNames
			if name, is := strings.CutPrefix(c.Subject.CommonName, nodeUser); is {
				names = append(names, name)
			}
			for _, name := range names {
				if isDistinctName(name) {
					l.add("host name", name)
				}
			}
			for _, ip := range c.IPAddresses {
				if isOwn(ip.String()) {
					l.add("address", ip.String())
				}
			}
		}
	}
}

// firmware adds the values that the firmware of a virtual machine shows.
func (l *literalSet) firmware(t *tree.Tree) {
	const dmi = "sys/class/dmi/id/"
	for _, file := range []string{dmi + "product_uuid", "sys/hypervisor/uuid"} {
		for _, uuid := range l.lines(t, file) {
			l.add("product UUID", uuid)
		}
	}
	for _, serial := range l.lines(t, dmi+"product_serial") {
		if len(serial) >= minSerial && hasDigit.MatchString(serial) {
			l.add("serial number", serial)
		}
	}
	// Only AWS writes the instance ID there. Other clouds have one tag for all machines.
	for _, tag := range l.lines(t, dmi+"board_asset_tag") {
		if instanceID.MatchString(tag) {
			l.add("instance ID", tag)
		}
	}
}

// minSerial is the length of the shortest serial number that is likely the donor's alone.
const minSerial = 10

// instanceID matches an instance ID of AWS.
var instanceID = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// kubeletFiles have flags of the kubelet. The kubelet of the donor names the donor there.
var kubeletFiles = []string{
	"etc/default/kubelet*", "etc/sysconfig/kubelet", "etc/eks/kubelet/environment", "var/lib/kubelet/kubeadm-flags.env",
	"etc/systemd/system/kubelet.service", "etc/systemd/system/kubelet.service.d/*", "etc/rancher/*/config.yaml", "var/lib/kubelet/config.yaml",
}

var kubeletFlag = regexp.MustCompile(`(?i)(?:--|\b)(node-ip|node-external-ip|provider-?id|hostname-override|node-name)["']?[ \t]*[=: \t][ \t]*["']?([^\s"',$]+)`)

// kubelet adds the values of the kubelet's flags.
func (l *literalSet) kubelet(t *tree.Tree) {
	for _, content := range filesOf(t, kubeletFiles...) {
		for line := range strings.Lines(string(content)) {
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			for _, m := range kubeletFlag.FindAllStringSubmatch(line, -1) {
				l.flag(strings.ToLower(m[1]), m[2])
			}
		}
	}
}

func (l *literalSet) flag(name, value string) {
	switch {
	case strings.HasSuffix(name, "ip"):
		if isOwn(value) {
			l.add("address", value)
		}
	case strings.HasPrefix(name, "provider"):
		l.add("provider ID", value)
		if id := path.Base(value); instanceID.MatchString(id) {
			l.add("instance ID", id)
		}
	case isDistinctName(value):
		l.add("host name", value)
	}
}

// filesOf returns the files of patterns; unreadable files are left out.
func filesOf(t *tree.Tree, patterns ...string) (all [][]byte) {
	for _, pattern := range patterns {
		matches, err := t.Glob(pattern)
		if err != nil {
			continue
		}
		for _, m := range matches {
			if content, err := t.Read(m.Path); err == nil {
				all = append(all, content)
			}
		}
	}
	return all
}

// diskFiles name the machine's file systems by design.
var diskFiles = []string{
	"/etc/fstab", "/etc/crypttab", "/etc/default/grub", "/etc/grub", "/etc/kernel/", "/etc/sysconfig/grub", "/etc/sysconfig/kernel", "/etc/lvm/",
	"/etc/mdadm", "/etc/initramfs-tools/", "/etc/dracut", "/etc/blkid", "/etc/systemd/system/", "/etc/extlinux", "/var/lib/os-prober/",
	"/etc/cmdline.d/", "/var/lib/dracut/", "/var/lib/initramfs-tools/", "/var/lib/grub/", "/var/lib/systemd/", "/var/lib/rpm", "/var/lib/ostree",
}

var fileSystemUUID = regexp.MustCompile(`(?i)^UUID="?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"?$`)

// fileSystems adds the UUIDs of the system's file systems. Clones share them, so that a program that takes such a UUID
// for its own has one identity on all clones.
func (l *literalSet) fileSystems(t *tree.Tree) {
	fstab, err := t.Read("etc/fstab")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(fstab)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !slices.Contains(systemPoints, fields[1]) {
			continue
		}
		if m := fileSystemUUID.FindStringSubmatch(fields[0]); m != nil {
			l.add("file system's UUID", m[1], diskFiles...)
		}
	}
}

type literalSet []scan.Literal

// add adds a value in all its spellings. allowed are the beginnings of paths that may have the value.
func (l *literalSet) add(what, text string, allowed ...string) {
	for _, text := range scan.Spellings(text) {
		if len(text) >= minLiteral && !slices.ContainsFunc(*l, func(v scan.Literal) bool { return v.Text == text }) {
			*l = append(*l, scan.Literal{What: what, Text: text, Allowed: allowed})
		}
	}
}

// minLiteral is the length of the shortest searched value.
const minLiteral = 6

var hasDigit = regexp.MustCompile(`[0-9]`)

// isDistinct reports whether a name is likely the donor's alone. Names such as "debian" are words of other files.
func isDistinct(name string) bool { return len(name) >= minLiteral && hasDigit.MatchString(name) }

// minJoined is the length of the shortest searched host name without a digit.
const minJoined = 10

// hostWords are parts of host names that other files have as well.
var hostWords = strings.Split("agent,app,cluster,cloud,control,corp,db,debian,default,desktop,dev,example,generic,host,image,instance,internal,k3s,kube,kubernetes,lan,linux,live,local,"+
	"localdomain,localhost,machine,main,master,my,net,new,node,old,plane,pool,primary,prod,rke,server,site,staging,test,ubuntu,user,vm,web,worker", ",")

// isDistinctName is isDistinct for host names, which may be joined words: worker-alpha, but not kube-worker.
func isDistinctName(name string) bool {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '.' || r == '_' })
	return isDistinct(name) || len(name) >= minJoined && len(words) > 1 && slices.ContainsFunc(words,
		func(word string) bool { return !slices.Contains(hostWords, strings.ToLower(word)) })
}

func (l *literalSet) lines(t *tree.Tree, p string) []string {
	content, err := t.Read(p)
	if err != nil {
		return nil
	}
	return strings.Fields(string(content))
}

var macAddress = regexp.MustCompile(`(?i)\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b`)

// macs returns the MAC addresses of the donor's network cards: those in sysfs, and those that cloud-init wrote down.
func (l *literalSet) macs(t *tree.Tree) []string {
	var all []string
	if entries, err := t.List("sys/class/net"); err == nil {
		for _, entry := range entries {
			// Bridges and tunnels have no device. Their addresses are random, or equal on all nodes.
			if hasDevice(t, entry.Name()) {
				all = append(all, l.lines(t, path.Join("sys/class/net", entry.Name(), "address"))...)
			}
		}
	}
	for _, content := range filesOf(t, "etc/netplan/50-cloud-init*.yaml", "etc/systemd/network/*-cloud-init-*", "etc/udev/rules.d/70-persistent-net.rules",
		"etc/sysconfig/network-scripts/ifcfg-*", "etc/NetworkManager/system-connections/*") {
		all = append(all, macAddress.FindAllString(string(content), -1)...)
	}
	return slices.DeleteFunc(all, func(mac string) bool { return !macAddress.MatchString(mac) || strings.Trim(mac, "0:") == "" })
}
