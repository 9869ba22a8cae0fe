// Package probe measures from inside a pod what the pods of its node reach: a pod of another node and the way back, a
// Service, and names. It says what it found, and judges nothing.
package probe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// Port on which pods that measure each other listen.
const Port = 10777

// Subject is what is measured.
type Subject string

const (
	// Pod: a pod of another node is reached.
	Pod Subject = "pod"
	// Back: that pod reaches this one.
	Back Subject = "back"
	// Service: the ClusterIP of the API server is reached.
	Service Subject = "service"
	// Inside: the name of a Service is found.
	Inside Subject = "inside"
	// Outside: a name that is none of the cluster's is found.
	Outside Subject = "outside"
)

// Finding is one measurement. Says is why it did not work; empty if it did.
type Finding struct {
	Subject Subject `json:"subject"`
	Says    string  `json:"says,omitempty"`
}

// Report is what a pod found. It is its termination message, of at most 4,096 bytes.
type Report struct {
	Findings []Finding `json:"findings,omitempty"`
	// Digest of the manifest on the node's disk, as sha256:HEX; empty if nobody asked for it, or Unread says why there is none.
	Digest string `json:"digest,omitempty"`
	Unread string `json:"unread,omitempty"`
}

// mostSaid of one thing, in bytes: what a report says of everything fits into a termination message.
const mostSaid = 250

// mostManifest that is read, in bytes.
const mostManifest = 64 << 20

// Options are what is asked for. What is empty is not measured.
type Options struct {
	// Listen is this pod's own address, on which it listens. Without one no pod is measured.
	Listen string
	// Serve answers until the context ends, and measures nothing.
	Serve bool
	// Peer is the address of a pod that serves, and Key what the two know each other by.
	Peer, Key string
	// Service is the API server's as HOST:PORT.
	Service string
	// Inside and Outside are names to find, by the servers of Resolver, which is a resolv.conf.
	Inside, Outside, Resolver string
	// Manifest is the file whose digest is told.
	Manifest string
	// Patience is how long each thing is tried for; a minute if zero. Port is probe.Port if zero.
	Patience time.Duration
	Port     int
}

const (
	patience = time.Minute
	// oneTry of a measurement, and the pause behind one that did not work.
	oneTry = 5 * time.Second
	pause  = time.Second
)

// Run measures, or serves. An error says that nothing could be measured, which is no finding.
func (o Options) Run(ctx context.Context) (*Report, error) {
	o.Patience, o.Port = cmp.Or(o.Patience, patience), cmp.Or(o.Port, Port)
	if o.Listen == "" && (o.Serve || o.Peer != "") {
		return nil, errors.New("to measure pods, this one must know its own address: give --listen")
	}
	if (o.Serve || o.Peer != "") && o.Key == "" {
		return nil, errors.New("pods that measure each other need a key: give --key")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var served sync.WaitGroup
	defer served.Wait()
	defer cancel()
	listening := error(nil)
	if o.Listen != "" {
		s := &server{key: o.Key, port: o.Port}
		// Who cannot listen on its own address has something to tell, unless it is here for nothing else.
		if listening = s.listen(ctx, o.Listen); listening == nil {
			served.Go(func() { s.serve(ctx) })
		}
	}
	if o.Serve {
		if listening == nil {
			<-ctx.Done()
		}
		return &Report{}, listening
	}
	return o.measure(ctx, listening), nil
}

// measure everything at once, and give it in one order.
func (o Options) measure(ctx context.Context, listening error) *Report {
	back := make(chan error, 1)
	measures := []struct {
		subject Subject
		asked   bool
		try     func(context.Context) error
	}{
		{Pod, o.Peer != "", func(ctx context.Context) error {
			returned, err := reach(ctx, o.address(o.Peer), o.Key, o.Listen)
			if err == nil {
				back <- cmp.Or(listening, returned)
			}
			return err
		}},
		{Service, o.Service != "", func(ctx context.Context) error { return connect(ctx, o.Service) }},
		{Inside, o.Inside != "", func(ctx context.Context) error { return find(ctx, o.Resolver, o.Inside, true) }},
		{Outside, o.Outside != "", func(ctx context.Context) error { return find(ctx, o.Resolver, o.Outside, false) }},
	}
	results := make([]error, len(measures))
	var returned error
	var all sync.WaitGroup
	for i, m := range measures {
		if !m.asked {
			continue
		}
		all.Go(func() {
			results[i] = o.patiently(ctx, m.try)
			if m.subject == Pod && results[i] == nil {
				returned = o.comeBack(ctx, back, m.try)
			}
		})
	}
	r := &Report{}
	if o.Manifest != "" {
		r.Digest, r.Unread = digest(o.Manifest)
	}
	all.Wait()
	for i, m := range measures {
		if m.asked {
			r.Findings = append(r.Findings, Finding{m.subject, said(results[i])})
		}
		if m.subject == Pod && m.asked && results[i] == nil {
			r.Findings = append(r.Findings, Finding{Back, said(returned)})
		}
	}
	return r
}

// comeBack is what the last answer said of the way back, which is tried for as long as anything else.
func (o Options) comeBack(ctx context.Context, back chan error, again func(context.Context) error) error {
	first := <-back
	if first == nil {
		return nil
	}
	return o.patiently(ctx, func(ctx context.Context) error {
		if err := again(ctx); err != nil {
			return err
		}
		return <-back
	})
}

func (o Options) address(host string) string { return net.JoinHostPort(host, fmt.Sprint(o.Port)) }

// patiently tries until it works or the patience is at an end, and gives the last error, but that of a try which had no
// time left says less than one before it.
func (o Options) patiently(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, o.Patience)
	defer cancel()
	var last error
	for {
		one, end := context.WithTimeout(ctx, min(oneTry, o.Patience))
		err := try(one)
		end()
		if err == nil {
			return nil
		}
		var timed net.Error
		if last == nil || !errors.As(err, &timed) || !timed.Timeout() {
			last = err
		}
		timer := time.NewTimer(min(pause, o.Patience/4))
		select {
		case <-ctx.Done():
			timer.Stop()
			return last
		case <-timer.C:
		}
	}
}

func connect(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// said is an error as a report has it.
func said(err error) string {
	if err == nil {
		return ""
	}
	text := printable(strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\n", "; "), "?"))
	if len(text) > mostSaid {
		text = strings.ToValidUTF8(text[:mostSaid], "")
	}
	return cmp.Or(text, "it did not work")
}

// digest of a file, or why there is none.
func digest(path string) (sum, why string) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return "", said(err)
	case !info.Mode().IsRegular() || info.Size() > mostManifest:
		return "", path + " is no manifest"
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", said(err)
	}
	of := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(of[:]), ""
}

// Leave writes the report where the kubelet takes a container's termination message from.
func (r *Report) Leave(path string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600) //nolint:gosec // the path is the engine's own argument
}

// mostRead of a termination message, in bytes: the API takes no more.
const mostRead = 4096

// Read a termination message. One that is no report is an error, and so is one that says more than was ever asked.
func Read(message string) (*Report, error) {
	if len(message) > mostRead {
		return nil, fmt.Errorf("the report has %d bytes", len(message))
	}
	d := json.NewDecoder(strings.NewReader(message))
	d.DisallowUnknownFields()
	r := &Report{}
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("it is no report: %w", err)
	}
	if d.More() {
		return nil, errors.New("it is no report: something stands behind it")
	}
	seen := map[Subject]bool{}
	for i, f := range r.Findings {
		switch f.Subject {
		case Pod, Back, Service, Inside, Outside:
		default:
			return nil, fmt.Errorf("the report speaks of %q", f.Subject)
		}
		if seen[f.Subject] {
			return nil, fmt.Errorf("the report speaks twice of %s", f.Subject)
		}
		seen[f.Subject] = true
		r.Findings[i].Says = printable(f.Says)
	}
	r.Unread = printable(r.Unread)
	return r, nil
}

// printable is a text without what moves a terminal's cursor.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return ' '
		}
		return c
	}, text)
}

// Bind the options to the flags by which Args gives them.
func (o *Options) Bind(text func(value *string, name, standard, usage string)) {
	for _, flag := range o.flags() {
		text(flag.value, flag.name, "", flag.usage)
	}
}

// Args are the options as arguments.
func (o Options) Args() []string {
	args := []string{"probe"}
	if o.Serve {
		args = append(args, "--serve")
	}
	for _, flag := range o.flags() {
		if *flag.value != "" {
			args = append(args, "--"+flag.name+"="+*flag.value)
		}
	}
	return args
}

type option struct {
	value       *string
	name, usage string
}

// flags are the options that a pod is given as arguments. The Service's address it has from its environment.
func (o *Options) flags() []option {
	return []option{
		{&o.Listen, "listen", "address of this pod"}, {&o.Peer, "peer", "address of the other pod"},
		{&o.Key, "key", "shared key of the two pods"}, {&o.Inside, "inside", "name of a Service to resolve"},
		{&o.Outside, "outside", "name outside the cluster to resolve"}, {&o.Resolver, "resolver", "path of resolv.conf"},
		{&o.Manifest, "manifest", "file whose digest is reported"},
	}
}
