package azure

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// The reason of a refusal that only Azure's rolling upgrades have; those of the policy are in refusalsOfPolicy.
const rollingUpgradeRuns = "RollingUpgradeRunning"

// rollingUpgradeRead is what looking at a rolling upgrade needs. It is looked at only while Azure works on a scale
// set that says how rolling upgrades go, so that most credentials do without.
const rollingUpgradeRead = "Microsoft.Compute/virtualMachineScaleSets/rollingUpgrades/read"

// write is every write of a scale set: its recipe and its size. Azure brings running instances up to a write where
// the scale set's policy says so, and the policy may have been changed since anybody looked, while an image was
// being made for hours. So it is read with the model that the write is made from, and the write holds only for that
// model. Where Azure gives no ETag, the write itself says Manual: then none that came in between counts for it.
func (p *PoolProvider) write(ctx context.Context, op string, s scaleSet, model armcompute.VirtualMachineScaleSet, update armcompute.VirtualMachineScaleSetUpdate) error {
	_, err := p.writeAnswered(ctx, op, s, model, update)
	return err
}

// writeAnswered is write, and returns the scale set as the answer shows it; nil if the answer shows none.
func (p *PoolProvider) writeAnswered(ctx context.Context, op string, s scaleSet, model armcompute.VirtualMachineScaleSet, update armcompute.VirtualMachineScaleSetUpdate) (*armcompute.VirtualMachineScaleSet, error) {
	clients, err := p.in(s)
	if err != nil {
		return nil, err
	}
	refusals := refusalsOfPolicy(s, model)
	if len(refusals) == 0 {
		if refusals, err = rollingUpgrade(ctx, clients, s, model); err != nil {
			return nil, err
		}
	}
	if len(refusals) > 0 {
		return nil, refusals[0].Error(op, s.String())
	}
	if value(model.Etag) == "" {
		if update.Properties == nil {
			update.Properties = &armcompute.VirtualMachineScaleSetUpdateProperties{}
		}
		update.Properties.UpgradePolicy = manualPolicy(model)
	}
	var answer *http.Response
	poller, err := clients.scaleSets.BeginUpdate(policy.WithCaptureResponse(ctx, &answer), s.group, s.name, update,
		&armcompute.VirtualMachineScaleSetsClientBeginUpdateOptions{IfMatch: model.Etag})
	if isStatus(err, http.StatusPreconditionFailed) {
		return nil, &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: s.String(), Err: err,
			Message: "somebody else changed the scale set at the same moment: look again"}
	}
	if err != nil {
		return nil, fail(op, s, err)
	}
	remember(p.account, s.id(), poller)
	return scaleSetIn(answer), nil
}

// scaleSetIn is the scale set in an answer; nil if the answer has none, such as a 202 without a body.
func scaleSetIn(answer *http.Response) *armcompute.VirtualMachineScaleSet {
	if answer == nil {
		return nil
	}
	data, err := runtime.Payload(answer)
	if err != nil {
		return nil
	}
	var set armcompute.VirtualMachineScaleSet
	if json.Unmarshal(data, &set) != nil || set.Properties == nil || set.Properties.VirtualMachineProfile == nil {
		return nil
	}
	return &set
}

// refusalsOfPolicy tells why running instances would be changed with a write of the scale set: by Azure as its policy has it, or by
// Cluster API, which replaces what is not of the model that it wants.
func refusalsOfPolicy(s scaleSet, model armcompute.VirtualMachineScaleSet) (out []cloud.Refusal) {
	const manual = "set upgradePolicy.mode to Manual"
	add := func(reason, remedy, obstacle string, args ...any) {
		out = append(out, cloud.Refuse(reason, fmt.Sprintf(obstacle, args...), remedy))
	}
	var policy armcompute.UpgradePolicy
	if model.Properties != nil && model.Properties.UpgradePolicy != nil {
		policy = *model.Properties.UpgradePolicy
	}
	switch mode := value(policy.Mode); mode {
	case armcompute.UpgradeModeManual:
	case armcompute.UpgradeModeAutomatic:
		add("UpgradePolicyAutomatic", manual, "the upgrade policy of %s is Automatic: a new image would replace all running nodes at once", s)
	case armcompute.UpgradeModeRolling:
		add("UpgradePolicyRolling", manual, "the upgrade policy of %s is Rolling: a new image would replace the running nodes batch by batch", s)
	default:
		if model.Properties == nil || value(model.Properties.OrchestrationMode) != armcompute.OrchestrationModeFlexible { // refused for that already
			add("UpgradePolicyUnknown", manual, "the upgrade policy of %s is %q, and only with Manual it is certain that a new image changes no running node", s, mode)
		}
	}
	if automatic := policy.AutomaticOSUpgradePolicy; automatic != nil && value(automatic.EnableAutomaticOSUpgrade) {
		add("AutomaticOSUpgrade", "set enableAutomaticOSUpgrade to false", "%s has automatic OS image upgrades on: Azure would reimage running nodes", s)
	}
	if isCAPZ(model) {
		add("CAPZManaged", "leave this pool to Cluster API, or name its management cluster with --management-kubeconfig", "%s is a machine pool of Cluster API, which writes its model, and replaces running nodes where somebody else did", s)
	}
	return out
}

// rollingUpgrade refuses while a rolling upgrade brings the instances of a scale set up to its model, batch by batch:
// the batches that are still to come would get the new image.
func rollingUpgrade(ctx context.Context, clients *clients, s scaleSet, model armcompute.VirtualMachineScaleSet) ([]cloud.Refusal, error) {
	if model.Properties == nil || !changing(value(model.Properties.ProvisioningState)) ||
		model.Properties.UpgradePolicy == nil || model.Properties.UpgradePolicy.RollingUpgradePolicy == nil {
		return nil, nil
	}
	latest, err := clients.rolling.GetLatest(ctx, s.group, s.name, nil)
	switch {
	case isNotFound(err):
		return nil, nil
	case isStatus(err, http.StatusForbidden):
		return []cloud.Refusal{cloud.Refuse(rollingUpgradeRuns,
			fmt.Sprintf("Azure is changing %s, which has a rolling upgrade policy, and the credential may not look whether a rolling upgrade runs", s),
			"wait until Azure is done, or give it "+rollingUpgradeRead)}, nil
	case err != nil:
		return nil, fail("look at the rolling upgrade of", s, err)
	}
	if latest.Properties == nil || latest.Properties.RunningStatus == nil ||
		!strings.EqualFold(string(value(latest.Properties.RunningStatus.Code)), string(armcompute.RollingUpgradeStatusCodeRollingForward)) {
		return nil, nil
	}
	return []cloud.Refusal{cloud.Refuse(rollingUpgradeRuns, fmt.Sprintf("a rolling upgrade of %s is under way and would give the new image to nodes that run", s),
		"wait until it is over, or end it with `az vmss rolling-upgrade cancel`")}, nil
}

// manualPolicy says in a write what was found before it.
func manualPolicy(model armcompute.VirtualMachineScaleSet) *armcompute.UpgradePolicy {
	policy := &armcompute.UpgradePolicy{Mode: to.Ptr(armcompute.UpgradeModeManual)}
	if model.Properties.UpgradePolicy.AutomaticOSUpgradePolicy != nil {
		policy.AutomaticOSUpgradePolicy = &armcompute.AutomaticOSUpgradePolicy{EnableAutomaticOSUpgrade: to.Ptr(false)}
	}
	return policy
}
