package azure

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// TestHostName: the host name is the computer name as a Node shows it, or empty if the cloud does not return a
// name.
func TestHostName(t *testing.T) {
	vm := armcompute.VirtualMachineScaleSetVM{}
	if got := hostName(vm); got != "" {
		t.Error(got)
	}
	vm.Properties = &armcompute.VirtualMachineScaleSetVMProperties{}
	if got := hostName(vm); got != "" {
		t.Error(got)
	}
	vm.Properties.OSProfile = &armcompute.OSProfile{ComputerName: to.Ptr("kt12ab-00000A")}
	if got := hostName(vm); got != "kt12ab-00000a" {
		t.Error(got)
	}
}
