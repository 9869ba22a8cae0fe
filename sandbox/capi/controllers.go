package capi

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/sandbox/authority"
)

// Options of the controllers.
type Options struct {
	// Bin is the directory of `make clusterapi` with the binaries, definitions and webhooks of Cluster API.
	Bin string
	// Config is the management cluster's, with all rights, and Kubeconfig the path of the same for the processes.
	Config     *rest.Config
	Kubeconfig string
	// Dir is where certificates and logs go.
	Dir string
	// Kubeadm starts the kubeadm bootstrap provider as well.
	Kubeadm bool
	// AWS starts the real infrastructure provider for AWS as well; nil if this package imitates the provider.
	AWS *AWSProvider
}

// AWSProvider is the real infrastructure provider for AWS.
type AWSProvider struct {
	// Bin is the directory of `make clusterapi-aws` with the binary, definitions and webhooks of the provider.
	Bin string
	// Env are the variables with the endpoint and the credentials of the cloud.
	Env []string
}

// Controllers are Cluster API's, at work on a management cluster.
type Controllers struct {
	processes []*process
}

// manager is a binary of Cluster API or of a provider.
type manager struct {
	// bin is the directory of the binary and of its webhooks.
	bin, binary, webhooks string
	flags, env            []string
}

// awsGates are the feature gates of the provider for AWS. Kamino needs Machines for the nodes of machine pools.
const awsGates = "--feature-gates=EKS=false,MachinePool=true,MachinePoolMachines=true"

// managers returns the managers that the options start.
func (o Options) managers() []manager {
	all := []manager{{bin: o.Bin, binary: "core", webhooks: "core.yaml", flags: []string{"--feature-gates=ClusterTopology=true,MachinePool=true"}}}
	if o.Kubeadm {
		all = append(all, manager{bin: o.Bin, binary: "kubeadm", webhooks: "kubeadm.yaml"})
	}
	if o.AWS != nil {
		all = append(all, manager{bin: o.AWS.Bin, binary: "provider", webhooks: "aws.yaml", flags: []string{awsGates}, env: o.AWS.Env})
	}
	return all
}

// Start installs the definitions and the webhooks, and runs the controllers until Stop. Start returns when the
// controllers answer.
func Start(ctx context.Context, o Options) (*Controllers, error) {
	managers := o.managers()
	serving, err := authority.Open(filepath.Join(o.Dir, "certs"))
	if err != nil {
		return nil, err
	}
	// The provider for AWS has no flags for the names of the files.
	pair, err := serving.Issue("tls", authority.Subject{Name: "webhook", Hosts: []string{"127.0.0.1"}})
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(2 * len(managers))
	if err != nil {
		return nil, err
	}
	addresses := map[string]string{}
	for i, m := range managers {
		addresses[filepath.Join(m.bin, "webhooks", m.webhooks)] = local(ports[2*i])
	}
	if err := install(ctx, o, addresses, serving.CertPEM()); err != nil {
		return nil, err
	}
	c := &Controllers{}
	for i, m := range managers {
		if err := c.start(o, m, pair, ports[2*i], ports[2*i+1]); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	for _, p := range c.processes {
		if err := p.ready(ctx); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	return c, nil
}

// process is a running manager.
type process struct {
	name, webhook, health string
	log                   string
	command               *exec.Cmd
	ended                 chan error
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (c *Controllers) start(o Options, m manager, pair authority.Pair, webhook, health int) error {
	p := &process{name: m.binary, webhook: local(webhook), health: local(health), log: filepath.Join(o.Dir, "clusterapi-"+m.binary+".log"),
		ended: make(chan error, 1)}
	out, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer out.Close()
	p.command = exec.Command(filepath.Join(m.bin, m.binary), append([]string{
		"--kubeconfig", o.Kubeconfig, "--webhook-port", strconv.Itoa(webhook), "--webhook-cert-dir", filepath.Dir(pair.CertFile),
		"--health-addr", p.health, "--diagnostics-address", "127.0.0.1:0", "--insecure-diagnostics",
	}, m.flags...)...)
	p.command.Env = append(os.Environ(), m.env...)
	p.command.Stdout, p.command.Stderr = out, out
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.command.Start(); err != nil {
		return fmt.Errorf("start Cluster API's %s (`make clusterapi clusterapi-aws` builds it): %w", m.binary, err)
	}
	go func() { p.ended <- p.command.Wait() }()
	c.processes = append(c.processes, p)
	return nil
}

// ready waits until a manager and its webhooks respond.
func (p *process) ready(ctx context.Context) error {
	client := &http.Client{Timeout: 2 * time.Second}
	for {
		answer, err := client.Get("http://" + p.health + "/readyz") //nolint:noctx // it has a timeout
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK && p.serves() {
				return nil
			}
		}
		select {
		case err := <-p.ended:
			p.ended <- err
			return fmt.Errorf("manager %s of Cluster API has ended (see %s): %w: %s", p.name, p.log, err, p.lastLine())
		case <-ctx.Done():
			return fmt.Errorf("manager %s of Cluster API is not ready (see %s): %w", p.name, p.log, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// lastLine of the log.
func (p *process) lastLine() string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	return string(lines[len(lines)-1])
}

// LogLines returns the last log lines of the managers that contain a text, up to a number.
func (c *Controllers) LogLines(about string, most int) (lines []string) {
	for _, p := range c.processes {
		content, err := os.ReadFile(p.log)
		if err != nil {
			lines = append(lines, err.Error())
			continue
		}
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, about) {
				lines = append(lines, p.name+": "+strings.TrimSpace(line))
			}
		}
	}
	return lines[max(0, len(lines)-most):]
}

// serves reports whether the webhooks accept connections.
func (p *process) serves() bool {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Second}, Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // nothing is sent
	conn, err := dialer.Dial("tcp", p.webhook)                                                                         //nolint:noctx // it has a timeout
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// Stop stops the controllers, and reports controllers that ended before.
func (c *Controllers) Stop() error {
	var errs []error
	for _, p := range c.processes {
		select {
		case err := <-p.ended:
			errs = append(errs, fmt.Errorf("manager %s of Cluster API had ended (see %s): %w", p.name, p.log, err))
			continue
		default:
		}
		_ = p.command.Process.Kill()
		<-p.ended //nolint:errcheck // it was killed
	}
	c.processes = nil
	return errors.Join(errs...)
}

// freePorts are free ports.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
