package azure

import "net/http"

// rollingUpgrades are the rolling upgrades of scale sets: the latest can be looked at, and ended.
type rollingUpgrades struct{ *backend }

func (s rollingUpgrades) routes() []*route {
	const action = "Microsoft.Compute/virtualMachineScaleSets/rollingUpgrades/"
	return []*route{
		{method: http.MethodGet, pattern: scaleSetPath + "/rollingUpgrades/latest", noun: "rollingUpgrade", operation: "get",
			action: action + "read", handle: s.get},
		{method: http.MethodPost, pattern: scaleSetPath + "/rollingUpgrades/cancel", noun: "rollingUpgrade", operation: "cancel",
			action: action + "cancel/action", handle: s.cancel},
	}
}

func (s rollingUpgrades) get(c *call) (*reply, error) {
	id := c.scaleSetID()
	return s.lookUp(id, func(st *state, key string) object {
		set := st.ScaleSets[key]
		if set == nil || set.Rolling == "" {
			return nil
		}
		return object{"id": id.String() + "/rollingUpgrades/latest", "name": "latest", "type": "Microsoft.Compute/virtualMachineScaleSets/rollingUpgrades",
			"location": s.config.Location, "properties": object{"runningStatus": object{"code": set.Rolling}}}
	})
}

// cancel ends a rolling upgrade: the batch that is under way is still done.
func (s rollingUpgrades) cancel(c *call) (*reply, error) {
	id := c.scaleSetID()
	rep := &reply{status: http.StatusAccepted}
	err := s.change(c, func(st *state) error {
		set := st.ScaleSets[id.key()]
		if set == nil {
			return notFound(id)
		}
		if set.Rolling != rollingForward {
			return conflict("OperationNotAllowed", "There is no rolling upgrade of the virtual machine scale set '%s' to cancel.", id.name())
		}
		set.Rolling = rollingCancelled
		rep.operation = c.begin(st, operation{Kind: "nothing", Target: set.ID, Latency: s.config.Latencies.Gallery, Lanes: []string{set.key() + "#rolling"}})
		return nil
	})
	return rep, err
}
