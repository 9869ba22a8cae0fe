package host

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"
)

const manager = "org.freedesktop.systemd1.Manager."

// systemdStub serves the methods that a run needs on a private socket. Units are listed in the order of loading, and
// requests in the order of arrival.
type systemdStub struct {
	mu                sync.Mutex
	active            map[string]bool
	stubborn, refuses map[string]bool
	// stops has what units do when they stop.
	stops map[string]func()
	// watchdog has the services with WatchdogSec, by the path of their object.
	watchdog map[dbus.ObjectPath]bool
	// masked units have a link to /dev/null, loaded since the last reload. vendor has units of the machine that no link replaces.
	masked, loaded, vendor map[string]bool
	requests               []string
	jobs                   uint32
	clients                []*client
}

type client struct {
	conn   net.Conn
	mu     sync.Mutex
	serial uint32
}

func startSystemd(t *testing.T, root string, units ...string) *systemdStub {
	t.Helper()
	s := &systemdStub{active: map[string]bool{}, stubborn: map[string]bool{}, refuses: map[string]bool{}, masked: map[string]bool{}, vendor: map[string]bool{}}
	for _, u := range units {
		s.active[u] = true
	}
	dir := filepath.Join(root, "run/systemd")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/private", d.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(&client{conn: conn})
		}
	}()
	return s
}

func (s *systemdStub) serve(c *client) {
	defer c.conn.Close()
	r := bufio.NewReader(c.conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.Trim(line, "\x00\r\n")
		if line == "BEGIN" {
			break
		}
		answer := "ERROR"
		switch {
		case strings.HasPrefix(line, "AUTH EXTERNAL"):
			answer = "OK 00112233445566778899aabbccddeeff"
		case strings.HasPrefix(line, "AUTH"):
			answer = "REJECTED EXTERNAL"
		}
		fmt.Fprintf(c.conn, "%s\r\n", answer)
	}
	s.mu.Lock()
	s.clients = append(s.clients, c)
	s.mu.Unlock()
	for {
		m, err := dbus.DecodeMessage(r)
		if err != nil {
			return
		}
		s.answer(c, m)
	}
}

type row struct {
	Name, Description, Load, Active, Sub, Followed string
	Path                                           dbus.ObjectPath
	Job                                            uint32
	JobType                                        string
	JobPath                                        dbus.ObjectPath
}

func (s *systemdStub) answer(c *client, m *dbus.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	method, _ := m.Headers[dbus.FieldMember].Value().(string)
	name := ""
	if len(m.Body) > 0 {
		name, _ = m.Body[0].(string)
	}
	switch method {
	case "MaskUnitFiles":
		links, _ := m.Body[0].([]string)
		for _, link := range links {
			s.requests = append(s.requests, fmt.Sprint(method, " ", link, " ", m.Body[1:]))
			s.masked[link] = s.masked[link] || !s.vendor[link]
		}
		c.reply(m, "", []struct{ Kind, Name, To string }{})
	case "Reload":
		s.loaded = maps.Clone(s.masked)
		c.reply(m, "")
	case "Get":
		path, _ := m.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
		if of := map[bool]string{true: "masked", false: "loaded"}; m.Body[1] == "LoadState" {
			c.reply(m, "", dbus.MakeVariant(of[s.loaded[unitOf(path)]]))
			return
		}
		c.reply(m, "", dbus.MakeVariant(map[bool]uint64{true: 180e6}[s.watchdog[path]]))
	case "ListUnits":
		rows := []row{}
		for unit, active := range s.active {
			state := map[bool]string{true: "active", false: "inactive"}[active]
			rows = append(rows, row{Name: unit, Load: "loaded", Active: state, Path: "/u", JobPath: "/"})
		}
		c.reply(m, "", rows)
	case "StopUnit", "StartUnit":
		s.requests = append(s.requests, method+" "+name)
		if s.refuses[name] {
			c.reply(m, refusesStop, "may be requested by dependency only")
			return
		}
		if last := s.stops[name]; last != nil && method == "StopUnit" {
			last()
		}
		if !s.stubborn[name] {
			s.active[name] = method == "StartUnit"
		}
		s.jobs++
		job := dbus.ObjectPath(fmt.Sprintf("/org/freedesktop/systemd1/job/%d", s.jobs))
		c.reply(m, "", job)
		for _, other := range s.clients {
			other.send(&dbus.Message{Type: dbus.TypeSignal, Headers: map[dbus.HeaderField]dbus.Variant{
				dbus.FieldPath:      dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/systemd1")),
				dbus.FieldInterface: dbus.MakeVariant(strings.TrimSuffix(manager, ".")),
				dbus.FieldMember:    dbus.MakeVariant("JobRemoved"),
			}, Body: []any{s.jobs, job, name, "done"}})
		}
	case "KillUnit":
		s.requests = append(s.requests, method+" "+name)
		s.active[name] = false
		c.reply(m, "")
	default:
		c.reply(m, "")
	}
}

// unitOf is the unit of an object's path, for names with letters and dots.
func unitOf(path dbus.ObjectPath) string {
	return strings.NewReplacer("_2e", ".", "_2d", "-").Replace(string(path[strings.LastIndexByte(string(path), '/')+1:]))
}

func (s *systemdStub) requested() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *systemdStub) running() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for unit, active := range s.active {
		if active {
			names = append(names, unit)
		}
	}
	slices.Sort(names)
	return names
}

func (c *client) reply(to *dbus.Message, failure string, body ...any) {
	m := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldReplySerial: dbus.MakeVariant(to.Serial()),
	}, Body: body}
	if failure != "" {
		m.Type = dbus.TypeError
		m.Headers[dbus.FieldErrorName] = dbus.MakeVariant(failure)
	}
	c.send(m)
}

func (c *client) send(m *dbus.Message) {
	if len(m.Body) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(m.Body...))
	}
	var b bytes.Buffer
	if err := m.EncodeTo(&b, binary.LittleEndian); err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The library numbers only the messages of its own connections. The number is the third word.
	c.serial++
	binary.LittleEndian.PutUint32(b.Bytes()[8:], c.serial)
	_, _ = c.conn.Write(b.Bytes())
}
