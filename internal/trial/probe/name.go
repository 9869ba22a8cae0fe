package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
)

// find asks the servers of a resolv.conf for the addresses of a name. find tries every search domain, because a pod's
// resolver has the cluster's domain and two domains below.
func find(ctx context.Context, resolver, name string) ([]netip.Addr, error) {
	content, err := os.ReadFile(resolver) //nolint:gosec // the path is the engine's own argument
	if err != nil {
		return nil, err
	}
	servers, domains := resolvConf(string(content))
	if len(servers) == 0 {
		return nil, fmt.Errorf("%s names no server", resolver)
	}
	names := []string{strings.TrimSuffix(name, ".") + "."}
	for _, domain := range domains {
		names = append(names, strings.TrimSuffix(name, ".")+"."+strings.Trim(domain, ".")+".")
	}
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var all []error
		for _, server := range servers {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, server)
			if err == nil {
				return conn, nil
			}
			all = append(all, err)
		}
		return nil, errors.Join(all...)
	}}
	var last error
	for _, n := range names {
		if found, err := r.LookupNetIP(ctx, "ip", n); err == nil {
			return found, nil
		} else if last == nil || !notFound(err) {
			last = err
		}
	}
	return nil, last
}

func notFound(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// resolvConf reads the servers of a resolv.conf, with their ports, and the search domains. A server may have a port.
func resolvConf(text string) (servers, domains []string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			server := fields[1]
			if _, _, err := net.SplitHostPort(server); err != nil {
				server = net.JoinHostPort(server, "53")
			}
			servers = append(servers, server)
		case "search", "domain":
			domains = fields[1:]
		}
	}
	return servers, domains
}
