package azure

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fleet"
)

const (
	testSubscription = "11111111-2222-3333-4444-555555555555"
	testTenant       = "99999999-8888-7777-6666-555555555555"
	testClient       = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
	testGroup        = "rg1"
	testPool         = "k8s-pool1-12345678-vmss"
)

// fast is a clock in which an hour takes a third of a second.
var fast = clock.Clock{Scale: 10000}

// testCloud is a server with clients of the real SDK.
type testCloud struct {
	*Server
	config  Config
	fleet   *fleet.Memory
	web     *httptest.Server
	factory *armcompute.ClientFactory
}

func testConfig(t *testing.T, f *fleet.Memory) Config {
	t.Helper()
	return Config{Dir: t.TempDir(), Clock: fast, Fleet: f, SubscriptionID: testSubscription, TenantID: testTenant, ResourceGroup: testGroup,
		Location: "westus2", ClientID: testClient, ClientSecret: newUUID(), ZRS: true, IdentityHeader: newUUID()}
}

// newCloud starts a server; change may be nil.
func newCloud(t *testing.T, change func(*Config)) *testCloud {
	t.Helper()
	f := fleet.NewMemory()
	config := testConfig(t, f)
	if change != nil {
		change(&config)
	}
	return openCloud(t, config, f)
}

func openCloud(t *testing.T, config Config, f *fleet.Memory) *testCloud {
	t.Helper()
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewTLSServer(s.Handler())
	t.Cleanup(func() { web.Close(); s.Close() })
	c := &testCloud{Server: s, config: config, fleet: f, web: web}
	c.factory = c.clients(t, config.ClientSecret)
	return c
}

func (c *testCloud) custom() cloud.Configuration {
	return cloud.Configuration{ActiveDirectoryAuthorityHost: c.web.URL + "/", Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
		cloud.ResourceManager: {Endpoint: c.web.URL, Audience: c.web.URL}}}
}

func (c *testCloud) clients(t *testing.T, secret string) *armcompute.ClientFactory {
	t.Helper()
	credential, err := azidentity.NewClientSecretCredential(testTenant, testClient, secret, &azidentity.ClientSecretCredentialOptions{
		ClientOptions: c.options(), DisableInstanceDiscovery: true})
	if err != nil {
		t.Fatal(err)
	}
	return c.clientsOf(t, credential)
}

func (c *testCloud) options() policy.ClientOptions {
	return policy.ClientOptions{Cloud: c.custom(), Transport: c.web.Client(), Retry: policy.RetryOptions{MaxRetries: -1}}
}

func (c *testCloud) clientsOf(t *testing.T, credential azcore.TokenCredential) *armcompute.ClientFactory {
	t.Helper()
	factory, err := armcompute.NewClientFactory(testSubscription, credential, &arm.ClientOptions{ClientOptions: c.options()})
	if err != nil {
		t.Fatal(err)
	}
	return factory
}

// pool makes a pool of n nodes under the usual name.
func (c *testCloud) pool(t *testing.T, n int, change func(*PoolSpec)) {
	t.Helper()
	spec := PoolSpec{Name: testPool, Nodes: n, Generation: "V2"}
	if change != nil {
		change(&spec)
	}
	if err := c.CreatePool(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
}

// done waits for a long operation of the SDK; polls come as quickly as the server says.
func done[T any](t *testing.T, poller *runtime.Poller[T], err error) T {
	t.Helper()
	result, err := finish(t.Context(), poller, err)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func finish[T any](ctx context.Context, poller *runtime.Poller[T], err error) (T, error) {
	if err != nil {
		var zero T
		return zero, err
	}
	return poller.PollUntilDone(ctx, &runtime.PollUntilDoneOptions{Frequency: time.Second})
}

func wantCode(t *testing.T, err error, status int, code string) {
	t.Helper()
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		t.Fatalf("error is %v, want a response error %d %s", err, status, code)
	}
	if response.StatusCode != status || response.ErrorCode != code {
		t.Fatalf("error is %d %s, want %d %s\n%v", response.StatusCode, response.ErrorCode, status, code, err)
	}
}

// retryAfter returns the Retry-After header of an error's response.
func retryAfter(t *testing.T, err error) string {
	t.Helper()
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		t.Fatalf("error is %v, want a response error", err)
	}
	return response.RawResponse.Header.Get("Retry-After")
}

// token gets an access token as any client does.
func (c *testCloud) token(t *testing.T) string {
	t.Helper()
	form := strings.NewReader("grant_type=client_credentials&client_id=" + testClient + "&client_secret=" + c.config.ClientSecret + "&scope=" +
		c.web.URL + "/.default")
	resp, err := c.web.Client().Post(c.web.URL+"/"+testTenant+"/oauth2/v2.0/token", "application/x-www-form-urlencoded", form)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var body struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || body.AccessToken == "" {
		t.Fatalf("no token: %d %v", resp.StatusCode, err)
	}
	return body.AccessToken
}

// raw sends a request without the SDK.
func (c *testCloud) raw(t *testing.T, token, method, path string, body string) (*http.Response, object) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.web.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.web.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var parsed object
	if len(data) > 0 {
		if err := json.Unmarshal(data, &parsed); err != nil {
			t.Fatalf("%s %s: answer is no JSON object: %s", method, path, data)
		}
	}
	return resp, parsed
}

// instances lists the pool's instances.
func (c *testCloud) instances(t *testing.T) []*armcompute.VirtualMachineScaleSetVM {
	t.Helper()
	var out []*armcompute.VirtualMachineScaleSetVM
	pager := c.factory.NewVirtualMachineScaleSetVMsClient().NewListPager(testGroup, testPool, nil)
	for pager.More() {
		page, err := pager.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, page.Value...)
	}
	return out
}

// power is the instance's power state as a client sees it.
func (c *testCloud) power(t *testing.T, id string) string {
	t.Helper()
	view, err := c.factory.NewVirtualMachineScaleSetVMsClient().GetInstanceView(t.Context(), testGroup, testPool, id, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range view.Statuses {
		if code, found := strings.CutPrefix(*s.Code, "PowerState/"); found {
			return code
		}
	}
	return ""
}
