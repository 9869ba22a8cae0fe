package capi_test

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/internal/cloud/capi"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// watched returns recipes of the pool with a callback after each write, for example "PATCH machines". The result of
// the callback decides about the response.
func (p *pool) watched(images capi.Images, wrote func(what string) memory.Outcome) *capi.PoolProvider {
	p.t.Helper()
	config := rest.CopyConfig(p.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recordedPath{next, wrote} })
	made, err := capi.New(capi.Config{Management: config, Cluster: types.NamespacedName{Namespace: p.namespace, Name: "home"}, Images: images})
	if err != nil {
		p.t.Fatal(err)
	}
	return made
}

// recordedPath is the way from recipes to the management cluster.
type recordedPath struct {
	next  http.RoundTripper
	wrote func(what string) memory.Outcome
}

// RoundTrip implements http.RoundTripper. A write that the management cluster refused because of a conflict does
// not count.
func (w recordedPath) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := w.next.RoundTrip(r)
	if err != nil || r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/selfsubject") || answer.StatusCode >= http.StatusBadRequest {
		return answer, err
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // apis, group, version, namespaces, namespace, resource
	outcome := w.wrote(r.Method + " " + path[5])
	if !outcome.After {
		return answer, nil
	}
	_ = answer.Body.Close()
	if outcome.Crash {
		panic(memory.Crash)
	}
	return nil, outcome.Err
}
