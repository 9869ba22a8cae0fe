package world

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kamino-dev/kamino/sandbox/authority"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
	"github.com/kamino-dev/kamino/sandbox/socket"
)

// startCloud opens the simulated cloud on the state in the directory and serves the cloud over HTTPS. Azure's
// endpoint of managed identities uses HTTP.
func (w *World) startCloud(context.Context) error {
	name := string(w.directory.Cloud)
	ca, err := authority.Open(w.directory.Path("pki"))
	if err != nil {
		return err
	}
	pair, err := ca.Issue(name, authority.Subject{Name: name, Hosts: []string{"127.0.0.1", "localhost"}})
	if err != nil {
		return err
	}
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		return err
	}
	front, err := listen("the simulated cloud", either(w.options.CloudPort, w.directory.CloudPort))
	if err != nil {
		return err
	}
	w.directory.CloudPort, w.servers.Cloud = port(front), "https://"+front.Addr().String()
	config := region.Config{Dir: w.directory.Path(name), Clock: w.clock, Fleet: w.fleet, Facts: w.directory.Identity, Servers: w.servers,
		Certificate: certificate, Record: w.record.cloud}
	if w.directory.Cloud == pool.AWS {
		w.cloud, err = region.NewAWS(config, w.options.AWS)
	} else {
		err = w.startAzure(config)
	}
	if err != nil {
		return errors.Join(err, front.Close())
	}
	w.onStop(func() error { w.cloud.Close(); return nil })
	if err := w.authenticateNodes(); err != nil {
		return err
	}
	w.serve("the simulated cloud", func() error { return w.cloud.Serve(w.ctx, front) })
	w.progress("%s", map[pool.Cloud]string{
		pool.Azure: "simulated Azure: Resource Manager and Entra ID listen on ", pool.AWS: "simulated AWS: EC2, Auto Scaling, STS and IAM listen on ",
	}[w.directory.Cloud]+w.servers.Cloud)
	return nil
}

// startAzure opens Azure, and serves managed identities.
func (w *World) startAzure(config region.Config) error {
	identity, err := listen("the endpoint of managed identities", w.directory.IdentityPort)
	if err != nil {
		return err
	}
	a, err := region.NewAzure(config, w.options.Azure)
	if err != nil {
		return errors.Join(err, identity.Close())
	}
	w.cloud = a
	w.serve("the endpoint of managed identities", func() error { return serveHTTP(w.ctx, identity, a.IdentityHandler()) })
	w.directory.IdentityPort, w.servers.Identity = port(identity), "http://"+identity.Addr().String()
	return nil
}

// startControl listens for the verbs, on a socket in a directory of its own: the path of a socket must be
// short, that of a sandbox need not be.
func (w *World) startControl(context.Context) error {
	dir, err := socket.Dir("kamino-sandbox-")
	if err != nil {
		return err
	}
	name := sandboxdir.SocketFile(w.directory.Dir)
	w.onStop(func() error { return errors.Join(remove(name), os.RemoveAll(dir)) })
	path := filepath.Join(dir, "control")
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	w.serve("the control socket", func() error { return control.Serve(w.ctx, listener, w) })
	return os.WriteFile(name, []byte(path+"\n"), 0o600)
}

func (w *World) writeFiles(context.Context) error {
	if err := w.directory.Save(); err != nil {
		return err
	}
	if err := w.directory.WriteClientFiles(w.servers); err != nil {
		return err
	}
	return w.directory.LinkPrograms(w.options.Binary, "kubectl", "kamino-sandbox")
}

// serve runs a server until the sandbox ends. A server that ends before stops the sandbox.
func (w *World) serve(what string, run func() error) {
	w.serving.Go(func() {
		if err := run(); err != nil && w.ctx.Err() == nil {
			w.lost <- fmt.Errorf("%s ended unexpectedly: %w", what, err)
		}
	})
}

func serveHTTP(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func listen(what string, port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("the port of %s is in use: choose another port, or stop the process that uses the port: %w", what, err)
	}
	return l, nil
}

func port(l net.Listener) int {
	if address, ok := l.Addr().(*net.TCPAddr); ok {
		return address.Port
	}
	return 0
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}
