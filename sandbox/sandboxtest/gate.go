package sandboxtest

import (
	"bytes"
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
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kamino-dev/kamino/sandbox/authority"
	"github.com/kamino-dev/kamino/sandbox/site"
)

// Server is one that a gate stands in front of.
type Server string

const (
	APIServer Server = "api"
	Cloud     Server = "cloud"
	// Management is the cluster with the objects of Cluster API, where that builds the nodes.
	Management Server = "management"
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

// Gates puts one in front of the API server, one in front of the cloud, and one in front of the management cluster where there is one, until the test ends. pass is asked about each
// request, may change it, and may take its time; it must stand being called from many goroutines. What it returns is an environment that
// leads a program through them, on top of Env. The addresses that Azure gives out for long operations lead around them.
func (s *Sandbox) Gates(t testing.TB, pass func(Server, *http.Request) Passage) []string {
	t.Helper()
	dir := t.TempDir()
	environment := map[string]string{}
	for _, v := range s.Environment() {
		environment[v.Name] = v.Value
	}
	api, err := s.apiGate(t, APIServer, environment["KUBECONFIG"], filepath.Join(dir, "kubeconfig"), pass)
	if err != nil {
		t.Fatal(err)
	}
	var more []string
	if kubeconfig := environment[managementVariable]; kubeconfig != "" {
		management, err := s.apiGate(t, Management, kubeconfig, filepath.Join(dir, "management"), pass)
		if err != nil {
			t.Fatal(err)
		}
		more = append(more, managementVariable+"="+management)
	}
	cloud, err := s.cloudGate(t, environment, dir, pass)
	if err != nil {
		t.Fatal(err)
	}
	return append(more, "KUBECONFIG="+api, cloud)
}

// managementVariable names the kubeconfig of the management cluster.
const managementVariable = "KAMINO_MANAGEMENT_KUBECONFIG"

// Write is what a request to the cloud, or to the management cluster, asks to be changed, in the cloud's words, such as "PUT /subscriptions/..." or
// "RegisterImage"; empty if it only looks.
func Write(r *http.Request) string {
	if r.Header.Get("X-Amz-Date") == "" {
		if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/selfsubject") {
			return ""
		}
		return r.Method + " " + r.URL.Path
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	in, bad := url.ParseQuery(string(body))
	if err != nil || bad != nil || in.Get("DryRun") == "true" {
		return ""
	}
	for _, looks := range []string{"Describe", "Get", "Simulate"} {
		if strings.HasPrefix(in.Get("Action"), looks) {
			return ""
		}
	}
	return in.Get("Action")
}

// Said is what a request to the cloud says: its path, and what its body is, as it was meant.
func Said(r *http.Request) string {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	text, bad := url.QueryUnescape(string(body))
	if err != nil || bad != nil {
		text = string(body)
	}
	return r.URL.Path + " " + text
}

// apiGate returns the kubeconfig that leads through it. The gate shows the administrator's certificate.
func (s *Sandbox) apiGate(t testing.TB, server Server, kubeconfig, to string, pass func(Server, *http.Request) Passage) (string, error) {
	transport, err := rest.TransportFor(s.Config())
	if err != nil {
		return "", err
	}
	address, err := s.gate(t, server, s.Config().Host, transport, pass)
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

// cloudGate returns the variable that leads to the cloud through it: on Azure, to its description with another Resource Manager.
func (s *Sandbox) cloudGate(t testing.TB, environment map[string]string, dir string, pass func(Server, *http.Request) Passage) (string, error) {
	ca, err := os.ReadFile(filepath.Join(s.Dir(), site.CAFile))
	if err != nil {
		return "", err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	if s.AWS() != nil {
		address, err := s.gate(t, Cloud, environment["AWS_ENDPOINT_URL"], transport, pass)
		return "AWS_ENDPOINT_URL=" + address, err
	}
	address, err := s.gate(t, Cloud, environment["AZURE_AUTHORITY_HOST"], transport, pass)
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, "cloud.json")
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
	return "AZURE_ENVIRONMENT_FILEPATH=" + to, os.WriteFile(to, raw, 0o600)
}

type passageKey struct{}

// gatePair is the certificate of all gates in front of a server, which tests that run at once make only once.
func (s *Sandbox) gatePair(server Server) (authority.Pair, error) {
	s.issuing.Lock()
	defer s.issuing.Unlock()
	ca, err := authority.Open(filepath.Join(s.Dir(), "pki"))
	if err != nil {
		return authority.Pair{}, err
	}
	return ca.Issue("gate-"+string(server), authority.Subject{Name: "gate", Hosts: []string{"127.0.0.1"}})
}

// gate serves in front of a server and returns its own address.
func (s *Sandbox) gate(t testing.TB, server Server, target string, transport http.RoundTripper, pass func(Server, *http.Request) Passage) (string, error) {
	to, err := url.Parse(target)
	if err != nil {
		return "", err
	}
	pair, err := s.gatePair(server)
	if err != nil {
		return "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	quiet := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = to.Host
			if r.In.Header.Get("X-Amz-Date") != "" {
				r.Out.Host = r.In.Host // its signature is for this one
			}
		},
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
