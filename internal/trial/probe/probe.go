// Package probe measures, inside a pod, the network of the pods of a node: another node's pod in both directions, a
// Service, and names. The package reports findings and judges nothing.
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

// Port is the port of pods that measure each other.
const Port = 10777

// Connection is a measured connection.
type Connection string

const (
	// Pod: this pod reaches a pod of another node.
	Pod Connection = "pod"
	// Back: the other pod reaches this pod.
	Back Connection = "back"
	// Service: this pod reaches the ClusterIP of the API server.
	Service Connection = "service"
	// Inside: the resolver finds the name of a Service.
	Inside Connection = "inside"
)

// Finding is one measurement. Says is the reason of a failure; empty after a success.
type Finding struct {
	Subject Connection `json:"subject"`
	Says    string     `json:"message,omitempty"`
}

// Report holds a pod's findings. The pod's termination message holds the Report, in at most 4,096 bytes.
type Report struct {
	Findings []Finding `json:"findings,omitempty"`
	// Digest of the manifest on the node's disk, as sha256:HEX; empty without a request. Unread is the error of the read.
	Digest string `json:"digest,omitempty"`
	Unread string `json:"readError,omitempty"`
	// Machine is the measurement of the node; nil without a request.
	Machine *Machine `json:"machine,omitempty"`
}

// maxSays limits one finding, in bytes, so that a report fits into a termination message.
const maxSays = 250

// maxManifest limits the size of a manifest, in bytes.
const maxManifest = 64 << 20

// Options select the measurements. Empty fields select none.
type Options struct {
	// Listen is the address of this pod, on which the pod listens. Without Listen, Run measures no pod.
	Listen string
	// Serve answers until the context ends, and measures nothing.
	Serve bool
	// Peer is the address of a serving pod, and Key the shared key of the two pods.
	Peer, Key string
	// Service is the API server as HOST:PORT.
	Service string
	// Inside is a name to find with the servers of Resolver, the path of a resolv.conf.
	Inside, Resolver string
	// Manifest is the file for the reported digest.
	Manifest string
	// Scratch is a directory on the node's disk, for the measurement of the node.
	Scratch string
	// Patience limits each measurement; zero means a minute. Port zero means probe.Port.
	Patience time.Duration
	Port     int
}

const (
	timeout = time.Minute
	// tryTimeout limits a try, and pause is the time after a failed try.
	tryTimeout = 5 * time.Second
	pause      = time.Second
)

// Run measures or serves. An error means that no measurement was possible; a failed measurement is a finding.
func (o Options) Run(ctx context.Context) (*Report, error) {
	o.Patience, o.Port = cmp.Or(o.Patience, timeout), cmp.Or(o.Port, Port)
	if o.Listen == "" && (o.Serve || o.Peer != "") {
		return nil, errors.New("a pod needs its own address to measure pods: pass --listen")
	}
	if (o.Serve || o.Peer != "") && o.Key == "" {
		return nil, errors.New("a measurement between pods needs a key: pass --key")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var served sync.WaitGroup
	defer served.Wait()
	defer cancel()
	listening := error(nil)
	if o.Listen != "" {
		s := &server{key: o.Key, port: o.Port}
		// If the pod cannot listen on its address, the other measurements still run, unless the pod only serves.
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

// measure runs all measurements concurrently, and reports the findings in a fixed order.
func (o Options) measure(ctx context.Context, listening error) *Report {
	back := make(chan error, 1)
	measures := []struct {
		subject Connection
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
		{Inside, o.Inside != "", func(ctx context.Context) error { _, err := find(ctx, o.Resolver, o.Inside); return err }},
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
				returned = o.returnPath(ctx, back, m.try)
			}
		})
	}
	r := &Report{}
	if o.Manifest != "" {
		r.Digest, r.Unread = digest(o.Manifest)
	}
	all.Wait()
	if o.Scratch != "" { // connections need the processor, too
		r.Machine = machine(ctx, o.Scratch)
	}
	for i, m := range measures {
		if m.asked {
			r.Findings = append(r.Findings, Finding{m.subject, message(results[i])})
		}
		if m.subject == Pod && m.asked && results[i] == nil {
			r.Findings = append(r.Findings, Finding{Back, message(returned)})
		}
	}
	return r
}

// returnPath returns the last error of the way back, with the same time limit as other measurements.
func (o Options) returnPath(ctx context.Context, back chan error, again func(context.Context) error) error {
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

// patiently tries until a success or the end of the patience, and returns the last error. A timeout does not replace an
// earlier error, because the earlier error says more.
func (o Options) patiently(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, o.Patience)
	defer cancel()
	var last error
	for {
		one, end := context.WithTimeout(ctx, min(tryTimeout, o.Patience))
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

// message is an error in the form of a report.
func message(err error) string {
	if err == nil {
		return ""
	}
	text := printable(strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\n", "; "), "?"))
	if len(text) > maxSays {
		text = strings.ToValidUTF8(text[:maxSays], "")
	}
	return cmp.Or(text, "failed without a message")
}

// digest returns the digest of a file, or the error.
func digest(path string) (sum, why string) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return "", message(err)
	case !info.Mode().IsRegular() || info.Size() > maxManifest:
		return "", path + " is no manifest"
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", message(err)
	}
	of := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(of[:]), ""
}

// Leave writes the report to the path of the container's termination message.
func (r *Report) Leave(path string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600) //nolint:gosec // the path is the engine's own argument
}

// maxRead limits a termination message, in bytes: the API's limit.
const maxRead = 4096

// Read parses a termination message. An invalid report or an unknown or repeated subject is an error.
func Read(message string) (*Report, error) {
	if len(message) > maxRead {
		return nil, fmt.Errorf("the report has %d bytes", len(message))
	}
	d := json.NewDecoder(strings.NewReader(message))
	d.DisallowUnknownFields()
	r := &Report{}
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("not a report: %w", err)
	}
	if d.More() {
		return nil, errors.New("not a report: data follows the report")
	}
	seen := map[Connection]bool{}
	for i, f := range r.Findings {
		switch f.Subject {
		case Pod, Back, Service, Inside:
		default:
			return nil, fmt.Errorf("the report has the unknown subject %q", f.Subject)
		}
		if seen[f.Subject] {
			return nil, fmt.Errorf("the report repeats %s", f.Subject)
		}
		seen[f.Subject] = true
		r.Findings[i].Says = printable(f.Says)
	}
	r.Unread = printable(r.Unread)
	if r.Machine != nil {
		r.Machine.Says = printable(r.Machine.Says)
	}
	return r, nil
}

// printable replaces control characters, which would move a terminal's cursor.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return ' '
		}
		return c
	}, text)
}

// Bind binds the options to the flags that Args writes.
func (o *Options) Bind(text func(value *string, name, standard, usage string)) {
	for _, flag := range o.flags() {
		text(flag.value, flag.name, "", flag.usage)
	}
}

// Args returns the options as arguments.
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

// flags are the options that a pod gets as arguments. The pod reads the Service's address from its environment.
func (o *Options) flags() []option {
	return []option{
		{&o.Listen, "listen", "address of this pod"}, {&o.Peer, "peer", "address of the peer pod"},
		{&o.Key, "key", "shared key of the two pods"}, {&o.Inside, "inside", "name of a Service to resolve"},
		{&o.Resolver, "resolver", "path of resolv.conf"},
		{&o.Scratch, "scratch", "directory for a measurement of the node"},
		{&o.Manifest, "manifest", "file whose digest is reported"},
	}
}
