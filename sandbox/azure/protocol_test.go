package azure

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

const groupURL = "/subscriptions/" + testSubscription + "/resourceGroups/" + testGroup

func TestRefusalsOfARM(t *testing.T) {
	c := newCloud(t, nil)
	token := c.token(t)
	for _, try := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"GET", groupURL, http.StatusBadRequest, "MissingApiVersionParameter"},
		{"GET", "/subscriptions/" + newUUID() + "/resourceGroups/rg1?api-version=1", http.StatusNotFound, "SubscriptionNotFound"},
		{"GET", "/subscriptions/" + testSubscription + "/resourceGroups/other?api-version=1", http.StatusNotFound, "ResourceGroupNotFound"},
		{"GET", "/subscriptions/" + testSubscription + "/resourceGroups/other/providers/Microsoft.Compute/disks/d?api-version=1", http.StatusNotFound,
			"ResourceGroupNotFound"},
		{"GET", groupURL + "/providers/Microsoft.Compute/disks/d?api-version=1", http.StatusNotFound, "ResourceNotFound"},
		{"GET", groupURL + "/providers/Microsoft.Compute/virtualMachines/v?api-version=1", http.StatusNotFound, "ResourceNotFound"},
		{"GET", groupURL + "/providers/Microsoft.Compute/toasters/t?api-version=1", http.StatusNotFound, "InvalidResourceType"},
		{"GET", groupURL + "/providers/Microsoft.Toast/toasters/t?api-version=1", http.StatusNotFound, "InvalidResourceNamespace"},
		{"POST", groupURL + "/providers/Microsoft.Compute/disks/d?api-version=1", http.StatusMethodNotAllowed, "MethodNotAllowed"},
		{"PUT", groupURL + "/providers/Microsoft.Compute/galleries/g?api-version=1", http.StatusBadRequest, "LocationRequired"},
		{"GET", groupURL + "/providers/Microsoft.Compute/virtualMachineScaleSets/none/virtualMachines?api-version=1", http.StatusNotFound, "ResourceNotFound"},
		{"GET", "/subscriptions/" + testSubscription + "/providers/Microsoft.Compute/locations/westus2/operations/none?api-version=1",
			http.StatusNotFound, "NotFound"},
	} {
		resp, doc := c.raw(t, token, try.method, try.path, "")
		if resp.StatusCode != try.status || text(doc, "error", "code") != try.code || text(doc, "error", "message") == "" {
			t.Errorf("%s %s: %d %v, want %d %s", try.method, try.path, resp.StatusCode, doc, try.status, try.code)
		}
	}
	resp, doc := c.raw(t, token, "PUT", groupURL+"/providers/Microsoft.Compute/galleries/g?api-version=1", "{")
	if resp.StatusCode != http.StatusBadRequest || text(doc, "error", "code") != "InvalidRequestContent" {
		t.Errorf("broken JSON gets %d %v", resp.StatusCode, doc)
	}
}

// TestCommandsNotImplemented: the sandbox refuses the requests of these commands of the Azure CLI in ARM's form, and names the path.
func TestCommandsNotImplemented(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	token := c.token(t)
	const subscription = "/subscriptions/" + testSubscription
	for command, path := range map[string]string{
		"resource list":    subscription + "/resources",
		"resource list -g": groupURL + "/resources",
		"vmss nic list":    groupURL + "/providers/Microsoft.Compute/virtualMachineScaleSets/" + testPool + "/networkInterfaces",
		"vmss nic list-vm-nics": groupURL + "/providers/Microsoft.Compute/virtualMachineScaleSets/" + testPool +
			"/virtualMachines/0/networkInterfaces",
		"tag list":                        subscription + "/tagNames",
		"vmss run-command invoke":         groupURL + "/providers/Microsoft.Compute/virtualMachineScaleSets/" + testPool + "/virtualMachines/0/runCommand",
		"vm run-command list":             subscription + "/providers/Microsoft.Compute/locations/westeurope/runCommands",
		"role assignment list":            subscription + "/providers/Microsoft.Authorization/roleAssignments",
		"role assignment list -g":         groupURL + "/providers/Microsoft.Authorization/roleAssignments",
		"role definition list":            subscription + "/providers/Microsoft.Authorization/roleDefinitions",
		"monitor activity-log list":       subscription + "/providers/Microsoft.Insights/eventtypes/management/values",
		"monitor activity-log list (old)": subscription + "/providers/microsoft.insights/eventtypes/management/values",
	} {
		resp, doc := c.raw(t, token, "GET", path+"?api-version=1", "")
		if resp.StatusCode != http.StatusNotImplemented || text(doc, "error", "code") != "NotImplemented" ||
			!strings.Contains(text(doc, "error", "message"), "'"+path+"'") {
			t.Errorf("az %s: %d %v, want 501 NotImplemented with the path", command, resp.StatusCode, doc)
		}
	}
}

func TestPathsInAnyCase(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	token := c.token(t)
	path := strings.ToUpper(groupURL+"/providers/Microsoft.Compute/virtualMachineScaleSets/"+testPool+"/virtualMachines/0") + "?api-version=1"
	resp, doc := c.raw(t, token, "GET", path, "")
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s answered %d", path, resp.StatusCode)
	}
	if want := groupURL + "/providers/Microsoft.Compute/virtualMachineScaleSets/" + testPool + "/virtualMachines/0"; text(doc, "id") != want {
		t.Errorf("the ID is %s, want %s", text(doc, "id"), want)
	}
}

func TestGalleryNameIsUniqueInTheSubscription(t *testing.T) {
	c := newCloud(t, nil)
	token := c.token(t)
	other := "/subscriptions/" + testSubscription + "/resourceGroups/other"
	if resp, _ := c.raw(t, token, "PUT", other+"?api-version=1", `{"location":"westus2"}`); resp.StatusCode != http.StatusCreated {
		t.Fatalf("the group's PUT answered %d", resp.StatusCode)
	}
	for path, want := range map[string]int{other: http.StatusCreated} {
		if resp, _ := c.raw(t, token, "PUT", path+
			"/providers/Microsoft.Compute/galleries/SIG_rg1?api-version=1", `{"location":"westus2"}`); resp.StatusCode != want {
			t.Fatalf("the gallery's PUT answered %d", resp.StatusCode)
		}
	}
	resp, doc := c.raw(t, token, "PUT", groupURL+"/providers/Microsoft.Compute/galleries/SIG_rg1?api-version=1", `{"location":"westus2"}`)
	if resp.StatusCode != http.StatusConflict {
		t.Errorf("a second gallery of the name gets %d %v", resp.StatusCode, doc)
	}
	if _, doc = c.raw(t, token, "GET", "/subscriptions/"+testSubscription+
		"/providers/Microsoft.Compute/galleries?api-version=1", ""); len(list(doc, "value")) != 1 {
		t.Errorf("the subscription's galleries are %v", doc)
	}
}

func TestBookCounts(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	token := c.token(t)
	c.ResetStats()
	pool := groupURL + "/providers/Microsoft.Compute/virtualMachineScaleSets/" + testPool + "?api-version=1"
	get := func() { c.raw(t, token, "GET", pool, "") }
	get()
	get() // the same again: a repeat
	resp, _ := c.raw(t, token, "PATCH", pool, `{"tags":{"a":"b"}}`)
	get() // after a write: a read
	_, operation, _ := strings.Cut(resp.Header.Get("Azure-AsyncOperation"), c.web.Listener.Addr().String())
	c.raw(t, token, "GET", operation, "")
	c.token(t)
	c.raw(t, token, "GET", groupURL+"/providers/Microsoft.Compute/disks/none?api-version=1", "")
	want := requestlog.Stats{Requests: 6, Reads: 3, Writes: 1, Polls: 1, Repeats: 1, Logins: 1, Failed: 1,
		ByOperation: map[string]int{"pool get": 2, "pool patch": 1, "disk get": 1}}
	if diff := cmp.Diff(want, c.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	for _, r := range c.Requests() {
		if r.Status == 0 || r.Class == "" || strings.Contains(r.Path, c.config.ClientSecret) {
			t.Errorf("the book has %+v", r)
		}
	}
}

// TestMergePatchLaws tests the rules of RFC 7396 on random objects.
func TestMergePatchLaws(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := rapid.SampledFrom([]any{nil, "x", "y", 1.0, true, []any{"l"}})
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf, rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), value(depth-1), 0, 3),
			func(m map[string]any) any { return m }))
	}
	objects := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), value(2), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		target, patch := mergePatch(object{}, objects.Draw(t, "target")), objects.Draw(t, "patch")
		before := jsonText(target)
		once := mergePatch(target, patch)
		if diff := cmp.Diff(once, mergePatch(once, patch)); diff != "" {
			t.Fatalf("a patch applied twice differs:\n%s", diff)
		}
		if jsonText(target) != before {
			t.Fatal("the target was changed")
		}
		for k, v := range patch {
			if _, left := once[k]; v == nil && left {
				t.Fatalf("%q was to go and is there", k)
			}
		}
	})
}

func TestServeWithACertificate(t *testing.T) {
	web := httptest.NewTLSServer(http.NotFoundHandler()) // for the certificate and its client
	defer web.Close()
	c := newCloud(t, func(c *Config) { c.Certificate = web.TLS.Certificates[0] })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Serve(ctx, listener) }()
	resp, err := web.Client().Get("https://" + listener.Addr().String() + "/metadata/endpoints?api-version=2022-09-01")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("it answered %d, want 200", resp.StatusCode)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Serve ended with %v, want nil when its context ends", err)
	}
}
