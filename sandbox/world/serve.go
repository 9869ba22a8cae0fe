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
	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/site"
	"github.com/kamino-dev/kamino/sandbox/socket"
)

// startCloud opens the simulated Azure on the state that the directory holds and serves it: Resource
// Manager and logins over HTTPS, managed identities without.
func (w *World) startCloud(context.Context) error {
	ca, err := authority.Open(w.site.Path("pki"))
	if err != nil {
		return err
	}
	pair, err := ca.Issue("azure", authority.Subject{Name: "azure", Hosts: []string{"127.0.0.1", "localhost"}})
	if err != nil {
		return err
	}
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		return err
	}
	arm, err := listen("the simulated Azure", either(w.options.AzurePort, w.site.AzurePort))
	if err != nil {
		return err
	}
	identity, err := listen("the endpoint of managed identities", w.site.IdentityPort)
	if err != nil {
		return errors.Join(err, arm.Close())
	}
	w.cloud, err = azure.New(w.cloudConfig(certificate))
	if err != nil {
		return errors.Join(err, arm.Close(), identity.Close())
	}
	w.onStop(func() error { w.cloud.Close(); return nil })
	w.serve("the simulated Azure", func() error { return w.cloud.Serve(w.ctx, arm) })
	w.serve("the endpoint of managed identities", func() error { return serveHTTP(w.ctx, identity, w.cloud.IdentityHandler()) })
	w.site.AzurePort, w.site.IdentityPort = port(arm), port(identity)
	w.servers.Azure = "https://" + arm.Addr().String()
	w.servers.Identity = "http://" + identity.Addr().String()
	w.say("simulated Azure: Resource Manager and Entra ID answer on %s", w.servers.Azure)
	return nil
}

func (w *World) cloudConfig(certificate tls.Certificate) azure.Config {
	return azure.Config{
		Dir: w.site.Path("azure"), Clock: w.clock, Fleet: w.fleet,
		SubscriptionID: w.site.SubscriptionID, TenantID: w.site.TenantID,
		ResourceGroup: w.site.ResourceGroup, Location: w.site.Location,
		ClientID: w.site.ClientID, ClientSecret: w.site.ClientSecret,
		ZRS: !w.options.NoZRS, Latencies: w.options.Cloud, Throttle: w.options.Throttle,
		IdentityHeader: w.site.IdentityHeader, SystemIdentity: w.site.SystemIdentity,
		UserIdentities: []azure.Identity{{ClientID: w.site.UserIdentity, ObjectID: w.site.UserIdentity, ResourceID: fmt.Sprintf(
			"/subscriptions/%s/resourceGroups/%s/providers/Microsoft.ManagedIdentity/userAssignedIdentities/kamino",
			w.site.SubscriptionID, w.site.ResourceGroup)}},
		Certificate: certificate,
	}
}

// startControl listens for the verbs, on a socket in a directory of its own: the path of a socket must be
// short, that of a sandbox need not be.
func (w *World) startControl(context.Context) error {
	dir, err := socket.Dir("kamino-sandbox-")
	if err != nil {
		return err
	}
	name := site.SocketFile(w.site.Dir)
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
	if err := w.site.Save(); err != nil {
		return err
	}
	if err := w.site.WriteClientFiles(w.servers); err != nil {
		return err
	}
	return w.site.LinkPrograms(w.options.Binary, "kubectl", "kamino-sandbox")
}

// serve runs a server until the sandbox ends. One that ends before is a reason to end all.
func (w *World) serve(what string, run func() error) {
	w.serving.Go(func() {
		if err := run(); err != nil && w.ctx.Err() == nil {
			w.lost <- fmt.Errorf("%s ended by itself: %w", what, err)
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
		return nil, fmt.Errorf("the port of %s is not free, choose another or end what has it: %w", what, err)
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
