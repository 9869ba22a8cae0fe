package azure

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// roomCodes are the errors by which Azure says that it has no quota or capacity for a VM, in lower case. That says nothing of
// the image. Every other one may: OSProvisioningTimedOut, OSProvisioningInternalError, VMExtensionProvisioningError and
// the like are of what runs in the guest. Sources: Azure, "Troubleshoot allocation failures", "Resolve errors for SKU not
// available", "Error codes for VM provisioning", "Resolve errors for resource quotas".
var roomCodes = []string{
	"allocationfailed", "zonalallocationfailed", "overconstrainedallocationrequest", "overconstrainedzonalallocationrequest",
	"skunotavailable", "quotaexceeded", "resourcequotaexceeded", "spotvmallocationfailed", "lowprioritycapacityexceeded",
}

// noRoom tells whether Azure's code, or its code and message, say that no quota or capacity is left.
func noRoom(trouble string) bool {
	code, message, _ := strings.Cut(trouble, ": ")
	return slices.Contains(roomCodes, strings.ToLower(code)) || isQuota(code, message)
}

// failedStatus opens the status of what Azure has failed to provision; its code follows.
const failedStatus = "ProvisioningState/failed"

// troubleIn reads Azure's code and message out of the statuses of an instance view.
func troubleIn(statuses []*armcompute.InstanceViewStatus) string {
	for _, status := range statuses {
		if status == nil {
			continue
		}
		if code, failed := cutPrefixFold(value(status.Code), failedStatus); failed {
			return withCode(strings.TrimPrefix(code, "/"), oneLine(value(status.Message)))
		}
	}
	return ""
}

// untold is the trouble that Azure does not name.
const untold = "Azure says that it failed, and does not say why"

func troubleOfVM(vm armcompute.VirtualMachineScaleSetVM) string {
	if vm.Properties != nil && vm.Properties.InstanceView != nil {
		if trouble := troubleIn(vm.Properties.InstanceView.Statuses); trouble != "" {
			return trouble
		}
	}
	return untold
}

// troubleOf is why a scale set failed: the outcome of the operation that this process began, else what its view says.
func (p trials) troubleOf(ctx context.Context, s scaleSet) (string, error) {
	if trouble := p.reason(ctx, s.id()); trouble != "" {
		return trouble, nil
	}
	clients, err := p.in(s)
	if err != nil {
		return "", err
	}
	view, err := clients.scaleSets.GetInstanceView(ctx, s.group, s.name, nil)
	switch {
	case isStatus(err, http.StatusForbidden), isNotFound(err):
		return untold, nil
	case err != nil:
		return "", fail("look at", s, err)
	}
	if trouble := troubleIn(view.Statuses); trouble != "" {
		return trouble, nil
	}
	return untold, nil
}
