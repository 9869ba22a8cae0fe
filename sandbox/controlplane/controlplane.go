// Package controlplane runs a real Kubernetes control plane inside the calling process: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler, from their Go modules. The package decides flags, the order of start
// and stop, and the stored data. The control plane has no nodes.
//
// Kubernetes uses package variables. So a process can start a control plane only once, even after a stop.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kamino-dev/kamino/sandbox/authority"
)

// Options of a control plane.
type Options struct {
	// Dir keeps the data of etcd and the log; required.
	Dir string
	// Audit is the directory of the audit log, which belongs to one start; empty means no audit log.
	Audit string
	// Authority signs the certificates of the server and its clients; required.
	Authority *authority.Authority
	// Port of the API server; 0 takes a free port. Pass the port of the first start to keep the address after a
	// restart.
	Port int
	// Join lets nodes join as with kubeadm: with a bootstrap token, after an anonymous read of the public ConfigMap
	// cluster-info. Joined nodes have only the rights of the Node authorizer.
	Join bool
	// JoinAddress is an IP address of this host for real nodes. The API server listens there instead of on 127.0.0.1,
	// lets nodes join, and has a credential for their kubelets. Empty for simulated nodes.
	JoinAddress string
	// Webhook is a kubeconfig file with the authenticator for tokens that the API server does not know. Empty without
	// an authenticator.
	Webhook string
	// NodeGrace is how long a node may be silent before it is not Ready. 0 means 8 s (a real cluster: 40 s). Scale
	// tests without heartbeats need days.
	NodeGrace time.Duration
	// EvictAfter is how long pods stay bound to a node that is not Ready or cannot be reached, unless
	// they say otherwise; 0 means 30 s, where a real cluster has 300. Whole seconds.
	EvictAfter time.Duration
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	authority *authority.Authority
	address   string
	etcd      *embed.Etcd
	sockets   string
	log       *logFile
	parts     []*part
	admin     *rest.Config
	lost      chan error
}

// part is a component that runs until its context ends.
type part struct {
	name string
	stop context.CancelFunc
	done chan struct{}
	err  error
}

var started atomic.Bool

// readyWithin bounds the whole start; it takes about 3 s on an idle machine.
const readyWithin = 2 * time.Minute

// Start starts a control plane and returns once the API server is ready. The default namespace then has its service account,
// without which no pod can be created. After an error nothing runs.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if !started.CompareAndSwap(false, true) {
		return nil, errors.New("this process has already run a control plane: Kubernetes starts only once per process")
	}
	c := &ControlPlane{authority: o.Authority, lost: make(chan error, 4)}
	if err := c.start(ctx, o.withDefaults()); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (o Options) withDefaults() Options {
	if o.NodeGrace == 0 {
		o.NodeGrace = 8 * time.Second
	}
	if o.EvictAfter == 0 {
		o.EvictAfter = 30 * time.Second
	}
	o.Join = o.Join || o.JoinAddress != ""
	return o
}

// address of the API server.
func (o Options) address() string {
	if o.JoinAddress != "" {
		return o.JoinAddress
	}
	return "127.0.0.1"
}

func (c *ControlPlane) start(ctx context.Context, o Options) (err error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	if c.log, err = openLog(filepath.Join(o.Dir, "log")); err != nil {
		return err
	}
	bound, err := net.Listen("tcp", net.JoinHostPort(o.address(), strconv.Itoa(o.Port)))
	if err != nil {
		return fmt.Errorf("the API server's port is in use, choose another port or 0: %w", err)
	}
	listener := newListener(bound)
	c.address = listener.Addr().String()
	endpoint, err := c.startEtcd(ctx, o)
	if err != nil {
		return errors.Join(fmt.Errorf("etcd: %w", err), listener.Close())
	}
	if err := c.startAPIServer(o, listener, endpoint); err != nil {
		return errors.Join(fmt.Errorf("kube-apiserver: %w", err), listener.Close())
	}
	if c.admin, err = c.Config("admin", "system:masters"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := c.awaitReady(ctx); err != nil {
		return err
	}
	if err := c.startControllerManager(o); err != nil {
		return fmt.Errorf("kube-controller-manager: %w", err)
	}
	if err := c.startScheduler(o); err != nil {
		return fmt.Errorf("kube-scheduler: %w", err)
	}
	return c.awaitControllers(ctx)
}

// stopWithin bounds the end of a component. The API server gives a minute to requests.
var stopWithin = 3 * time.Minute

// Stop stops everything in reverse order and returns when nothing runs any more. A second call does nothing. If a component does
// not end, the error names the component, and the log has the stacks of all goroutines.
func (c *ControlPlane) Stop() error {
	for len(c.parts) > 0 {
		last := c.parts[len(c.parts)-1]
		last.stop()
		select {
		case <-last.done:
		case <-time.After(stopWithin):
			return errors.Join(fmt.Errorf("%s did not end within %s of its stop (stacks are at the end of %s)", last.name, stopWithin, c.log.path),
				pprof.Lookup("goroutine").WriteTo(c.log.file, 2), c.log.Close())
		}
		c.parts = c.parts[:len(c.parts)-1]
	}
	if c.etcd != nil {
		countAuditEvents() // some metrics wait half a minute for an etcd that is gone
		c.etcd.Close()
		c.etcd = nil
	}
	return errors.Join(c.removeSockets(), c.log.Close())
}

// Lost delivers the error of a component that ended unexpectedly. Nothing restarts the component: the caller should
// stop the control plane and report the error.
func (c *ControlPlane) Lost() <-chan error { return c.lost }

// URL is the API server's address.
func (c *ControlPlane) URL() string { return "https://" + c.address }

// Port is the API server's port, for the next start.
func (c *ControlPlane) Port() int {
	_, port, _ := net.SplitHostPort(c.address)
	number, _ := strconv.Atoi(port)
	return number
}

// Admin is a client configuration that may do everything. The copy is the caller's.
func (c *ControlPlane) Admin() *rest.Config { return rest.CopyConfig(c.admin) }

// Config issues a client certificate for a user and groups, and returns a client configuration with the certificate.
func (c *ControlPlane) Config(user string, groups ...string) (*rest.Config, error) {
	pair, err := c.authority.Issue("client-"+fileName(user), authority.Subject{Name: user, Groups: groups})
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: c.URL(),
		TLSClientConfig: rest.TLSClientConfig{
			CAData: c.authority.CertPEM(), CertFile: pair.CertFile, KeyFile: pair.KeyFile,
		},
		// The server has priority and fairness; waiting in the client as well only hides it.
		QPS: -1,
	}, nil
}

// Kubeconfig is the content of a self-contained kubeconfig file for a user.
func (c *ControlPlane) Kubeconfig(user string, groups ...string) ([]byte, error) {
	config, err := c.Config(user, groups...)
	if err != nil {
		return nil, err
	}
	cert, err := os.ReadFile(config.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(config.KeyFile)
	if err != nil {
		return nil, err
	}
	const name = "kamino-sandbox"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {ClientCertificateData: cert, ClientKeyData: key}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user}},
		CurrentContext: name,
	})
}

// run starts a component that returns when its context ends, or on an error.
func (c *ControlPlane) run(name string, body func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{name: name, stop: cancel, done: make(chan struct{})}
	c.parts = append(c.parts, p)
	go func() {
		defer close(p.done)
		p.err = body(ctx)
		if ctx.Err() == nil {
			c.lost <- fmt.Errorf("%s ended unexpectedly (see %s): %w", name, c.log.path, p.err)
		}
	}()
}
