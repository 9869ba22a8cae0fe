package kubelet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// Pods that are real processes share this machine's network. Each pod listens on its own loopback address, and
// resolves names through its resolv.conf.

const (
	resolverMount = "/etc/resolv.conf"
	clusterDomain = "cluster.local"
)

// reachable is the n-th address for a pod that is a process. On Linux, all of 127.0.0.0/8 works. Elsewhere, the
// address is not reachable.
func (s *Service) reachable(n uint32) string {
	if runtime.GOOS != "linux" {
		return fmt.Sprintf("10.%d.%d.%d", 244+(n>>16)%8, n>>8&0xff, n&0xff)
	}
	at := (s.base + n) & (1<<22 - 1)
	return netip.AddrFrom4([4]byte{127, byte(64 + at>>16), byte(at >> 8), byte(at)}).String()
}

// deadNameServer is in place of a name server that the disk names and that does not answer. No packet leaves the host.
const deadNameServer = "127.0.0.1:1"

// resolver writes the pod's resolv.conf. The port of the name server is specific to the sandbox.
func (v *volumes) resolver(pod *corev1.Pod) (string, error) {
	path := filepath.Join(v.dir, "resolv.conf")
	text := fmt.Sprintf("search %[1]s.svc.%[2]s svc.%[2]s %[2]s\noptions ndots:5\n", pod.Namespace, clusterDomain)
	s, config := v.kubelet.service, &v.kubelet.node.Config
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case pod.Spec.DNSPolicy == corev1.DNSDefault && config.NoHostDNS(), pod.Spec.DNSPolicy != corev1.DNSDefault && config.NoClusterDNS:
		text += "nameserver " + deadNameServer + "\n"
	case s.names != nil:
		text += "nameserver " + s.names.LocalAddr().String() + "\n"
	}
	return path, disk.WriteFile(path, []byte(text), 0o600)
}

// serveNames answers for names until the context ends: the API server's Service is where the API server is, and a name that
// is none of the cluster's is somewhere in the world.
func (s *Service) serveNames(ctx context.Context) error {
	names, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("the name server of the cluster: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = names.Close() })
	s.mu.Lock()
	s.names = names
	s.mu.Unlock()
	go func() {
		for buffer := make([]byte, 1<<12); ; {
			n, from, err := names.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := s.answer(buffer[:n]); answer != nil {
				_, _ = names.WriteTo(answer, from)
			}
		}
	}()
	return nil
}

// answer answers a question; nil if the message is no question.
func (s *Service) answer(question []byte) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil || m.Response || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.RCode = true, true, dnsmessage.RCodeSuccess
	m.Answers, m.Authorities, m.Additionals = nil, nil, nil
	address, known := s.lookUp(strings.ToLower(strings.TrimSuffix(q.Name.String(), ".")))
	switch {
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA && address.Is4():
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 5}, Body: &dnsmessage.AResource{A: address.As4()},
		}}
	}
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}

func (s *Service) lookUp(name string) (netip.Addr, bool) {
	switch {
	case name == "kubernetes.default.svc."+clusterDomain && s.REST != nil:
		host, err := url.Parse(s.REST.Host)
		if err != nil {
			return netip.Addr{}, false
		}
		address, err := netip.ParseAddr(host.Hostname())
		return address, err == nil
	case strings.HasSuffix(name, "."+clusterDomain), !strings.Contains(name, "."), strings.HasSuffix(name, ".svc"), strings.HasSuffix(name, ".invalid"):
		return netip.Addr{}, false
	default:
		return netip.AddrFrom4([4]byte{192, 0, 2, 1}), true // TEST-NET-1: never reachable
	}
}
