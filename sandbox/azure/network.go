package azure

import "net/http"

// networks are virtual networks with their subnets, as written by a client. Source: Network REST API, Virtual Networks.
type networks struct{ *backend }

func (s networks) routes() []*route {
	const noun, action = "network", "Microsoft.Network/virtualNetworks/"
	const one = groupPath + "/providers/Microsoft.Network/virtualNetworks/{network}"
	return []*route{
		{method: http.MethodGet, pattern: one, noun: noun, operation: "get", action: action + "read", handle: s.get},
		{method: http.MethodPut, pattern: one, noun: noun, operation: "put", action: action + "write", handle: s.put},
	}
}

func networkID(c *call) string {
	return groupKey(c.vars["subscription"], c.vars["group"]) + "/providers/microsoft.network/virtualnetworks/" + fold(c.vars["network"])
}

func (s networks) get(c *call) (*reply, error) {
	var doc object
	s.store.Read(func(st *state) { doc = st.Networks[networkID(c)] })
	if doc == nil {
		return nil, refuse(http.StatusNotFound, "ResourceNotFound",
			"The Resource 'Microsoft.Network/virtualNetworks/%s' under resource group '%s' was not found.", c.vars["network"], c.vars["group"])
	}
	return ok(doc), nil
}

func (s networks) put(c *call) (*reply, error) {
	if p := s.tracked(c); p != nil {
		return nil, p
	}
	doc := writable(c.body)
	doc["id"], doc["name"], doc["type"] = networkID(c), c.vars["network"], "Microsoft.Network/virtualNetworks"
	put(doc, stateSucceeded, "properties", "provisioningState")
	rep := ok(doc)
	err := s.store.Write(func(st *state) error {
		if st.Networks[networkID(c)] == nil {
			rep.status = http.StatusCreated
		}
		if st.Networks == nil {
			st.Networks = map[string]object{}
		}
		st.Networks[networkID(c)] = doc
		return nil
	})
	return rep, err
}
