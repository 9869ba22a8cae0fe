package azure

import (
	"context"
	"net/http"
)

const (
	vmRead   = "Microsoft.Compute/virtualMachines/read"
	vmWrite  = "Microsoft.Compute/virtualMachines/write"
	vmDelete = "Microsoft.Compute/virtualMachines/delete"
)

// vms are standalone VMs. Each VM is an instance with its own model.
type vms struct {
	*backend
	models   models
	machines machines
	views    views
}

func (s vms) routes() []*route {
	const noun = "vm"
	return []*route{
		{method: http.MethodGet, pattern: vmPath, noun: noun, operation: "get", action: vmRead, handle: s.get},
		{method: http.MethodPut, pattern: vmPath, noun: noun, operation: "put", action: vmWrite, handle: s.put},
		{method: http.MethodDelete, pattern: vmPath, noun: noun, operation: "delete", action: vmDelete, handle: s.delete},
	}
}

func (s vms) work() map[string]job {
	return map[string]job{"vm.create": {s.create, failCreate}}
}

func (c *call) vmID() resourceID { return c.compute("virtualMachines", "vm") }

func (s vms) get(c *call) (*reply, error) {
	var found instanceCopy
	known := false
	s.store.Read(func(st *state) {
		if i := st.Instances[c.vmID().key()]; i != nil {
			found, known = oneOf(i, st.setOf(i)), true
		}
	})
	if !known {
		return nil, notFound(c.vmID())
	}
	return ok(s.document(found, c.expandsView())), nil
}

// put creates a VM, or changes the tags of an existing VM.
func (s vms) put(c *call) (*reply, error) {
	if p := s.tracked(c); p != nil {
		return nil, p
	}
	id := c.vmID()
	rep := &reply{status: http.StatusOK}
	err := s.change(c, func(st *state) error {
		i := st.Instances[id.key()]
		if i == nil {
			rep.status = http.StatusCreated
			made, p := s.note(st, c, id)
			if p != nil {
				return p
			}
			rep.operation = c.begin(st, operation{Kind: "vm.create", Target: made.ID, Targets: []string{made.ID}, Lanes: []string{made.key()}})
			i = made
		} else if i.State == stateDeleting {
			return conflict("OperationNotAllowed", "The VM '%s' is being deleted.", id.name())
		} else if tags := tagsOf(c.body); tags != nil {
			body := copyObject(i.Body)
			body["tags"] = copyObject(tags)
			i.change(body, i.State)
		}
		rep.body = s.document(oneOf(i, st.setOf(i)), false)
		return nil
	})
	return rep, err
}

// note records a new VM and its model.
func (s vms) note(st *state, c *call, id resourceID) (*instance, *problem) {
	body := writable(c.body)
	profile := copyObject(child(body, "properties"))
	size := text(profile, "hardwareProfile", "vmSize")
	if size == "" || text(profile, "osProfile", "computerName") == "" {
		return nil, invalid("vmSize", "Required parameter 'hardwareProfile.vmSize' or 'osProfile.computerName' is missing (null).")
	}
	img, p := s.models.resolve(st, profile)
	if p != nil {
		return nil, p
	}
	for _, quota := range []string{"cores", familyOf(size)} {
		if p := s.withinQuota(st, quota, coresOf(size)); p != nil {
			return nil, p
		}
	}
	own := object{"location": s.config.Location, "tags": copyObject(tagsOf(body)), "sku": object{"name": size, "capacity": int64(1)}, "properties": object{}}
	set := &scaleSet{resource: newResource(id, own), Model: 1, Profiles: map[int64]object{1: profile}}
	shown := copyObject(own)
	delete(shown, "sku")
	i := &instance{resource: newResource(id, shown), Model: 1, VMID: newUUID(), Image: copyObject(img.reference), Exact: img.exact, Generation: img.generation}
	if zones := list(body, "zones"); len(zones) > 0 {
		i.Zone, _ = zones[0].(string)
	}
	s.machines.newDisk(st, set, i)
	st.Instances[i.key()], st.Alone[i.key()] = i, set
	return i, nil
}

func (s vms) create(ctx context.Context, op operation) (func(*state), error) {
	return nil, s.machines.createAll(ctx, op, op.Targets)
}

func failCreate(st *state, op operation, p *problem) {
	if i := st.Instances[fold(op.Target)]; i != nil {
		i.end(p)
	}
}

func (s vms) delete(c *call) (*reply, error) {
	id := c.vmID()
	rep := &reply{status: http.StatusNoContent}
	err := s.change(c, func(st *state) error {
		i := st.Instances[id.key()]
		if i == nil || i.State == stateDeleting {
			return nil
		}
		rep.status = http.StatusAccepted
		i.State = stateDeleting
		rep.operation = c.begin(st, operation{Kind: "instance.delete", Target: i.ID, Targets: []string{i.ID}})
		return nil
	})
	return rep, err
}

// document shows a VM.
func (s vms) document(o instanceCopy, view bool) object {
	i := o.instance
	doc := i.document()
	if i.Zone != "" {
		doc["zones"] = []any{i.Zone}
	}
	properties := child(doc, "properties")
	for _, part := range []string{"hardwareProfile", "networkProfile", "securityProfile", "osProfile", "diagnosticsProfile"} {
		if value := o.profile[part]; value != nil {
			properties[part] = value
		}
	}
	properties["vmId"], properties["timeCreated"] = i.VMID, s.date(i.Created)
	properties["storageProfile"] = storageOf(&i, o.profile)
	if view {
		properties["instanceView"] = s.views.instanceView(o)
	}
	return doc
}
