package azure

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// roomCodes are the errors by which Azure says that it has no quota or capacity for a VM, in lower case. That says nothing of
// the image. Sources: Azure, "Troubleshoot allocation failures", "Resolve errors for SKU not available", "Resolve errors for
// resource quotas".
var roomCodes = []string{
	"allocationfailed", "zonalallocationfailed", "overconstrainedallocationrequest", "overconstrainedzonalallocationrequest",
	"skunotavailable", "quotaexceeded", "resourcequotaexceeded", "spotvmallocationfailed", "lowprioritycapacityexceeded",
}

// noRoom tells whether Azure's code, or its code and message, say that no quota or capacity is left.
func noRoom(trouble string) bool {
	code, message, _ := strings.Cut(trouble, ": ")
	return slices.Contains(roomCodes, strings.ToLower(code)) || isQuota(code, message)
}

// imageCodes are the errors by which Azure says that what runs in the guest failed, in lower case: its provisioning did not end,
// or reported a failure, for which Azure's texts send people to how the image was prepared; or its agent reported that an
// extension failed, or did not. Left out is what Azure says of itself (OSProvisioningInternalError,
// VMExtensionManagementInternalError, InternalExecutionError, NetworkingInternalOperationError), and what may as well be the
// host's or the network's doing (VMStartTimedOut, VMAgentStatusCommunicationError). Source: Azure, "Understand common error
// messages when you manage virtual machines in Azure".
var imageCodes = []string{
	"osprovisioningtimedout", "osprovisioningclienterror",
	"vmextensionprovisioningerror", "vmextensionprovisioningtimeout", "vmextensionhandlernontransienterror",
}

// blames tells whether Azure's code is one of those that are known to be the image's fault.
func blames(trouble string) bool {
	code, _, _ := strings.Cut(trouble, ": ")
	return slices.Contains(imageCodes, strings.ToLower(code))
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
