package azure

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// capacityCodes are Azure's error codes of missing quota or capacity, in lower case. Such errors do not blame the image.
// Source: Azure, "Troubleshoot allocation failures", "Resolve errors for SKU not available", "Resolve errors for resource
// quotas".
var capacityCodes = []string{
	"allocationfailed", "zonalallocationfailed", "overconstrainedallocationrequest", "overconstrainedzonalallocationrequest",
	"skunotavailable", "quotaexceeded", "resourcequotaexceeded", "spotvmallocationfailed", "lowprioritycapacityexceeded",
}

// isCapacityError reports whether Azure's code or message means missing quota or capacity.
func isCapacityError(trouble string) bool {
	code, message, _ := strings.Cut(trouble, ": ")
	return slices.Contains(capacityCodes, strings.ToLower(code)) || isQuota(code, message)
}

// imageCodes are Azure's error codes of a failure in the guest, in lower case. Codes of Azure's own failures, and of failures
// of host or network, are left out. Source: Azure, "Understand common error messages when you manage virtual machines in
// Azure".
var imageCodes = []string{
	"osprovisioningtimedout", "osprovisioningclienterror",
	"vmextensionprovisioningerror", "vmextensionprovisioningtimeout", "vmextensionhandlernontransienterror",
}

// isImageError reports whether Azure's code blames the image.
func isImageError(trouble string) bool {
	code, _, _ := strings.Cut(trouble, ": ")
	return slices.Contains(imageCodes, strings.ToLower(code))
}

// failedStatus is the beginning of the status of a failed resource; the code follows.
const failedStatus = "ProvisioningState/failed"

// troubleIn returns Azure's code and message from the statuses of an instance view.
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

// noReason is the message of a failure without a reason from Azure.
const noReason = "Azure reports a failure without a reason"

func troubleOfVM(vm armcompute.VirtualMachineScaleSetVM) string {
	if vm.Properties != nil && vm.Properties.InstanceView != nil {
		if trouble := troubleIn(vm.Properties.InstanceView.Statuses); trouble != "" {
			return trouble
		}
	}
	return noReason
}

// troubleOf returns the reason of a failed scale set, from this process's operation, else from the instance view.
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
		return noReason, nil
	case err != nil:
		return "", fail("read", s, err)
	}
	if trouble := troubleIn(view.Statuses); trouble != "" {
		return trouble, nil
	}
	return noReason, nil
}
