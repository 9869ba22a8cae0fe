package azure

import (
	"fmt"
	"net/http"
	"strings"
)

const (
	scaleSetRead   = "Microsoft.Compute/virtualMachineScaleSets/read"
	scaleSetWrite  = "Microsoft.Compute/virtualMachineScaleSets/write"
	scaleSetDelete = "Microsoft.Compute/virtualMachineScaleSets/delete"
)

// scaleSets are pools and their models.
type scaleSets struct {
	*backend
	models models
	views  views
}

func (s scaleSets) routes() []*route {
	const noun = "pool"
	return []*route{
		{method: http.MethodGet, pattern: scaleSetPath, noun: noun, operation: "get", action: scaleSetRead, handle: s.get},
		{method: http.MethodPut, pattern: scaleSetPath, noun: noun, operation: "put", action: scaleSetWrite, handle: s.put},
		{method: http.MethodPatch, pattern: scaleSetPath, noun: noun, operation: "patch", action: scaleSetWrite, handle: s.patch},
		{method: http.MethodDelete, pattern: scaleSetPath, noun: noun, operation: "delete", action: scaleSetDelete, handle: s.delete},
		{method: http.MethodGet, pattern: scaleSetPath + "/instanceView", noun: noun, operation: "view",
			action: "Microsoft.Compute/virtualMachineScaleSets/instanceView/read", handle: s.getView},
		{method: http.MethodGet, pattern: computePath + "/virtualMachineScaleSets", noun: noun, operation: "list", action: scaleSetRead, handle: s.list},
		{method: http.MethodGet, pattern: subscriptionPath + "/providers/Microsoft.Compute/virtualMachineScaleSets", noun: noun, operation: "list",
			action: scaleSetRead, handle: s.list},
	}
}

func (c *call) scaleSetID() resourceID { return c.compute("virtualMachineScaleSets", "scaleset") }

// document shows a scale set without write-only properties.
func (s scaleSets) document(set *scaleSet) object {
	doc := set.document()
	properties := child(doc, "properties")
	properties["timeCreated"] = s.date(set.Created)
	properties["uniqueId"] = uuidOf(set.ID + set.Created.String())
	properties["virtualMachineProfile"] = withoutSecrets(set.profile())
	doc["etag"] = set.etag()
	return doc
}

func (s *scaleSet) etag() string { return fmt.Sprintf(`"%d"`, s.Revision) }

func (s scaleSets) get(c *call) (*reply, error) {
	rep, err := s.lookUp(c.scaleSetID(), func(st *state, key string) object {
		if set := st.ScaleSets[key]; set != nil {
			return s.document(set)
		}
		return nil
	})
	if err == nil {
		rep.header = http.Header{"Etag": {text(rep.body.(object), "etag")}}
	}
	return rep, err
}

func (s scaleSets) list(c *call) (*reply, error) {
	var docs []any
	s.store.Read(func(st *state) { docs = documents(st.ScaleSets, c.scopePrefix(), s.document) })
	return s.page(c, docs), nil
}

// condition checks If-Match and If-None-Match; revision 0 means that the resource does not exist.
func condition(r *http.Request, etag string, exists bool) *problem {
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	if (match == "" || exists && (match == "*" || match == etag)) && (none == "" || !exists || none != "*" && none != etag) {
		return nil
	}
	return refuse(http.StatusPreconditionFailed, "PreconditionFailed",
		"The condition '%s' specified using HTTP conditional header(s) is not met. The current ETag is '%s'.", match+none, etag)
}

func (s scaleSets) put(c *call) (*reply, error) {
	if p := s.tracked(c); p != nil {
		return nil, p
	}
	id := c.scaleSetID()
	body := writable(c.body)
	rep := &reply{status: http.StatusOK}
	err := s.change(c, func(st *state) error {
		set := st.ScaleSets[id.key()]
		etag := ""
		if set != nil {
			etag = set.etag()
		}
		if p := condition(c.r, etag, set != nil); p != nil {
			return p
		}
		if set == nil {
			rep.status = http.StatusCreated
			return s.create(st, c, id, body, rep)
		}
		next := keepOmitted(set, body)
		return s.write(st, c, set, next, rep)
	})
	return rep, err
}

// patch merges the change into the model, secrets included.
func (s scaleSets) patch(c *call) (*reply, error) {
	id := c.scaleSetID()
	rep := &reply{status: http.StatusOK}
	err := s.change(c, func(st *state) error {
		set := st.ScaleSets[id.key()]
		if set == nil {
			return notFound(id)
		}
		if p := condition(c.r, set.etag(), true); p != nil {
			return p
		}
		whole := copyObject(set.Body)
		put(whole, copyObject(set.profile()), "properties", "virtualMachineProfile")
		next := mergePatch(whole, writable(c.body))
		keepProtected(set.profile(), child(next, "properties", "virtualMachineProfile"))
		return s.write(st, c, set, next, rep)
	})
	return rep, err
}

// create creates the scale set; the operation creates its instances.
func (s scaleSets) create(st *state, c *call, id resourceID, body object, rep *reply) error {
	profile := child(body, "properties", "virtualMachineProfile")
	if profile == nil {
		return invalid("virtualMachineProfile", "Required parameter 'virtualMachineProfile' is missing (null).")
	}
	delete(child(body, "properties"), "virtualMachineProfile")
	if text(body, "properties", "orchestrationMode") == "" {
		put(body, "Uniform", "properties", "orchestrationMode")
	}
	capacity, _ := number(body, "sku", "capacity")
	if p := s.models.check(st, body, profile, capacity); p != nil {
		return p
	}
	if p := s.withinQuota(st, "virtualMachineScaleSets", 1); p != nil {
		return p
	}
	set := &scaleSet{resource: newResource(id, body), Model: 1, Profiles: map[int64]object{1: profile}}
	st.ScaleSets[id.key()] = set
	rep.operation = c.begin(st, operation{Kind: "scaleset.apply", Target: set.ID, Latency: s.config.Latencies.Model})
	rep.body = s.document(set)
	return nil
}

// write replaces the model by next, the virtual machine profile within it, and lets the scale set
// follow.
func (s scaleSets) write(st *state, c *call, set *scaleSet, next object, rep *reply) error {
	if set.State == stateDeleting {
		return conflict("OperationNotAllowed", "The virtual machine scale set '%s' is being deleted.", set.id().name())
	}
	profile := child(next, "properties", "virtualMachineProfile")
	delete(child(next, "properties"), "virtualMachineProfile")
	capacity, _ := number(next, "sku", "capacity")
	if p := s.models.check(st, next, profile, capacity-set.capacity()); p != nil {
		return p
	}
	if p := samePool(set, next, profile); p != nil {
		return p
	}
	if capacity > maxInstances && capacity > set.capacity() && !set.Light {
		return invalid("sku.capacity", "The capacity %d exceeds the maximum of %d instances of a virtual machine scale set.", capacity, maxInstances)
	}
	if p := withinModels(st, set, profile, capacity); p != nil {
		return p
	}
	set.change(next, stateUpdating)
	set.setProfile(st, profile)
	rep.operation = c.begin(st, operation{Kind: "scaleset.apply", Target: set.ID, Latency: s.config.Latencies.Model})
	rep.body = s.document(set)
	return nil
}

// maxModels is how many models the instances of a scale set may refer to, the latest one included.
const maxModels = 10

// withinModels refuses growth where the new instances would be of a model too many. The words are Azure's.
func withinModels(st *state, set *scaleSet, profile object, capacity int64) *problem {
	if capacity <= set.capacity() {
		return nil
	}
	models := map[int64]bool{}
	for _, i := range st.instancesOf(set) {
		if i.State != stateDeleting && (i.Model != set.Model || !same(set.profile(), profile)) {
			models[i.Model] = true
		}
	}
	if len(models) < maxModels {
		return nil
	}
	return conflict("OperationNotAllowed", "Virtual Machine Scale Set '%s' has reached its limit of %d models that may be referenced by one or more VMs "+
		"belonging to the Virtual Machine Scale Set. Upgrade the VMs to the latest model of the Virtual Machine Scale Set before trying again.",
		set.id().name(), maxModels)
}

// setProfile creates a new generation if the profile differs, and deletes unused generations.
func (s *scaleSet) setProfile(st *state, profile object) {
	profiles := map[int64]object{s.Model: s.profile()}
	for _, i := range st.instancesOf(s) {
		profiles[i.Model] = s.Profiles[i.Model]
	}
	if !same(s.profile(), profile) {
		s.Model++
		profiles[s.Model] = profile
	}
	s.Profiles = profiles
}

// samePool refuses changes of a scale set's immutable properties.
func samePool(set *scaleSet, next, profile object) *problem {
	for _, path := range [][]string{{"osProfile", "computerNamePrefix"}, {"osProfile", "adminUsername"}, {"storageProfile", "osDisk", "osType"}} {
		if !same(at(set.profile(), path...), at(profile, path...)) {
			return changeNotAllowed(strings.Join(path, "."))
		}
	}
	if !strings.EqualFold(text(set.Body, "properties", "orchestrationMode"), text(next, "properties", "orchestrationMode")) {
		return changeNotAllowed("orchestrationMode")
	}
	return nil
}

func (s scaleSets) delete(c *call) (*reply, error) {
	id := c.scaleSetID()
	rep := &reply{status: http.StatusNoContent}
	err := s.change(c, func(st *state) error {
		set := st.ScaleSets[id.key()]
		if set == nil {
			return nil
		}
		set.State = stateDeleting
		rep.status = http.StatusAccepted
		rep.operation = c.begin(st, operation{Kind: "scaleset.delete", Target: set.ID, Latency: s.config.Latencies.Terminate})
		return nil
	})
	return rep, err
}

// getView counts the instances by state.
func (s scaleSets) getView(c *call) (*reply, error) {
	id := c.scaleSetID()
	known := false
	var all []instance
	own := object{"code": "ProvisioningState/succeeded", "level": "Info", "displayStatus": "Provisioning succeeded"}
	s.store.Read(func(st *state) {
		if set := st.ScaleSets[id.key()]; set != nil {
			known = true
			if set.Error != nil {
				own = object{"code": provisioningText[stateFailed][0] + "/" + set.Error.Code, "level": "Error",
					"displayStatus": provisioningText[stateFailed][1], "message": set.Error.Message}
			}
			for _, i := range st.instancesOf(set) {
				all = append(all, *i)
			}
		}
	})
	if !known {
		return nil, notFound(id)
	}
	counts := map[string]int{}
	var order []string
	for i := range all {
		for _, status := range s.views.statuses(&all[i]) {
			code := text(status.(object), "code")
			if counts[code]++; counts[code] == 1 {
				order = append(order, code)
			}
		}
	}
	summary := []any{}
	for _, code := range order {
		summary = append(summary, object{"code": code, "count": counts[code]})
	}
	return ok(object{"virtualMachine": object{"statusesSummary": summary}, "statuses": []any{own}, "extensions": []any{}}), nil
}
