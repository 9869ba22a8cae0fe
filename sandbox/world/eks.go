package world

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kamino-dev/kamino/sandbox/authority"
	"github.com/kamino-dev/kamino/sandbox/machine/nodeadm"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/simulator"
)

// How nodes of the profile eks join: with the role of their instance. The API server asks an authenticator about the
// role.

// clusterName is the name of the sandbox in EKS.
const clusterName = "sandbox"

func (w *World) eksCluster() nodeadm.Cluster {
	return nodeadm.Cluster{Name: clusterName, Endpoint: w.plane.URL(), Authority: w.servers.CA, CIDR: "10.0.0.0/24"}
}

// authenticator answers the API server's questions about unknown tokens, as soon as the cloud runs.
type authenticator struct {
	// webhook is the API server's configuration file for the webhook; empty without an authenticator.
	webhook string
	// answers is closed once there is a cloud, and with it a handler.
	answers chan struct{}
	handler http.Handler
}

// ServeHTTP implements http.Handler.
func (a *authenticator) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	select {
	case <-a.answers:
		a.handler.ServeHTTP(rw, r)
	default:
		http.Error(rw, "the simulated cloud has not started yet", http.StatusServiceUnavailable)
	}
}

// startAuthenticator serves the API server's token webhook on AWS. The webhook starts before the API server, which
// needs its address, and rejects all tokens until the cloud runs.
func (w *World) startAuthenticator(context.Context) error {
	if w.directory.Cloud != pool.AWS {
		return nil
	}
	ca, err := authority.Open(w.directory.Path("pki"))
	if err != nil {
		return err
	}
	pair, err := ca.Issue("authenticator", authority.Subject{Name: "authenticator", Hosts: []string{"127.0.0.1"}})
	if err != nil {
		return err
	}
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		return err
	}
	listener, err := listen("the authenticator", 0)
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["authenticator"] = &clientcmdapi.Cluster{Server: "https://" + listener.Addr().String(), CertificateAuthorityData: ca.CertPEM()}
	config.Contexts["authenticator"] = &clientcmdapi.Context{Cluster: "authenticator"}
	config.CurrentContext = "authenticator"
	text, err := clientcmd.Write(*config)
	if err == nil {
		w.tokens.webhook = w.directory.Path("authenticator.yaml")
		err = os.WriteFile(w.tokens.webhook, text, 0o600)
	}
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	w.serve("the authenticator", func() error {
		return simulator.Serve(w.ctx, listener, &w.tokens, certificate)
	})
	return nil
}

// authenticateNodes lets the authenticator answer, because the cloud runs now.
func (w *World) authenticateNodes() error {
	if w.directory.Cloud == pool.AWS {
		client, err := w.servers.Client()
		if err != nil {
			return err
		}
		w.tokens.handler = &nodeadm.Authenticator{Cluster: clusterName, Role: region.NodeRole, STS: w.servers.Cloud, Client: client, Name: w.AWS().NodeName}
	}
	close(w.tokens.answers)
	return nil
}

// nodeadm runs nodeadm on a machine. Machines can boot before the cloud runs, and wait for the cloud.
func (w *World) nodeadm(ctx context.Context, root, instance string) (*rest.Config, error) {
	select {
	case <-w.tokens.answers:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return nodeadm.Init(ctx, root, w.AWS().MetadataHandler(instance, region.NodeRole), w.servers.Cloud)
}
