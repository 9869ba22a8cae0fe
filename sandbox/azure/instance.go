package azure

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

const (
	instanceRead   = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read"
	instanceWrite  = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/write"
	instanceDelete = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/delete"
)

// instances are the instances of scale sets, for clients.
type instances struct {
	*backend
	views views
}

func (s instances) routes() []*route {
	const noun = "instance"
	return []*route{
		{method: http.MethodGet, pattern: instancePath, noun: noun, operation: "get", action: instanceRead, handle: s.get},
		{method: http.MethodGet, pattern: instancePath + "/instanceView", noun: noun, operation: "view",
			action: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/instanceView/read", handle: s.getView},
		{method: http.MethodPut, pattern: instancePath, noun: noun, operation: "put", action: instanceWrite, handle: s.put},
		{method: http.MethodDelete, pattern: instancePath, noun: noun, operation: "delete", action: instanceDelete, handle: s.delete},
		{method: http.MethodGet, pattern: scaleSetPath + "/virtualMachines", noun: noun, operation: "list", action: instanceRead, handle: s.list},
	}
}

func (c *call) instanceID() resourceID {
	return c.compute("virtualMachineScaleSets", "scaleset", "virtualMachines", "instance")
}

// entityNotFound is Compute's answer for a missing instance.
func entityNotFound() *problem {
	return refuse(http.StatusNotFound, "NotFound", "The entity was not found in this Azure location.")
}

// computerName is the VM's own, or the scale set's prefix and the number in base 36, six places.
func computerName(profile object, number int64) string {
	if own := text(profile, "osProfile", "computerName"); own != "" {
		return own
	}
	suffix := strconv.FormatInt(number, 36)
	return text(profile, "osProfile", "computerNamePrefix") + strings.Repeat("0", max(0, 6-len(suffix))) + strings.ToUpper(suffix)
}

// instanceCopy is a copy of an instance with its scale set, and its profile without secrets. The profile may be shared, and is
// read-only.
type instanceCopy struct {
	instance instance
	set      scaleSet
	profile  object
}

func oneOf(i *instance, set *scaleSet) instanceCopy {
	return instanceCopy{*i, *set, withoutSecrets(set.Profiles[i.Model])}
}

func (s instances) findAll(id resourceID) ([]instanceCopy, bool) {
	var out []instanceCopy
	known := false
	s.store.Read(func(st *state) {
		set := st.ScaleSets[id.key()]
		if set == nil {
			return
		}
		known = true
		profiles := map[int64]object{}
		for model, profile := range set.Profiles {
			profiles[model] = withoutSecrets(profile)
		}
		for _, i := range st.instancesOf(set) {
			out = append(out, instanceCopy{*i, *set, profiles[i.Model]})
		}
	})
	return out, known
}

func (s instances) find(id resourceID) (instanceCopy, *problem) {
	var found instanceCopy
	var p *problem
	s.store.Read(func(st *state) {
		set := st.ScaleSets[id.parent().key()]
		i := st.Instances[id.key()]
		switch {
		case set == nil:
			p = notFound(id.parent())
		case i == nil:
			p = entityNotFound()
		default:
			found = oneOf(i, set)
		}
	})
	return found, p
}

func (c *call) expandsView() bool {
	return strings.Contains(fold(c.r.URL.Query().Get("$expand")), "instanceview")
}

func (s instances) get(c *call) (*reply, error) {
	o, p := s.find(c.instanceID())
	if p != nil {
		return nil, p
	}
	return ok(s.document(o, c.expandsView())), nil
}

func (s instances) getView(c *call) (*reply, error) {
	o, p := s.find(c.instanceID())
	if p != nil {
		return nil, p
	}
	return ok(s.views.instanceView(o)), nil
}

func (s instances) list(c *call) (*reply, error) {
	all, known := s.findAll(c.scaleSetID())
	if !known {
		return nil, notFound(c.scaleSetID())
	}
	return s.pageOf(c, len(all), func(n int) any { return s.document(all[n], c.expandsView()) }), nil
}

// put changes the tags and the protection of an instance. Omitted properties stay: Kubernetes' cloud provider sends
// only disks.
func (s instances) put(c *call) (*reply, error) {
	if p := s.tracked(c); p != nil {
		return nil, p
	}
	id := c.instanceID()
	rep := &reply{status: http.StatusOK}
	err := s.change(c, func(st *state) error {
		i := st.Instances[id.key()]
		set := st.setOf(i)
		if set == nil {
			return entityNotFound()
		}
		if i.State == stateDeleting {
			return conflict("OperationNotAllowed", "The instance '%s' is being deleted.", i.ID)
		}
		if p := condition(c.r, i.etag(), true); p != nil {
			return p
		}
		body := copyObject(i.Body)
		if policy := child(c.body, "properties", "protectionPolicy"); policy != nil {
			put(body, copyObject(policy), "properties", "protectionPolicy")
		}
		if tags := tagsOf(c.body); tags != nil {
			body["tags"] = copyObject(tags)
		}
		i.change(body, stateUpdating)
		rep.operation = c.begin(st, operation{Kind: "resource.settle", Target: i.ID, Latency: s.config.Latencies.Instance, Lanes: []string{i.key() + "#model"}})
		rep.body = s.document(oneOf(i, set), false)
		return nil
	})
	return rep, err
}

func (i *instance) etag() string { return fmt.Sprintf(`"%d"`, i.Revision) }

// delete removes an instance for good: the scale set is smaller afterwards.
func (s instances) delete(c *call) (*reply, error) {
	id := c.instanceID()
	rep := &reply{status: http.StatusNoContent}
	err := s.change(c, func(st *state) error {
		i := st.Instances[id.key()]
		set := st.setOf(i)
		if set == nil || i.State == stateDeleting {
			return nil
		}
		rep.status = http.StatusAccepted
		i.State = stateDeleting
		set.setCapacity(set.capacity() - 1)
		rep.operation = c.begin(st, operation{Kind: "instance.delete", Target: i.ID, Targets: []string{i.ID}})
		return nil
	})
	return rep, err
}

// document shows an instance with the model of its creation.
func (s instances) document(o instanceCopy, view bool) object {
	i, set, profile := o.instance, o.set, o.profile
	doc := i.document()
	doc["name"] = fmt.Sprintf("%s_%d", set.id().name(), i.Number)
	doc["instanceId"] = strconv.FormatInt(i.Number, 10)
	doc["etag"] = i.etag()
	if i.Zone != "" {
		doc["zones"] = []any{i.Zone}
	}
	properties := child(doc, "properties")
	properties["latestModelApplied"] = i.Model == set.Model
	properties["modelDefinitionApplied"] = "VirtualMachineScaleSet"
	properties["vmId"] = i.VMID
	properties["timeCreated"] = s.date(i.Created)
	properties["hardwareProfile"] = object{}
	properties["storageProfile"] = storageOf(&i, profile)
	if network := profile["networkProfile"]; network != nil {
		properties["networkProfileConfiguration"] = network
		properties["networkProfile"] = object{"networkInterfaces": []any{object{"id": i.ID + "/networkInterfaces/nic"}}}
	}
	for _, part := range []string{"securityProfile", "diagnosticsProfile"} {
		if value := profile[part]; value != nil {
			properties[part] = value
		}
	}
	os := copyObject(child(profile, "osProfile"))
	delete(os, "computerNamePrefix")
	os["computerName"] = fold(computerName(profile, i.Number))
	os["allowExtensionOperations"] = true
	properties["osProfile"] = os
	resources := []any{}
	for _, e := range extensionsOf(profile) {
		p := copyObject(child(e, "properties"))
		p["provisioningState"] = stateSucceeded
		name := text(e, "name")
		resources = append(resources, object{"name": name, "id": i.ID + "/extensions/" + name, "location": s.config.Location,
			"type": "Microsoft.Compute/virtualMachines/extensions", "properties": p})
	}
	doc["resources"] = resources
	if view {
		properties["instanceView"] = s.views.instanceView(o)
	}
	return doc
}

// storageOf is the storage profile of an instance.
func storageOf(i *instance, profile object) object {
	storage := copyObject(child(profile, "storageProfile"))
	ref := copyObject(i.Image)
	if i.Exact != "" {
		ref["exactVersion"] = i.Exact
	}
	storage["imageReference"] = ref
	parsed, _ := parseID(i.Disk)
	os := copyObject(child(storage, "osDisk"))
	os["name"] = parsed.name()
	managed := copyObject(child(os, "managedDisk"))
	managed["id"] = i.Disk
	os["managedDisk"] = managed
	storage["osDisk"] = os
	storage["dataDisks"] = dataDisksOf(i, list(storage, "dataDisks"))
	return storage
}
