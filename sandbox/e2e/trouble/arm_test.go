package trouble

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/book"
)

// arm talks to the simulated cloud as somebody else: a person in the portal.
type arm struct {
	client *http.Client
	url    string
	token  string
}

var (
	armOnce sync.Once
	theArm  *arm
	armErr  error
)

// variable of the environment that the sandbox gives its users.
func variable(name string) string {
	for _, v := range sandbox.Environment() {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// trusted are the authorities of the sandbox.
func trusted() (*x509.CertPool, error) {
	ca, err := os.ReadFile(variable("SSL_CERT_FILE"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate", variable("SSL_CERT_FILE"))
	}
	return pool, nil
}

func connect() (*arm, error) {
	roots, err := trusted()
	if err != nil {
		return nil, err
	}
	facts := sandbox.Facts()
	a := &arm{url: strings.TrimSuffix(variable("AZURE_AUTHORITY_HOST"), "/")}
	a.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	answer, err := a.client.PostForm(a.url+"/"+facts.TenantID+"/oauth2/v2.0/token", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {facts.ClientID}, "client_secret": {facts.ClientSecret},
		"scope": {a.url + "//.default"},
	})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var body struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil || body.Token == "" {
		return nil, fmt.Errorf("no token: %s, %w", answer.Status, err)
	}
	a.token = body.Token
	return a, nil
}

// request makes one in the sandbox's subscription, and returns the answer's status and document.
func request(t testing.TB, method, path string, body any) (int, map[string]any) {
	t.Helper()
	armOnce.Do(func() { theArm, armErr = connect() })
	if armErr != nil {
		t.Fatal(armErr)
	}
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequest(method, theArm.url+"/subscriptions/"+sandbox.Facts().SubscriptionID+path+"?api-version=2024-07-01", content)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+theArm.token)
	req.Header.Set("Content-Type", "application/json")
	answer, err := theArm.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	document := map[string]any{}
	if err := json.NewDecoder(answer.Body).Decode(&document); err != nil && err != io.EOF {
		t.Fatalf("%s %s: %s: %v", method, path, answer.Status, err)
	}
	return answer.StatusCode, document
}

// get demands a document. One that is not there is nil.
func get(t testing.TB, path string) map[string]any {
	t.Helper()
	status, document := request(t, http.MethodGet, path, nil)
	switch {
	case status == http.StatusNotFound:
		return nil
	case status != http.StatusOK:
		t.Fatalf("GET %s: %d %v", path, status, document)
	}
	return document
}

// values of a list, which is empty if what it belongs to is not there.
func values(t testing.TB, path string) []map[string]any {
	t.Helper()
	items, _ := get(t, path)["value"].([]any)
	var out []map[string]any
	for _, item := range items {
		if document, ok := item.(map[string]any); ok {
			out = append(out, document)
		}
	}
	return out
}

// at finds a value deep in a document.
func at(document map[string]any, path ...string) any {
	var now any = document
	for _, key := range path {
		inner, ok := now.(map[string]any)
		if !ok {
			return nil
		}
		now = inner[key]
	}
	return now
}

func compute(path string) string {
	return "/resourceGroups/" + sandbox.Facts().ResourceGroup + "/providers/Microsoft.Compute/" + path
}

func (g *ground) scaleSetPath() string {
	return compute("virtualMachineScaleSets/" + g.pool.ScaleSet())
}

func galleryName() string {
	return "SIG_" + strings.ReplaceAll(sandbox.Facts().ResourceGroup, "-", "_")
}

func (g *ground) versionsPath() string {
	return compute("galleries/" + galleryName() + "/images/kamino-" + g.pool.ScaleSet() + "-prototype/versions")
}

// writes lists what the cloud was asked to change in the pool since the ground was ready, as
// "snapshot put". Requests that were refused count, unless their status is not as wanted.
func (g *ground) writes() []string {
	g.Helper()
	var out []string
	for _, r := range g.requests() {
		if r.Class == book.Write {
			out = append(out, r.Noun+" "+r.Operation)
		}
	}
	return out
}

// requests about the pool since the ground was ready: resources of a pool carry its name.
func (g *ground) requests() []book.Request {
	g.Helper()
	all := sandbox.Cloud().Requests()
	if all[0].Time.After(g.mark) {
		g.Fatal("the cloud has forgotten requests")
	}
	return slices.DeleteFunc(all, func(r book.Request) bool {
		return !r.Time.After(g.mark) || !strings.Contains(strings.ToLower(r.Path), strings.ToLower(g.pool.ScaleSet()))
	})
}

// count of an entry in a list.
func count(list []string, entry string) int {
	n := 0
	for _, e := range list {
		if e == entry {
			n++
		}
	}
	return n
}
