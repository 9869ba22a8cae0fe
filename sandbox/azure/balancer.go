package azure

import "net/http"

// balancer is a load balancer as written by a client, without load balancing. The state holds balancers by ID, in
// lower case.
type balancer struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Location   string `json:"location"`
	Properties object `json:"properties"`
}

// balancers serve clients that read the backend pools of instances. Source: Network REST API, Load Balancers.
type balancers struct{ *backend }

func (s balancers) routes() []*route {
	const noun, action = "balancer", "Microsoft.Network/loadBalancers/"
	const one = groupPath + "/providers/Microsoft.Network/loadBalancers/{balancer}"
	return []*route{
		{method: http.MethodGet, pattern: one, noun: noun, operation: "get", action: action + "read", handle: s.get},
		{method: http.MethodPut, pattern: one, noun: noun, operation: "put", action: action + "write", handle: s.put},
		{method: http.MethodDelete, pattern: one, noun: noun, operation: "delete", action: action + "delete", handle: s.delete},
	}
}

func (b *balancer) document() object {
	return object{"id": b.ID, "name": b.Name, "type": "Microsoft.Network/loadBalancers", "location": b.Location, "properties": b.Properties}
}

func balancerID(c *call) string {
	return "/subscriptions/" + c.vars["subscription"] + "/resourceGroups/" + c.vars["group"] +
		"/providers/Microsoft.Network/loadBalancers/" + c.vars["balancer"]
}

func (s balancers) get(c *call) (*reply, error) {
	var doc object
	s.store.Read(func(st *state) {
		if b := st.Balancers[fold(balancerID(c))]; b != nil {
			doc = b.document()
		}
	})
	if doc == nil {
		return nil, refuse(http.StatusNotFound, "ResourceNotFound",
			"The Resource 'Microsoft.Network/loadBalancers/%s' under resource group '%s' was not found.", c.vars["balancer"], c.vars["group"])
	}
	return ok(doc), nil
}

func (s balancers) put(c *call) (*reply, error) {
	properties, _ := c.body["properties"].(object)
	made := &balancer{ID: balancerID(c), Name: c.vars["balancer"], Location: text(c.body, "location"), Properties: properties}
	rep := ok(made.document())
	err := s.store.Write(func(st *state) error {
		if st.Balancers[fold(made.ID)] == nil {
			rep.status = http.StatusCreated
		}
		st.Balancers[fold(made.ID)] = made
		return nil
	})
	return rep, err
}

func (s balancers) delete(c *call) (*reply, error) {
	rep := &reply{status: http.StatusNoContent}
	err := s.store.Write(func(st *state) error {
		if st.Balancers[fold(balancerID(c))] != nil {
			rep.status = http.StatusOK
		}
		delete(st.Balancers, fold(balancerID(c)))
		return nil
	})
	return rep, err
}
