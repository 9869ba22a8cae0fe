package azure

import (
	"time"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// views show the current state of instances.
type views struct{ *backend }

// powerStatus is Compute's name of a machine's power: the running action, else the fleet's current state, because a
// machine may power itself off.
func (s views) powerStatus(i *instance) (code, display string) {
	switch i.Doing {
	case "powerOff":
		return "PowerState/stopping", "VM stopping"
	case "deallocate":
		return "PowerState/deallocating", "VM deallocating"
	case "start", "restart", "reimage":
		return "PowerState/starting", "VM starting"
	}
	switch s.config.Fleet.Power(i.ID) {
	case fleet.On:
		return "PowerState/running", "VM running"
	case fleet.Starting:
		return "PowerState/starting", "VM starting"
	case fleet.Stopping:
		return "PowerState/stopping", "VM stopping"
	default:
		if i.Deallocated {
			return "PowerState/deallocated", "VM deallocated"
		}
		return "PowerState/stopped", "VM stopped"
	}
}

// provisioning texts by state.
var provisioningText = map[string][2]string{
	stateCreating:  {"ProvisioningState/creating", "Creating"},
	stateUpdating:  {"ProvisioningState/updating", "Updating"},
	stateDeleting:  {"ProvisioningState/deleting", "Deleting"},
	stateSucceeded: {"ProvisioningState/succeeded", "Provisioning succeeded"},
	stateFailed:    {"ProvisioningState/failed", "Provisioning failed"},
}

// statuses are an instance's provisioning and power state. An instance without a machine has no power state.
func (s views) statuses(i *instance) []any {
	texts := provisioningText[i.State]
	first := object{"code": texts[0], "level": "Info", "displayStatus": texts[1], "time": s.date(i.Created)}
	if i.Error != nil {
		first["level"], first["message"] = "Error", i.Error.Message
		first["code"] = texts[0] + "/" + i.Error.Code
	}
	out := []any{first}
	if !i.Launched {
		return out
	}
	code, display := s.powerStatus(i)
	return append(out, object{"code": code, "level": "Info", "displayStatus": display})
}

// instanceView is the current state of an instance.
func (s views) instanceView(o instanceCopy) object {
	i, profile := o.instance, o.profile
	parsed, _ := parseID(i.Disk)
	statuses := s.statuses(&i)
	view := object{
		"statuses": statuses, "hyperVGeneration": i.Generation, "platformUpdateDomain": i.Number % 5, "platformFaultDomain": i.Number % 5,
		"computerName": fold(computerName(profile, i.Number)),
		"disks": []any{object{"name": parsed.name(),
			"statuses": []any{object{"code": "ProvisioningState/succeeded", "level": "Info", "displayStatus": "Provisioning succeeded"}}}},
	}
	if s.config.Fleet.Power(i.ID) == fleet.On {
		view["vmAgent"] = object{"vmAgentVersion": "2.9.1.1", "statuses": []any{object{"code": "ProvisioningState/succeeded", "level": "Info",
			"displayStatus": "Ready", "message": "Guest Agent is running", "time": s.date(time.Now())}}}
	}
	if diagnostics := bootDiagnostics(&i, profile); diagnostics != nil {
		view["bootDiagnostics"] = diagnostics
	}
	extensions := []any{}
	for _, e := range extensionsOf(profile) {
		extensions = append(extensions, object{"name": text(e, "name"), "type": text(e, "properties", "publisher") + "." + text(e, "properties", "type"),
			"typeHandlerVersion": text(e, "properties", "typeHandlerVersion"), "statuses": []any{object{"code": "ProvisioningState/succeeded",
				"level": "Info", "displayStatus": "Provisioning succeeded"}}})
	}
	view["extensions"] = extensions
	return view
}
