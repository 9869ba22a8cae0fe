package azure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	testSubscription = "11111111-2222-3333-4444-555555555555"
	testScope        = "/subscriptions/" + testSubscription + "/resourceGroups/rg1"
	testPool         = cloud.PoolID(testScope + "/providers/Microsoft.Compute/virtualMachineScaleSets/pool1")
	testInstance     = cloud.InstanceID("azure://" + string(testPool) + "/virtualMachines/0")
	testDefinition   = testScope + "/providers/Microsoft.Compute/galleries/SIG_rg1/images/kamino-pool1-prototype"
	testSnapshotID   = testScope + "/providers/Microsoft.Compute/snapshots/snapshot_pool1-2026.11.21"
	testVersion      = "2026.11.21"
)

// fakeARM is a transport that responds like Resource Manager. Writes replace or merge documents by path, and a test
// can script responses.
type fakeARM struct {
	t *testing.T

	mu        sync.Mutex
	documents map[string]map[string]any
	// lists by path, answered as {"value": [...]}.
	lists map[string][]any
	// scripted has responses by "METHOD path". Each response is used once.
	scripted map[string][]answer
	// ignore: the next writes of these paths are accepted and lost. The value is the number of writes.
	ignore map[string]int
	calls  []call
}

type answer struct {
	status int
	header http.Header
	body   any
}

type call struct {
	Method, Path, IfMatch string
	Query                 map[string][]string
	Body                  map[string]any
}

func newARM(t *testing.T) *fakeARM {
	t.Helper()
	return &fakeARM{t: t, documents: map[string]map[string]any{}, lists: map[string][]any{}, scripted: map[string][]answer{}, ignore: map[string]int{}}
}

func object(t *testing.T, document string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(document), &out); err != nil {
		t.Fatalf("bad document in the test: %v", err)
	}
	return out
}

func fold(path string) string { return strings.ToLower(path) }

// has puts a resource there.
func (a *fakeARM) has(id, document string) {
	a.t.Helper()
	o := object(a.t, document)
	o["id"] = id
	o["name"] = id[strings.LastIndex(id, "/")+1:]
	a.documents[fold(id)] = o
}

// next adds the response to one request.
func (a *fakeARM) next(method, path string, reply answer) {
	key := method + " " + fold(path)
	a.scripted[key] = append(a.scripted[key], reply)
}

func armError(status int, code, message string, header ...string) answer {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return answer{status, h, map[string]any{"error": map[string]any{"code": code, "message": message}}}
}

// Do implements policy.Transporter.
func (a *fakeARM) Do(request *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := call{Method: request.Method, Path: request.URL.Path, IfMatch: request.Header.Get("If-Match"), Query: request.URL.Query()}
	if request.Body != nil {
		data, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		if len(data) > 0 {
			if err := json.Unmarshal(data, &c.Body); err != nil {
				return nil, err
			}
		}
	}
	a.calls = append(a.calls, c)
	reply := a.reply(c)
	if err, broken := reply.body.(error); broken {
		return nil, err
	}
	data, err := json.Marshal(reply.body)
	if err != nil {
		return nil, err
	}
	header := reply.header
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: reply.status, Header: header, Body: io.NopCloser(bytes.NewReader(data)), Request: request}, nil
}

func (a *fakeARM) reply(c call) answer {
	key := c.Method + " " + fold(c.Path)
	if queue := a.scripted[key]; len(queue) > 0 {
		a.scripted[key] = queue[1:]
		return queue[0]
	}
	path := fold(c.Path)
	switch c.Method {
	case http.MethodGet:
		if list, ok := a.lists[path]; ok {
			return answer{status: 200, body: map[string]any{"value": list}}
		}
		if document, ok := a.documents[path]; ok {
			return answer{status: 200, body: document}
		}
		return armError(404, "ResourceNotFound", "The Resource was not found.")
	case http.MethodPut:
		if a.ignore[path] > 0 {
			a.ignore[path]--
			return answer{status: 200, body: a.documents[path]}
		}
		if strings.Contains(path, "/virtualmachines/") { // omitted fields of an instance stay
			a.documents[path] = merge(a.documents[path], c.Body)
			return answer{status: 200, body: a.documents[path]}
		}
		c.Body["id"], c.Body["name"] = c.Path, c.Path[strings.LastIndex(c.Path, "/")+1:]
		a.documents[path] = c.Body
		return answer{status: 200, body: c.Body}
	case http.MethodPatch:
		if a.ignore[path] > 0 {
			a.ignore[path]--
			return answer{status: 200, body: a.documents[path]}
		}
		a.documents[path] = merge(a.documents[path], c.Body)
		return answer{status: 200, body: a.documents[path]}
	case http.MethodDelete:
		delete(a.documents, path)
		return answer{status: 204}
	default:
		return answer{status: 200, body: map[string]any{}}
	}
}

// merge is RFC 7396.
func merge(target, patch map[string]any) map[string]any {
	out := maps.Clone(target)
	if out == nil {
		out = map[string]any{}
	}
	for key, change := range patch {
		switch change := change.(type) {
		case nil:
			delete(out, key)
		case map[string]any:
			old, _ := out[key].(map[string]any)
			out[key] = merge(old, change)
		default:
			out[key] = change
		}
	}
	return out
}

// made lists the write requests, as "METHOD last/segments".
func (a *fakeARM) made() []string {
	var out []string
	for _, c := range a.calls {
		if c.Method != http.MethodGet {
			_, rest, _ := strings.Cut(c.Path, "Microsoft.Compute/")
			out = append(out, c.Method+" "+rest)
		}
	}
	return out
}

// last returns the last request with this method and path suffix.
func (a *fakeARM) last(method, suffix string) call {
	a.t.Helper()
	for _, c := range slices.Backward(a.calls) {
		if c.Method == method && strings.HasSuffix(fold(c.Path), fold(suffix)) {
			return c
		}
	}
	a.t.Fatalf("no %s of %s was sent; sent were %v", method, suffix, a.made())
	return call{}
}

type token struct{ err error }

func (c token) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: "test", ExpiresOn: time.Now().Add(time.Hour)}, c.err
}

func (a *fakeARM) provider() cloud.Provider {
	a.t.Helper()
	p, err := New(a.t.Context(), Config{Credential: token{}, Transport: a})
	if err != nil {
		a.t.Fatal(err)
	}
	return p
}

// pool stores a usual scale set with changes merged.
func (a *fakeARM) pool(changes string) {
	a.t.Helper()
	a.has(string(testPool), `{
		"location": "westus2", "etag": "\"1\"", "sku": {"name": "Standard_D2s_v5", "tier": "Standard", "capacity": 3},
		"tags": {"cluster": "one"},
		"properties": {
			"orchestrationMode": "Uniform", "upgradePolicy": {"mode": "Manual"}, "provisioningState": "Succeeded",
			"virtualMachineProfile": {
				"osProfile": {"computerNamePrefix": "pool1", "linuxConfiguration": {"disablePasswordAuthentication": true}},
				"storageProfile": {
					"imageReference": {"publisher": "Canonical", "offer": "ubuntu-24_04-lts", "sku": "server", "version": "latest"},
					"osDisk": {"createOption": "FromImage", "osType": "Linux", "managedDisk": {"storageAccountType": "Premium_LRS"}}
				},
				"extensionProfile": {"extensions": [
					{"name": "vmssCSE", "properties": {"publisher": "Microsoft.Azure.Extensions", "type": "CustomScript", "typeHandlerVersion": "2.1", "settings": {"commandToExecute": "join"}, "provisioningState": "Succeeded"}},
					{"name": "monitor", "properties": {"publisher": "Microsoft.Azure.Monitor", "type": "AzureMonitorLinuxAgent", "typeHandlerVersion": "1.0", "provisionAfterExtensions": ["vmssCSE"]}},
					{"name": "cluster-AKSLinuxBilling", "properties": {"publisher": "Microsoft.AKS", "type": "Compute.AKS-Engine.Linux.Billing", "typeHandlerVersion": "1.0"}}
				]}
			}
		}
	}`)
	if changes != "" {
		a.documents[fold(string(testPool))] = merge(a.documents[fold(string(testPool))], object(a.t, changes))
	}
}

// vm stores instance 0 with changes merged.
func (a *fakeARM) vm(changes string) {
	a.t.Helper()
	id := strings.TrimPrefix(string(testInstance), providerPrefix)
	a.has(id, fmt.Sprintf(`{
		"location": "westus2", "instanceId": "0", "etag": "\"7\"", "zones": ["1"], "sku": {"name": "Standard_D2s_v5"}, "tags": {"a": "b"},
		"properties": {
			"vmId": "0b1c", "latestModelApplied": true, "modelDefinitionApplied": "VirtualMachineScaleSet", "provisioningState": "Succeeded",
			"hardwareProfile": {"vmSize": "Standard_D2s_v5"},
			"storageProfile": {
				"imageReference": {"publisher": "Canonical", "offer": "ubuntu-24_04-lts", "sku": "server", "version": "latest", "exactVersion": "24.04.1"},
				"osDisk": {"createOption": "FromImage", "osType": "Linux", "managedDisk": {"id": "%s/providers/Microsoft.Compute/disks/disk0"}}
			},
			"instanceView": {"hyperVGeneration": "V2", "statuses": [{"code": "ProvisioningState/succeeded"}, {"code": "PowerState/running"}]}
		}
	}`, testScope))
	if changes != "" {
		a.documents[fold(id)] = merge(a.documents[fold(id)], object(a.t, changes))
	}
	a.has(testScope+"/providers/Microsoft.Compute/disks/disk0",
		`{"location": "westus2", "properties": {"hyperVGeneration": "V2", "supportedCapabilities": {"architecture": "x64"}}}`)
}

func (a *fakeARM) power(state string) {
	a.t.Helper()
	a.vm(`{"properties": {"instanceView": {"statuses": [{"code": "PowerState/` + state + `"}]}}}`)
}

// snapshot puts the capture's snapshot there.
func (a *fakeARM) snapshot(properties string) {
	a.t.Helper()
	a.has(testSnapshotID, `{"location": "westus2", "properties": `+properties+`}`)
}

const goodSnapshot = `{"provisioningState": "Succeeded", "hyperVGeneration": "V2", "supportedCapabilities": {"architecture": "x64"}}`

func wantKind(t *testing.T, err error, kind cloud.Kind) {
	t.Helper()
	if !cloud.Is(err, kind) {
		t.Fatalf("got %v, want an error of kind %s", err, kind)
	}
}

// mustKind is wantKind, and returns the error.
func mustKind(t *testing.T, err error, kind cloud.Kind) *cloud.Error {
	t.Helper()
	wantKind(t, err, kind)
	var out *cloud.Error
	if !errors.As(err, &out) {
		t.Fatalf("%v is no *cloud.Error", err)
	}
	return out
}

func reasons(refusals []cloud.Refusal) []string {
	out := []string{}
	for _, refusal := range refusals {
		out = append(out, refusal.Reason)
	}
	slices.Sort(out)
	return out
}
