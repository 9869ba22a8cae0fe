package azure

import (
	"fmt"
	"net/http"
	"strings"
)

func groupRoutes() []*route {
	const read, write = "Microsoft.Resources/subscriptions/resourceGroups/read", "Microsoft.Resources/subscriptions/resourceGroups/write"
	return []*route{
		{method: http.MethodGet, pattern: "/tenants", noun: "subscription", operation: "list", handle: (*Server).listTenants},
		{method: http.MethodGet, pattern: "/subscriptions", noun: "subscription", operation: "list", handle: (*Server).listSubscriptions},
		{method: http.MethodGet, pattern: subscriptionPath, noun: "subscription", operation: "get",
			action: "Microsoft.Resources/subscriptions/read", handle: (*Server).getSubscription},
		{method: http.MethodGet, pattern: subscriptionPath + "/locations", noun: "subscription", operation: "list",
			action: "Microsoft.Resources/subscriptions/locations/read", handle: (*Server).listLocations},
		{method: http.MethodGet, pattern: subscriptionPath + "/resourceGroups", noun: "group", operation: "list", action: read, handle: (*Server).listGroups},
		{method: http.MethodHead, pattern: groupPath, noun: "group", operation: "exists", action: read, handle: (*Server).groupExists},
		{method: http.MethodGet, pattern: groupPath, noun: "group", operation: "get", action: read, handle: (*Server).getGroup},
		{method: http.MethodPut, pattern: groupPath, noun: "group", operation: "put", action: write, handle: (*Server).putGroup},
	}
}

func groupKey(subscription, group string) string {
	return fold(fmt.Sprintf("/subscriptions/%s/resourceGroups/%s", subscription, group))
}

// group finds a resource group; nil if there is none.
func (st *state) group(subscription, name string) *groupRecord {
	r := st.Groups[groupKey(subscription, name)]
	if r == nil {
		return nil
	}
	return &groupRecord{r}
}

// groupRecord is a resource group: the one resource whose ID ends before a provider.
type groupRecord struct{ *resource }

func (g groupRecord) id() resourceID {
	p := split(g.ID)
	return resourceID{subscription: p[1], group: p[3]}
}

func (g groupRecord) document() object {
	doc := copyObject(g.Body)
	doc["id"], doc["name"], doc["type"] = g.ID, g.id().group, "Microsoft.Resources/resourceGroups"
	put(doc, stateSucceeded, "properties", "provisioningState")
	return doc
}

func (st *state) ensureGroup(subscription, name, location string) {
	key := groupKey(subscription, name)
	if st.Groups[key] == nil {
		st.Groups[key] = &resource{
			ID:    fmt.Sprintf("/subscriptions/%s/resourceGroups/%s", subscription, name),
			Body:  object{"location": location},
			State: stateSucceeded,
		}
	}
}

func (s *Server) getGroup(c *call) (*reply, error) {
	var doc object
	s.store.read(func(st *state) {
		if g := st.group(s.config.SubscriptionID, c.vars["group"]); g != nil {
			doc = g.document()
		}
	})
	if doc == nil {
		return nil, refuse(http.StatusNotFound, "ResourceGroupNotFound", "Resource group '%s' could not be found.", c.vars["group"])
	}
	return ok(doc), nil
}

// groupExists answers 204 or 404, and neither has a body.
func (s *Server) groupExists(c *call) (*reply, error) {
	if _, err := s.getGroup(c); err != nil {
		return nil, err
	}
	return &reply{status: http.StatusNoContent}, nil
}

func (s *Server) listGroups(c *call) (*reply, error) {
	var docs []any
	s.store.read(func(st *state) {
		docs = documents(st.Groups, "/", func(r *resource) object { return groupRecord{r}.document() })
	})
	return s.page(c, docs), nil
}

func (s *Server) putGroup(c *call) (*reply, error) {
	if p := s.tracked(c); p != nil {
		return nil, p
	}
	rep := &reply{status: http.StatusOK}
	err := s.change(c, func(st *state) error {
		if st.group(s.config.SubscriptionID, c.vars["group"]) == nil {
			rep.status = http.StatusCreated
			st.ensureGroup(s.config.SubscriptionID, c.vars["group"], s.config.Location)
		}
		g := st.group(s.config.SubscriptionID, c.vars["group"])
		g.Body = writable(c.body)
		rep.body = g.document()
		return nil
	})
	return rep, err
}

func (s *Server) subscriptionDocument() object {
	id := s.config.SubscriptionID
	return object{
		"id": "/subscriptions/" + id, "subscriptionId": id, "tenantId": s.config.TenantID, "displayName": "Sandbox",
		"state": "Enabled", "authorizationSource": "RoleBased", "managedByTenants": []any{},
		"subscriptionPolicies": object{"locationPlacementId": "Public_2014-09-01", "quotaId": "PayAsYouGo_2014-09-01", "spendingLimit": "Off"},
	}
}

func (s *Server) getSubscription(*call) (*reply, error) { return ok(s.subscriptionDocument()), nil }

func (s *Server) listSubscriptions(c *call) (*reply, error) {
	return s.page(c, []any{s.subscriptionDocument()}), nil
}

func (s *Server) listTenants(c *call) (*reply, error) {
	id := s.config.TenantID
	return s.page(c, []any{object{"id": "/tenants/" + id, "tenantId": id, "displayName": "Sandbox", "tenantCategory": "Home"}}), nil
}

// getEndpoints tells where this cloud's services are, without a credential.
func (s *Server) getEndpoints(c *call) (*reply, error) {
	here := "https://" + c.r.Host
	login := object{"loginEndpoint": here + "/adfs", "audiences": []any{here + "/"}, "tenant": "adfs", "identityProvider": "ADFS"}
	if strings.HasPrefix(c.version(), "2015") {
		return ok(object{"galleryEndpoint": here + "/", "graphEndpoint": here + "/", "portalEndpoint": here + "/", "authentication": login}), nil
	}
	return ok(object{
		"name": "KaminoSandbox", "portal": here, "gallery": here, "graph": here, "graphAudience": here, "resourceManager": here + "/",
		"authentication": login, "suffixes": object{}, "media": here, "sqlManagement": here, "batch": here,
	}), nil
}

// listLocations lists the one region.
func (s *Server) listLocations(c *call) (*reply, error) {
	name := normalLocation(s.config.Location)
	return s.page(c, []any{object{"id": "/subscriptions/" + s.config.SubscriptionID + "/locations/" + name, "name": name,
		"displayName": displayLocation(name), "regionalDisplayName": displayLocation(name), "type": "Region"}}), nil
}
