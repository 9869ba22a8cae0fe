//go:build machines

package real

import (
	"encoding/hex"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// lease is the DHCP server's record of a machine.
type lease struct {
	// ClientID is option 61 in hex. Servers identify machines by this option (RFC 2131, 4.2), not by the MAC
	// address. A machine with a foreign ID gets the foreign address.
	ClientID string
	Address  string
	// Hostname is option 12: the name that a server adds to DNS.
	Hostname string
}

// DUID returns the client ID without its type and the number of the network card. systemd derives the number from
// the MAC address if the card has no name by its slot (RFC 4361, 6.1). Empty for other formats.
func (l lease) DUID() string {
	if len(l.ClientID) <= 10 || !strings.HasPrefix(l.ClientID, "ff") {
		return ""
	}
	return l.ClientID[10:]
}

// dhcpServer assigns an address to each client ID, as servers of clouds and sites do.
type dhcpServer struct {
	base net.IP
	// router makes the host the default gateway, because a kubelet reads its own address from the default route.
	router bool

	mu     sync.Mutex
	byID   map[string]byte
	leases map[string]lease // by MAC address
}

func serveDHCP(t *testing.T, device, address string) *dhcpServer {
	t.Helper()
	s := &dhcpServer{base: net.ParseIP(address).To4(), byID: map[string]byte{}, leases: map[string]lease{}}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = errors.Join(
				os.NewSyscallError("bind to "+device, syscall.BindToDevice(int(fd), device)),
				os.NewSyscallError("allow broadcasts", syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_BROADCAST, 1)),
			)
		})
		return errors.Join(err, failed)
	}}
	conn, err := config.ListenPacket(t.Context(), "udp4", "0.0.0.0:67")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		packet := make([]byte, 2048)
		for {
			n, _, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			if reply := s.answer(packet[:n]); reply != nil {
				// A lost answer is asked for again.
				_, _ = conn.WriteTo(reply, &net.UDPAddr{IP: net.IPv4bcast, Port: 68})
			}
		}
	}()
	return s
}

// The used options and messages of RFC 2132.
const (
	optionMask, optionRouter, optionHostname = 1, 3, 12
	optionLease, optionType                  = 51, 53
	optionServer, optionClientID, optionEnd  = 54, 61, 255
	discover, offer, request, ack            = 1, 2, 3, 5
)

// answer returns the response to a message, or nil.
func (s *dhcpServer) answer(packet []byte) []byte {
	if len(packet) < 244 || packet[0] != 1 {
		return nil
	}
	options := parseOptions(packet[240:])
	if len(options[optionType]) != 1 {
		return nil
	}
	kind := map[byte]byte{discover: offer, request: ack}[options[optionType][0]]
	if kind == 0 {
		return nil
	}
	address := s.addressFor(net.HardwareAddr(packet[28:34]).String(), options)
	reply := make([]byte, 240, 300)
	copy(reply, packet[:44])
	reply[0] = 2
	copy(reply[16:20], address)
	copy(reply[20:24], s.base)
	copy(reply[236:240], packet[236:240])
	reply = append(reply, optionType, 1, kind, optionServer, 4)
	reply = append(reply, s.base...)
	if s.router {
		reply = append(append(reply, optionRouter, 4), s.base...)
	}
	return append(reply, optionLease, 4, 0, 0, 0x0e, 0x10, optionMask, 4, 255, 255, 255, 0, optionEnd)
}

func (s *dhcpServer) addressFor(mac string, options map[byte][]byte) net.IP {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := hex.EncodeToString(options[optionClientID])
	key := id
	if key == "" {
		key = mac
	}
	if s.byID[key] == 0 {
		s.byID[key] = byte(10 + len(s.byID))
	}
	address := net.IPv4(s.base[0], s.base[1], s.base[2], s.byID[key]).To4()
	s.leases[mac] = lease{ClientID: id, Address: address.String(), Hostname: string(options[optionHostname])}
	return address
}

func parseOptions(raw []byte) map[byte][]byte {
	options := map[byte][]byte{}
	for len(raw) > 1 && raw[0] != optionEnd {
		if raw[0] == 0 {
			raw = raw[1:]
			continue
		}
		length := int(raw[1])
		if len(raw) < 2+length {
			break
		}
		options[raw[0]] = append([]byte{}, raw[2:2+length]...)
		raw = raw[2+length:]
	}
	return options
}

// leaseOf waits for the machine's request for an address, and returns the values of the request.
func (l *lab) leaseOf(t *testing.T, m *machine) lease {
	t.Helper()
	var found lease
	await(t, m.name+" to get an address", func() bool {
		l.dhcp.mu.Lock()
		defer l.dhcp.mu.Unlock()
		found = l.dhcp.leases[m.mac]
		return found.Address != ""
	})
	await(t, m.name+" to take its address", func() bool {
		out, err := m.try("ip -4 -o addr show")
		return err == nil && strings.Contains(out, found.Address+"/")
	})
	return found
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, p, err := net.SplitHostPort(address)
	if _, bad := strconv.Atoi(p); err != nil || bad != nil {
		t.Fatalf("no port in %q", address)
	}
	return p
}
