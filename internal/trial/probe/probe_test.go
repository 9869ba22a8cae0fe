package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"
)

const key = "k-1"

// Addresses of the pods in a test, each of its own network card.
const here, there = "127.81.0.1", "127.81.0.2"

// freePort is a free port on both addresses.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(there, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// serve runs an answering pod until the test ends.
func serve(t *testing.T, o Options) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := o.Run(ctx)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	address := net.JoinHostPort(o.Listen, fmt.Sprint(o.Port))
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		err := connect(t.Context(), address)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the probe does not listen: %v", err)
		}
	}
}

// found is the result for each subject, "ok" for a success.
func found(t *testing.T, r *Report) map[Connection]string {
	t.Helper()
	all := map[Connection]string{}
	for _, f := range r.Findings {
		all[f.Subject] = f.Says
		if f.Says == "" {
			all[f.Subject] = "ok"
		}
	}
	return all
}

func run(t *testing.T, o Options) map[Connection]string {
	t.Helper()
	if o.Patience == 0 {
		o.Patience = time.Second
	}
	r, err := o.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found(t, r)
}

func TestPodsReachEachOther(t *testing.T) {
	port := freePort(t)
	serve(t, Options{Listen: there, Serve: true, Key: key, Port: port})
	want := map[Connection]string{Pod: "ok", Back: "ok", Service: "ok"}
	got := run(t, Options{Listen: here, Peer: there, Key: key, Port: port, Service: net.JoinHostPort(there, fmt.Sprint(port))})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// No answer, an answer without the key, or changed data: a pod is never reached.
func TestAPodThatIsNotReached(t *testing.T) {
	for name, test := range map[string]struct {
		there func(*testing.T, int)
		says  string
	}{
		"no listener":   {func(*testing.T, int) {}, "refused"},
		"another's key": {func(t *testing.T, port int) { serve(t, Options{Listen: there, Serve: true, Key: "k-2", Port: port}) }, "no answer"},
		"a changed payload": {func(t *testing.T, port int) {
			answer(t, port, func(conn net.Conn) { _, _ = fmt.Fprintln(conn, strings.Repeat("0", 64)) })
		}, "other data"},
		"small packets only": {func(t *testing.T, port int) { answer(t, port, func(net.Conn) {}) }, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			test.there(t, port)
			got := run(t, Options{Listen: here, Peer: there, Key: key, Port: port, Service: net.JoinHostPort(there, "1")})
			if _, reported := got[Back]; reported || !strings.Contains(got[Pod], test.says) || !strings.Contains(got[Service], "refused") {
				t.Errorf("%v, want %q", got, test.says)
			}
		})
	}
}

// answer listens in place of the peer pod.
func answer(t *testing.T, port int, say func(net.Conn)) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(there, fmt.Sprint(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 100))
			say(conn)
			_ = conn.Close()
		}
	}()
}

// The way to the peer works, but not the way back: the pod listens on another address than its own.
func TestReturnPath(t *testing.T) {
	port := freePort(t)
	serve(t, Options{Listen: there, Serve: true, Key: key, Port: port})
	o := Options{Listen: "192.0.2.1", Peer: there, Key: key, Port: port} // TEST-NET-1: no host has it
	got := run(t, o)
	if got[Pod] != "ok" || !strings.Contains(got[Back], "192.0.2.1") {
		t.Errorf("%v", got)
	}
}

// A server connects back only to pods with the key, and only to its own port.
func TestServerConnectsOnlyWithKey(t *testing.T) {
	port := freePort(t)
	serve(t, Options{Listen: there, Serve: true, Key: key, Port: port})
	var called atomic.Int32
	l, err := net.Listen("tcp", net.JoinHostPort(here, fmt.Sprint(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			called.Add(1)
			_ = conn.Close()
		}
	}()
	address := net.JoinHostPort(there, fmt.Sprint(port))
	for _, header := range []string{"k-2 " + here, " " + here, key + " " + here + ":22", key + " example.com", strings.Repeat("x", 1000)} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "%s %s\n", magic, header)
		_, _ = conn.Write(make([]byte, payload))
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		buffer := make([]byte, 1<<10)
		for err == nil {
			var n int
			n, err = conn.Read(buffer)
			if strings.Contains(string(buffer[:n]), "ok") {
				t.Errorf("%q was served", header)
			}
		}
		_ = conn.Close()
	}
	if called.Load() != 0 {
		t.Errorf("it came back %d times", called.Load())
	}
	if _, err := reach(t.Context(), address, key, here); err != nil || called.Load() == 0 {
		t.Errorf("who knows the key is not served: %v, %d", err, called.Load())
	}
}

// nameserver knows the given names, with the address there.
func nameserver(t *testing.T, names ...string) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", net.JoinHostPort(there, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for buffer := make([]byte, 1<<10); ; {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil {
				continue
			}
			m.Response, m.RCode, m.Additionals = true, dnsmessage.RCodeNameError, nil
			for _, name := range names {
				if q := m.Questions[0]; q.Name.String() == name {
					m.RCode = dnsmessage.RCodeSuccess
					if q.Type == dnsmessage.TypeA {
						m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1},
							Body: &dnsmessage.AResource{A: [4]byte{127, 81, 0, 2}}}}
					}
				}
			}
			if packed, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(packed, from)
			}
		}
	}()
	file := filepath.Join(t.TempDir(), "resolv.conf")
	text := "# the cluster's\nsearch kamino-system.svc.example.org svc.example.org example.org\nnameserver " + conn.LocalAddr().String() + "\noptions ndots:5\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestNames(t *testing.T) {
	const inside = "kubernetes.default.svc"
	for name, test := range map[string]struct {
		known  []string
		inside string
	}{
		"with a search domain": {[]string{inside + ".example.org."}, "ok"},
		"another name":         {[]string{"registry.example.com."}, "no such host"},
		"absolute":             {[]string{inside + "."}, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, Options{Inside: inside, Resolver: nameserver(t, test.known...)})
			if !strings.Contains(got[Inside], test.inside) {
				t.Errorf("%v", got)
			}
		})
	}
	if got := run(t, Options{Inside: inside, Resolver: filepath.Join(t.TempDir(), "none")}); !strings.Contains(got[Inside], "no such file") {
		t.Errorf("%v", got)
	}
}

func TestResolvConf(t *testing.T) {
	servers, domains := resolvConf("domain a\nsearch b c\nnameserver 10.0.0.10\nnameserver fd00::a\nnameserver 127.0.0.1:5353\nnameserver\n")
	if diff := cmp.Diff([][]string{{"10.0.0.10:53", "[fd00::a]:53", "127.0.0.1:5353"}, {"b", "c"}}, [][]string{servers, domains}); diff != "" {
		t.Error(diff)
	}
}

func TestTheManifestsDigest(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "generalize.json"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("abc"), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file: "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", link: "", dir: "", filepath.Join(dir, "none"): "",
	} {
		r, err := Options{Manifest: path}.Run(t.Context())
		if err != nil || r.Digest != want || (r.Unread == "") != (want != "") || len(r.Findings) > 0 {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
	}
}

// A missing measurement is an error, not a finding about the network.
func TestMissingMeasurement(t *testing.T) {
	for name, o := range map[string]Options{
		"no address":       {Peer: there, Key: key},
		"no key":           {Peer: there, Listen: here},
		"no key to serve":  {Serve: true, Listen: here},
		"no place to be":   {Serve: true, Listen: "192.0.2.1", Key: key},
		"nothing to serve": {Serve: true, Key: key},
	} {
		if r, err := o.Run(t.Context()); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestReports(t *testing.T) {
	full := &Report{Digest: "sha256:" + strings.Repeat("a", 64), Unread: message(errors.New(strings.Repeat(`"`, 999)))}
	full.Machine = &Machine{SyncMillis: 1, Hashes: 1 << 40, OpenFiles: 1 << 40, Says: message(errors.New(strings.Repeat(`"`, 999)))}
	for _, s := range []Connection{Pod, Back, Service, Inside} {
		full.Findings = append(full.Findings, Finding{s, message(errors.New(strings.Repeat(`"`, 999)))})
	}
	file := filepath.Join(t.TempDir(), "termination-log")
	if err := full.Leave(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full, got); diff != "" {
		t.Error(diff)
	}
	for _, wrong := range []string{
		"", "ok", "[]", `{"verdict":"Passed"}`, `{}{}`, `{"findings":[{"subject":"job"}]}`, `{"findings":[{"subject":"pod"},{"subject":"pod"}]}`,
		`{"digest":"` + strings.Repeat("a", 5000) + `"}`,
	} {
		if r, err := Read(wrong); err == nil {
			t.Errorf("%.40q is read as %+v", wrong, r)
		}
	}
	if r, err := Read(`{"findings":[{"subject":"pod","message":"a\u001b[2Jb"}]}`); err != nil || r.Findings[0].Says != "a [2Jb" {
		t.Errorf("%+v, %v", r, err)
	}
}

// Bind reads the output of Args.
func TestArguments(t *testing.T) {
	o := Options{Listen: here, Peer: there, Key: key, Inside: "i", Resolver: "/r", Manifest: "/m", Scratch: "/s", Serve: true}
	flags := map[string]*string{}
	var back Options
	back.Bind(func(value *string, name, standard, _ string) { *value, flags["--"+name] = standard, value })
	for _, arg := range o.Args()[1:] {
		if arg == "--serve" {
			back.Serve = true
			continue
		}
		name, value, _ := strings.Cut(arg, "=")
		*flags[name] = value
	}
	if diff := cmp.Diff(o, back); diff != "" || o.Args()[0] != "probe" {
		t.Errorf("%v\n%s", o.Args(), diff)
	}
}
