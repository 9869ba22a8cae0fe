package azure

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// groups are resource groups, with their subscription, tenant and region.
type groups struct {
	*backend
	machines machines
}

func (s groups) routes() []*route {
	const read, write = "Microsoft.Resources/subscriptions/resourceGroups/read", "Microsoft.Resources/subscriptions/resourceGroups/write"
	return []*route{
		{method: http.MethodGet, pattern: "/tenants", noun: "subscription", operation: "list", handle: s.listTenants},
		{method: http.MethodGet, pattern: "/subscriptions", noun: "subscription", operation: "list", handle: s.listSubscriptions},
		{method: http.MethodGet, pattern: subscriptionPath, noun: "subscription", operation: "get",
			action: "Microsoft.Resources/subscriptions/read", handle: s.getSubscription},
		{method: http.MethodGet, pattern: subscriptionPath + "/locations", noun: "subscription", operation: "list",
			action: "Microsoft.Resources/subscriptions/locations/read", handle: s.listLocations},
		{method: http.MethodGet, pattern: subscriptionPath + "/resourceGroups", noun: "group", operation: "list", action: read, handle: s.list},
		{method: http.MethodHead, pattern: groupPath, noun: "group", operation: "exists", action: read, handle: s.exists},
		{method: http.MethodGet, pattern: groupPath, noun: "group", operation: "get", action: read, handle: s.get},
		{method: http.MethodPut, pattern: groupPath, noun: "group", operation: "put", action: write, handle: s.put},
		{method: http.MethodDelete, pattern: groupPath, noun: "group", operation: "delete",
			action: "Microsoft.Resources/subscriptions/resourceGroups/delete", handle: s.delete},
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

// groupRecord is a resource group. Its ID has no provider part.
type groupRecord struct{ *resource }

func (g groupRecord) id() resourceID {
	p := split(g.ID)
	return resourceID{subscription: p[1], group: p[3]}
}

func (g groupRecord) document() object {
	doc := copyObject(g.Body)
	doc["id"], doc["name"], doc["type"] = g.ID, g.id().group, "Microsoft.Resources/resourceGroups"
	put(doc, g.State, "properties", "provisioningState")
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

func (s groups) get(c *call) (*reply, error) {
	var doc object
	s.store.Read(func(st *state) {
		if g := st.group(s.config.SubscriptionID, c.vars["group"]); g != nil {
			doc = g.document()
		}
	})
	if doc == nil {
		return nil, refuse(http.StatusNotFound, "ResourceGroupNotFound", "Resource group '%s' could not be found.", c.vars["group"])
	}
	return ok(doc), nil
}

// exists answers 204 or 404, and neither has a body.
func (s groups) exists(c *call) (*reply, error) {
	if _, err := s.get(c); err != nil {
		return nil, err
	}
	return &reply{status: http.StatusNoContent}, nil
}

// tagFilter is the filter of a list by the name of a tag. Source: Resources REST API, Resource Groups, List.
var tagFilter = regexp.MustCompile(`^tagName eq '([^']+)'$`)

func (s groups) list(c *call) (*reply, error) {
	var docs []any
	s.store.Read(func(st *state) {
		docs = documents(st.Groups, "/", func(r *resource) object { return groupRecord{r}.document() })
	})
	if filter := c.r.URL.Query().Get("$filter"); filter != "" {
		wanted := tagFilter.FindStringSubmatch(filter)
		if wanted == nil {
			return nil, badRequest("InvalidFilterInQueryString", "Invalid $filter '%s' specified in the query string.", filter)
		}
		docs = slices.DeleteFunc(docs, func(doc any) bool { return tagsOf(doc.(object))[wanted[1]] == nil })
	}
	return s.page(c, docs), nil
}

func (s groups) work() map[string]job { return map[string]job{"group.delete": {s.remove, failGroup}} }

// delete deletes a group with all that it holds.
func (s groups) delete(c *call) (*reply, error) {
	rep := &reply{status: http.StatusAccepted}
	err := s.change(c, func(st *state) error {
		g := st.group(s.config.SubscriptionID, c.vars["group"])
		if g == nil {
			return refuse(http.StatusNotFound, "ResourceGroupNotFound", "Resource group '%s' could not be found.", c.vars["group"])
		}
		g.State = stateDeleting
		rep.operation = c.begin(st, operation{Kind: "group.delete", Target: g.ID, Latency: s.config.Latencies.Delete})
		return nil
	})
	return rep, err
}

// remove ends the machines of a group, and forgets everything in it. What is made meanwhile goes, too.
func (s groups) remove(ctx context.Context, op operation) (func(*state), error) {
	prefix := fold(op.Target) + "/"
	var machines, contents []string
	s.store.Read(func(st *state) {
		for key, i := range st.Instances {
			if strings.HasPrefix(key, prefix) {
				machines = append(machines, i.ID)
			}
		}
	})
	if err := s.machines.terminateAll(ctx, machines); err != nil {
		return nil, err
	}
	if err := s.wait(op, 1); err != nil {
		return nil, err
	}
	s.store.Read(func(st *state) {
		for key := range st.within(prefix) {
			contents = append(contents, key)
		}
	})
	for _, key := range contents {
		if id, ok := parseID(key); ok && hasContent(id) {
			if err := s.config.Fleet.DeleteDisk(ctx, diskOf(key)); err != nil {
				return nil, err
			}
		}
	}
	return func(st *state) {
		for key := range st.within(prefix) {
			st.remove(key)
		}
		for key := range st.Networks {
			if strings.HasPrefix(key, prefix) {
				delete(st.Networks, key)
			}
		}
		delete(st.Groups, fold(op.Target))
	}, nil
}

// within are the keys of all resources below a prefix.
func (st *state) within(prefix string) map[string]bool {
	all := map[string]bool{}
	note := func(key string) {
		if strings.HasPrefix(key, prefix) {
			all[key] = true
		}
	}
	for _, table := range []map[string]*resource{st.Galleries, st.Definitions} {
		for key := range table {
			note(key)
		}
	}
	for key := range st.Versions {
		note(key)
	}
	for key := range st.Snapshots {
		note(key)
	}
	for key := range st.Disks {
		note(key)
	}
	for key := range st.ScaleSets {
		note(key)
	}
	for key := range st.Instances {
		note(key)
	}
	return all
}

func failGroup(st *state, op operation, p *problem) {
	if g := st.Groups[fold(op.Target)]; g != nil {
		g.end(p)
	}
}

func (s groups) put(c *call) (*reply, error) {
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
		if g.State == stateDeleting {
			return groupDeleting(g.id().group)
		}
		g.Body = writable(c.body)
		rep.body = g.document()
		return nil
	})
	return rep, err
}

func groupDeleting(name string) *problem {
	return conflict("ResourceGroupBeingDeleted", "The resource group '%s' is in deprovisioning state and cannot perform this operation.", name)
}

func (s groups) subscriptionDocument() object {
	id := s.config.SubscriptionID
	return object{
		"id": "/subscriptions/" + id, "subscriptionId": id, "tenantId": s.config.TenantID, "displayName": "Sandbox",
		"state": "Enabled", "authorizationSource": "RoleBased", "managedByTenants": []any{},
		"subscriptionPolicies": object{"locationPlacementId": "Public_2014-09-01", "quotaId": "PayAsYouGo_2014-09-01", "spendingLimit": "Off"},
	}
}

func (s groups) getSubscription(*call) (*reply, error) { return ok(s.subscriptionDocument()), nil }

func (s groups) listSubscriptions(c *call) (*reply, error) {
	return s.page(c, []any{s.subscriptionDocument()}), nil
}

func (s groups) listTenants(c *call) (*reply, error) {
	id := s.config.TenantID
	return s.page(c, []any{object{"id": "/tenants/" + id, "tenantId": id, "displayName": "Sandbox", "tenantCategory": "Home"}}), nil
}

// endpoints returns the URLs of this cloud's services, without authentication.
func (s groups) endpoints(c *call) (*reply, error) {
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

// listLocations lists the single region.
func (s groups) listLocations(c *call) (*reply, error) {
	name := normalLocation(s.config.Location)
	return s.page(c, []any{object{"id": "/subscriptions/" + s.config.SubscriptionID + "/locations/" + name, "name": name,
		"displayName": displayLocation(name), "regionalDisplayName": displayLocation(name), "type": "Region"}}), nil
}
