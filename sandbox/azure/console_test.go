package azure

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// blob is the answer to a plain GET.
func (c *testCloud) blob(t *testing.T, address string) (int, string) {
	t.Helper()
	response, err := c.web.Client().Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// TestBootDiagnostics: the SDK gets the address of an instance's serial console, for a limited time.
func TestBootDiagnostics(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, nil)
	c.fleet.SetConsole(strings.ToLower(*c.instances(t)[0].ID), "the boot of 0")
	client := c.factory.NewVirtualMachineScaleSetVMsClient()
	got, err := client.RetrieveBootDiagnosticsData(t.Context(), testGroup, testPool, "0",
		&armcompute.VirtualMachineScaleSetVMsClientRetrieveBootDiagnosticsDataOptions{SasURIExpirationTimeInMinutes: to.Ptr[int32](5)})
	if err != nil {
		t.Fatal(err)
	}
	address := *got.SerialConsoleLogBlobURI
	if status, text := c.blob(t, address); status != http.StatusOK || !strings.HasPrefix(text, "the boot of 0") {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := c.blob(t, strings.Replace(address, "sig=", "sig=x", 1)); status != http.StatusForbidden {
		t.Errorf("a wrong signature gets %d", status)
	}
	if status, _ := c.blob(t, *got.ConsoleScreenshotBlobURI); status != http.StatusNotFound {
		t.Errorf("the screenshot gets %d", status)
	}
	vm, err := client.Get(t.Context(), testGroup, testPool, "0",
		&armcompute.VirtualMachineScaleSetVMsClientGetOptions{Expand: to.Ptr(armcompute.InstanceViewTypesInstanceView)})
	if err != nil || !*vm.Properties.DiagnosticsProfile.BootDiagnostics.Enabled || vm.Properties.InstanceView.BootDiagnostics == nil ||
		vm.Properties.InstanceView.BootDiagnostics.SerialConsoleLogBlobURI != nil {
		t.Errorf("the instance has %+v (%v)", vm.Properties, err)
	}
	_, err = client.RetrieveBootDiagnosticsData(t.Context(), testGroup, testPool, "7", nil)
	wantCode(t, err, http.StatusNotFound, "NotFound")
}

// TestBootDiagnosticsDisabled: a pool without the setting has no console.
func TestBootDiagnosticsDisabled(t *testing.T) {
	c := newCloud(t, nil)
	c.pool(t, 1, func(p *PoolSpec) { p.NoConsole = true })
	client := c.factory.NewVirtualMachineScaleSetVMsClient()
	_, err := client.RetrieveBootDiagnosticsData(t.Context(), testGroup, testPool, "0", nil)
	wantCode(t, err, http.StatusConflict, "OperationNotAllowed")
}
