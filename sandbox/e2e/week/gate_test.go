package week

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
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

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kamino-dev/kamino/sandbox/authority"
)

// apiGate stands between the children and the API server, and shows its time stamps by the calendar.
func (w *week) apiGate() {
	w.Helper()
	transport, err := rest.TransportFor(sandbox.Config())
	w.must(err)
	address := w.gate("api", sandbox.Config().Host, transport, calendarTimes{})
	config, err := clientcmd.LoadFromFile(variable("KUBECONFIG"))
	w.must(err)
	now := config.Contexts[config.CurrentContext]
	config.Clusters[now.Cluster].Server = address
	*config.AuthInfos[now.AuthInfo] = clientcmdapi.AuthInfo{} // the gate shows the administrator's certificate
	file := filepath.Join(w.dir, "kubeconfig")
	w.must(clientcmd.WriteToFile(*config, file))
	w.env = append(w.env, "KUBECONFIG="+file)
}

// cloudGate stands between the children and Resource Manager. The addresses that it gives out for long
// operations lead around the gate.
func (w *week) cloudGate() {
	w.Helper()
	ca, err := os.ReadFile(variable("SSL_CERT_FILE"))
	w.must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	address := w.gate("cloud", variable("AZURE_AUTHORITY_HOST"), transport, nil)
	raw, err := os.ReadFile(variable("AZURE_ENVIRONMENT_FILEPATH"))
	w.must(err)
	environment := map[string]string{}
	w.must(json.Unmarshal(raw, &environment))
	environment["resourceManagerEndpoint"] = address + "/"
	raw, err = json.Marshal(environment)
	w.must(err)
	file := filepath.Join(w.dir, "cloud.json")
	w.must(os.WriteFile(file, raw, 0o600))
	w.env = append(w.env, "AZURE_ENVIRONMENT_FILEPATH="+file)
}

// variable of the environment that the sandbox gives its users.
func variable(name string) string {
	for _, v := range sandbox.Environment() {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// translator changes what passes a gate.
type translator interface {
	request(*http.Request) error
	response(*http.Response) error
}

var errLost = errors.New("lost on its way")

// gate serves in front of a server and returns its own address. What the week's troubles order befalls the
// requests here.
func (w *week) gate(name, target string, transport http.RoundTripper, t translator) string {
	w.Helper()
	to, err := url.Parse(target)
	w.must(err)
	ca, err := authority.Open(filepath.Join(sandbox.Dir(), "pki"))
	w.must(err)
	pair, err := ca.Issue("gate-"+name, authority.Subject{Name: "gate", Hosts: []string{"127.0.0.1"}})
	w.must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	quiet := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = to.Host },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      quiet,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: func(r *http.Response) error {
			if f, _ := r.Request.Context().Value(fateKey{}).(fate); !f.after() {
				if t == nil {
					return nil
				}
				return t.response(r)
			} else if f == killedAfter {
				w.kill(fmt.Sprintf("after %s %s", r.Request.Method, r.Request.URL.Path), nil)
			}
			return errLost
		},
	}
	server := &http.Server{ErrorLog: quiet, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		f := w.troubles.fateOf(r)
		if f == killedBefore {
			w.kill(fmt.Sprintf("before %s %s", r.Method, r.URL.Path), nil)
		}
		if f == lostBefore || f == killedBefore {
			panic(http.ErrAbortHandler)
		}
		w.vanishIfMeant(r)
		if t != nil {
			if err := t.request(r); err != nil {
				panic(http.ErrAbortHandler)
			}
		}
		proxy.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), fateKey{}, f)))
	})}
	w.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.ServeTLS(listener, pair.CertFile, pair.KeyFile) }()
	return "https://" + listener.Addr().String()
}

type fateKey struct{}

// calendarTimes translates the stamps that the API server sets by itself.
type calendarTimes struct{}

const (
	protobuf = "application/vnd.kubernetes.protobuf"
	asJSON   = "application/json"
)

// request asks for JSON, which can be read here, and takes the stamps out of what is written: the API server
// knows them, and refuses others.
func (calendarTimes) request(r *http.Request) error {
	for i, accept := range r.Header.Values("Accept") {
		r.Header["Accept"][i] = strings.ReplaceAll(accept, protobuf, asJSON)
	}
	r.Header.Del("Accept-Encoding")
	if !strings.Contains(r.Header.Get("Content-Type"), "json") {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	body = withoutStamps(body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

func (calendarTimes) response(r *http.Response) error {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), asJSON) {
		return nil
	}
	if r.Request.URL.Query().Get("watch") == "true" {
		r.Body = translateLines(r.Body, calendar.At)
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	body = translate(body, calendar.At)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return nil
}
