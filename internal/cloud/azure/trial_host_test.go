package azure

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// TestHostName is the computer name as a Node has it; nothing where the cloud does not say.
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
