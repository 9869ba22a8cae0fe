package sandboxtest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kamino-dev/kamino/sandbox/authority"
)

// Server is one that a gate stands in front of.
type Server string

const (
	APIServer       Server = "api"
	ResourceManager Server = "cloud"
)

// Passage is what befalls a request at a gate. The zero Passage lets it through.
type Passage struct {
	// Lost: it never arrives, and its connection breaks.
	Lost bool
	// Until it is closed the request may last. nil: for as long as it takes.
	Until <-chan struct{}
	// After is called when it has had its effect. Its answer is lost then, and the connection breaks.
	After func()
	// Answer may change the answer, where there is one; nil leaves it. One that fails breaks the connection.
	Answer func(*http.Response) error
}

// Gates puts one in front of the API server and one in front of Resource Manager, until the test ends. pass is asked about each
// request, may change it, and may take its time; it must stand being called from many goroutines. What it returns is an environment that
// leads a program through them, on top of Env. The addresses that the cloud gives out for long operations lead around them.
func (s *Sandbox) Gates(t testing.TB, pass func(Server, *http.Request) Passage) []string {
	t.Helper()
	dir := t.TempDir()
	environment := map[string]string{}
	for _, v := range s.Environment() {
		environment[v.Name] = v.Value
	}
	api, err := s.apiGate(t, environment["KUBECONFIG"], filepath.Join(dir, "kubeconfig"), pass)
	if err != nil {
		t.Fatal(err)
	}
	cloud, err := s.cloudGate(t, environment, filepath.Join(dir, "cloud.json"), pass)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"KUBECONFIG=" + api, "AZURE_ENVIRONMENT_FILEPATH=" + cloud}
}

// apiGate returns the kubeconfig that leads through it. The gate shows the administrator's certificate.
func (s *Sandbox) apiGate(t testing.TB, kubeconfig, to string, pass func(Server, *http.Request) Passage) (string, error) {
	transport, err := rest.TransportFor(s.Config())
	if err != nil {
		return "", err
	}
	address, err := s.gate(t, APIServer, s.Config().Host, transport, pass)
	if err != nil {
		return "", err
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return "", err
	}
	now := config.Contexts[config.CurrentContext]
	config.Clusters[now.Cluster].Server = address
	*config.AuthInfos[now.AuthInfo] = clientcmdapi.AuthInfo{}
	return to, clientcmd.WriteToFile(*config, to)
}

// cloudGate returns the description of a cloud whose Resource Manager is behind it.
func (s *Sandbox) cloudGate(t testing.TB, environment map[string]string, to string, pass func(Server, *http.Request) Passage) (string, error) {
	ca, err := os.ReadFile(environment["SSL_CERT_FILE"])
	if err != nil {
		return "", err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	address, err := s.gate(t, ResourceManager, environment["AZURE_AUTHORITY_HOST"], transport, pass)
	if err != nil {
		return "", err
	}
	raw, err := os.ReadFile(environment["AZURE_ENVIRONMENT_FILEPATH"])
	if err != nil {
		return "", err
	}
	described := map[string]string{}
	if err := json.Unmarshal(raw, &described); err != nil {
		return "", fmt.Errorf("description of the cloud: %w", err)
	}
	described["resourceManagerEndpoint"] = address + "/"
	if raw, err = json.Marshal(described); err != nil {
		return "", err
	}
	return to, os.WriteFile(to, raw, 0o600)
}

type passageKey struct{}

// gate serves in front of a server and returns its own address.
func (s *Sandbox) gate(t testing.TB, server Server, target string, transport http.RoundTripper, pass func(Server, *http.Request) Passage) (string, error) {
	to, err := url.Parse(target)
	if err != nil {
		return "", err
	}
	ca, err := authority.Open(filepath.Join(s.Dir(), "pki"))
	if err != nil {
		return "", err
	}
	pair, err := ca.Issue("gate-"+string(server), authority.Subject{Name: "gate", Hosts: []string{"127.0.0.1"}})
	if err != nil {
		return "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	quiet := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = to.Host },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      quiet,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: func(r *http.Response) error {
			switch p, _ := r.Request.Context().Value(passageKey{}).(Passage); {
			case p.After != nil:
				p.After()
				return http.ErrAbortHandler
			case p.Answer != nil:
				return p.Answer(r)
			default:
				return nil
			}
		},
	}
	front := &http.Server{ErrorLog: quiet, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := pass(server, r)
		if p.Lost {
			panic(http.ErrAbortHandler)
		}
		ctx, cancel := context.WithCancel(context.WithValue(r.Context(), passageKey{}, p))
		defer cancel()
		go func() {
			select {
			case <-p.Until:
				cancel()
			case <-ctx.Done():
			}
		}()
		proxy.ServeHTTP(w, r.WithContext(ctx))
	})}
	t.Cleanup(func() { _ = front.Close() })
	go func() { _ = front.ServeTLS(listener, pair.CertFile, pair.KeyFile) }()
	return "https://" + listener.Addr().String(), nil
}
