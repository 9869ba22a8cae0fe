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

// write performs every write of a scale set. The upgrade policy may let Azure update running instances, so the write is
// conditional on the model with that policy. Without an ETag the write itself sets Manual.
func (p *PoolProvider) write(ctx context.Context, op string, s scaleSet, model armcompute.VirtualMachineScaleSet,
	update armcompute.VirtualMachineScaleSetUpdate) error {
	_, err := p.writeAnswered(ctx, op, s, model, update)
	return err
}

// writeAnswered is write, and returns the scale set from the answer; nil if the answer has none.
func (p *PoolProvider) writeAnswered(ctx context.Context, op string, s scaleSet, model armcompute.VirtualMachineScaleSet,
	update armcompute.VirtualMachineScaleSetUpdate) (*armcompute.VirtualMachineScaleSet, error) {
	clients, err := p.in(s)
	if err != nil {
		return nil, err
	}
	refusals := refusalsOfWrite(s, model)
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
			Message: "another client changed the scale set at the same time: try again"}
	}
	if err != nil {
		return nil, fail(op, s, err)
	}
	rememberOperation(p.account, s.id(), poller)
	return scaleSetIn(answer), nil
}

// scaleSetIn returns the scale set from an answer; nil without a body, such as 202.
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

// refusalsOfWrite returns the reasons against any write: Flexible orchestration, an upgrade policy that updates running
// instances, Cluster API as the owner, or an open trial in the pool from an earlier version.
func refusalsOfWrite(s scaleSet, model armcompute.VirtualMachineScaleSet) (out []cloud.Refusal) {
	const manual = "set upgradePolicy.mode to Manual"
	add := func(reason, remedy, obstacle string, args ...any) {
		out = append(out, cloud.Refuse(reason, fmt.Sprintf(obstacle, args...), remedy))
	}
	flexible := model.Properties != nil && value(model.Properties.OrchestrationMode) == armcompute.OrchestrationModeFlexible
	if flexible {
		add(cloud.PoolUnsupported, "use a scale set with Uniform orchestration", "%s has Flexible orchestration; only Uniform orchestration is supported", s)
	}
	var policy armcompute.UpgradePolicy
	if model.Properties != nil && model.Properties.UpgradePolicy != nil {
		policy = *model.Properties.UpgradePolicy
	}
	switch mode := value(policy.Mode); mode {
	case armcompute.UpgradeModeManual:
	case armcompute.UpgradeModeAutomatic:
		add(cloud.NodesWouldBeReplaced, manual, "the upgrade policy of %s is Automatic: a new image would replace all running nodes at once", s)
	case armcompute.UpgradeModeRolling:
		add(cloud.NodesWouldBeReplaced, manual, "the upgrade policy of %s is Rolling: a new image would replace the running nodes batch by batch", s)
	default:
		if !flexible { // Azure shows Flexible orchestration without a mode
			add(cloud.NodesWouldBeReplaced, manual, "the upgrade policy of %s is %q, and only Manual is certain to change no running node", s, mode)
		}
	}
	if automatic := policy.AutomaticOSUpgradePolicy; automatic != nil && value(automatic.EnableAutomaticOSUpgrade) {
		add(cloud.NodesWouldBeReplaced, "set enableAutomaticOSUpgrade to false", "%s has automatic OS image upgrades on: Azure would reimage running nodes", s)
	}
	if isCAPZ(model) {
		add(cloud.ManagedElsewhere, "leave the pool to Cluster API, or name the management cluster with --management-kubeconfig",
			"%s is a machine pool of Cluster API; Cluster API writes the model, and replaces running nodes after another client's write", s)
	}
	if mark := markOf(model); mark != "" {
		add("TrialInPoolOpen", "restore the image that the tags "+trialMarkTag+
			"-before* name, delete the trial's instances, and then remove the tag "+trialMarkTag,
			"an earlier version of Kamino left trial %s in %s (tag %s): the recipe may name the tried version", mark, s, trialMarkTag)
	}
	return out
}

// rollingUpgrade returns a refusal while a rolling upgrade is running, because later batches would get the new image.
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
		return []cloud.Refusal{cloud.Refuse(cloud.NodesWouldBeReplaced,
			fmt.Sprintf("Azure is changing %s with a rolling upgrade policy, and the credential may not read rolling upgrades", s),
			"wait until Azure is done, or grant "+rollingUpgradeRead)}, nil
	case err != nil:
		return nil, fail("read the rolling upgrade of", s, err)
	}
	if latest.Properties == nil || latest.Properties.RunningStatus == nil ||
		!strings.EqualFold(string(value(latest.Properties.RunningStatus.Code)), string(armcompute.RollingUpgradeStatusCodeRollingForward)) {
		return nil, nil
	}
	return []cloud.Refusal{cloud.Refuse(cloud.NodesWouldBeReplaced,
		fmt.Sprintf("a rolling upgrade of %s is running, and would give the new image to running nodes", s),
		"wait until the upgrade ends, or cancel the upgrade with `az vmss rolling-upgrade cancel`")}, nil
}

// manualPolicy returns the policy of the model, for a write without an ETag. The model has a policy: refusalsOfWrite allows
// only the mode Manual.
func manualPolicy(model armcompute.VirtualMachineScaleSet) *armcompute.UpgradePolicy {
	policy := &armcompute.UpgradePolicy{Mode: to.Ptr(armcompute.UpgradeModeManual)}
	if model.Properties.UpgradePolicy.AutomaticOSUpgradePolicy != nil {
		policy.AutomaticOSUpgradePolicy = &armcompute.AutomaticOSUpgradePolicy{EnableAutomaticOSUpgrade: to.Ptr(false)}
	}
	return policy
}
