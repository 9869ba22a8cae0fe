package generalize

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/generalize/scan"
	"github.com/kamino-dev/kamino/internal/generalize/tree"
)

// literals returns the donor's values in plain text, from its disk and, on a running machine, from the kernel.
func literals(t *tree.Tree, before *Before) []scan.Literal {
	var l literalSet
	for _, name := range before.Names {
		if isDistinct(name) {
			l.add("host name", name)
		}
	}
	if entries, err := t.List("var/lib/cloud/instances"); err == nil {
		for _, entry := range entries {
			if isDistinct(entry.Name()) {
				l.add("instance ID", entry.Name())
			}
		}
	}
	for _, uuid := range l.lines(t, "sys/class/dmi/id/product_uuid") {
		l.add("product UUID", uuid)
		l.add("product UUID", strings.ReplaceAll(uuid, "-", ""))
	}
	for _, mac := range l.macs(t) {
		for _, between := range []string{":", "-", ""} {
			l.add("MAC address", strings.ReplaceAll(mac, ":", between))
		}
	}
	return l
}

type literalSet []scan.Literal

func (l *literalSet) add(what, text string) {
	text = strings.ToLower(text)
	if len(text) >= minLiteral && !slices.ContainsFunc(*l, func(v scan.Literal) bool { return v.Text == text }) {
		*l = append(*l, scan.Literal{What: what, Text: text})
	}
}

// minLiteral is the length of the shortest searched value.
const minLiteral = 6

var hasDigit = regexp.MustCompile(`[0-9]`)

// isDistinct reports whether a name is likely the donor's alone. Names such as "debian" are words of other files.
func isDistinct(name string) bool { return len(name) >= minLiteral && hasDigit.MatchString(name) }

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
			card := path.Join("sys/class/net", entry.Name())
			// Bridges and tunnels have no device. Their addresses are random, or equal on all nodes.
			if _, _, err := t.Resolve(path.Join(card, "device")); err == nil {
				all = append(all, l.lines(t, path.Join(card, "address"))...)
			}
		}
	}
	for _, pattern := range []string{"etc/netplan/50-cloud-init*.yaml", "etc/systemd/network/*-cloud-init-*", "etc/udev/rules.d/70-persistent-net.rules"} {
		matches, err := t.Glob(pattern)
		if err != nil {
			continue
		}
		for _, m := range matches {
			if content, err := t.Read(m.Path); err == nil {
				all = append(all, macAddress.FindAllString(string(content), -1)...)
			}
		}
	}
	return slices.DeleteFunc(all, func(mac string) bool { return !macAddress.MatchString(mac) || strings.Trim(mac, "0:") == "" })
}
