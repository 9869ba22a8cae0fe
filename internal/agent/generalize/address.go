package generalize

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// addresses returns the addresses of the donor's network cards: from the kernel of a running machine, and from leases.
// Addresses of bridges, tunnels and services are equal on all nodes, or change with each pod.
func addresses(t *tree.Tree) []string {
	var all []string
	for _, content := range filesOf(t, "var/lib/dhcp/*", "var/lib/dhclient/*", "var/lib/NetworkManager/*.lease") {
		for _, m := range leased.FindAllStringSubmatch(string(content), -1) {
			all = append(all, m[1])
		}
	}
	if t.Running() {
		all = append(all, localV4(t)...)
		all = append(all, localV6(t)...)
	}
	return slices.DeleteFunc(all, func(text string) bool { return !isOwn(text) })
}

// isOwn reports whether an address can belong to one machine alone.
func isOwn(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsUnspecified()
}

var leased = regexp.MustCompile(`(?m)^\s*(?:fixed-address6?\s+|ADDRESS=|iaaddr\s+)([0-9a-fA-F.:]+)`)

// hasDevice reports whether an interface is a network card, which has a device.
func hasDevice(t *tree.Tree, name string) bool {
	_, _, err := t.Resolve(path.Join("sys/class/net", name, "device"))
	return err == nil
}

var localAddress = regexp.MustCompile(`\|-- ([0-9.]+)\n\s*/32 host LOCAL`)

// localV4 returns the machine's own addresses in the subnets of its network cards. Source: Linux, fib_trie and route in
// proc_pid_net(5).
func localV4(t *tree.Tree) (found []string) {
	var subnets []netip.Prefix
	for line := range strings.Lines(text(t, "proc/1/net/route")) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !hasDevice(t, fields[0]) {
			continue
		}
		if to, mask := routeAddress(fields[1]), routeAddress(fields[7]); to.IsValid() && mask.IsValid() && !to.IsUnspecified() {
			subnets = append(subnets, netip.PrefixFrom(to, ones(mask)))
		}
	}
	for _, m := range localAddress.FindAllStringSubmatch(text(t, "proc/1/net/fib_trie"), -1) {
		a, err := netip.ParseAddr(m[1])
		if err == nil && slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return s.Contains(a) }) && !slices.Contains(found, m[1]) {
			found = append(found, m[1])
		}
	}
	return found
}

// routeAddress parses an address of /proc/net/route: eight hex digits in the byte order of the machine, which is
// little-endian on all architectures of Kamino.
func routeAddress(text string) netip.Addr {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 4 {
		return netip.Addr{}
	}
	return netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]})
}

func ones(mask netip.Addr) (n int) {
	for _, b := range mask.As4() {
		for ; b&0x80 != 0; b <<= 1 {
			n++
		}
	}
	return n
}

// localV6 returns the global addresses of network cards. Source: if_inet6 in proc_pid_net(5).
func localV6(t *tree.Tree) (found []string) {
	for line := range strings.Lines(text(t, "proc/1/net/if_inet6")) {
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[3] != "00" || !hasDevice(t, fields[5]) {
			continue
		}
		if b, err := hex.DecodeString(fields[0]); err == nil && len(b) == 16 {
			found = append(found, netip.AddrFrom16([16]byte(b)).String())
		}
	}
	return found
}

// text returns the content of a file; empty if it cannot be read.
func text(t *tree.Tree, p string) string { return string(bytes.Join(filesOf(t, p), nil)) }
