package azure

import (
	"context"
	"net/http"
	"strings"
)

// disks are disks of instances, and disks of clients.
type disks struct {
	*backend
	permissions permissions
	contents    contents
}

func (s disks) routes() []*route {
	const noun, read, write = "disk", "Microsoft.Compute/disks/read", diskWrite
	return []*route{
		{method: http.MethodGet, pattern: diskPath, noun: noun, operation: "get", action: read, handle: s.get},
		{method: http.MethodPut, pattern: diskPath, noun: noun, operation: "put", action: write, handle: s.put},
		{method: http.MethodPatch, pattern: diskPath, noun: noun, operation: "patch", action: write, handle: s.patch},
		{method: http.MethodDelete, pattern: diskPath, noun: noun, operation: "delete", action: "Microsoft.Compute/disks/delete", handle: s.delete},
		{method: http.MethodGet, pattern: computePath + "/disks", noun: noun, operation: "list", action: read, handle: s.list},
		{method: http.MethodGet, pattern: subscriptionPath + "/providers/Microsoft.Compute/disks", noun: noun, operation: "list",
			action: read, handle: s.list},
	}
}

func (s disks) work() map[string]job { return map[string]job{"disk.create": {s.make, written}} }

func (c *call) diskID() resourceID { return c.compute("disks", "disk") }

// document shows a disk.
func (s disks) document(d *disk) object {
	doc := d.document()
	properties := child(doc, "properties")
	properties["timeCreated"] = s.date(d.Created)
	properties["uniqueId"] = uuidOf(d.ID + d.Created.String())
	properties["diskState"] = "Unattached"
	if d.Owner != "" {
		properties["diskState"] = "Attached"
		doc["managedBy"] = d.Owner
	}
	delete(doc, "sandboxLight")
	return doc
}

func (s disks) get(c *call) (*reply, error) {
	return s.lookUp(c.diskID(), func(st *state, key string) object {
		if d := st.Disks[key]; d != nil {
			return s.document(d)
		}
		return nil
	})
}

func (s disks) list(c *call) (*reply, error) {
	var docs []any
	s.store.Read(func(st *state) { docs = documents(st.Disks, c.scopePrefix(), s.document) })
	return s.page(c, docs), nil
}

// put creates a disk from a snapshot or another disk, or changes an existing disk.
func (s disks) put(c *call) (*reply, error) {
	id := c.diskID()
	if !diskName.MatchString(id.name()) {
		return nil, invalid("diskName", "The entity name 'diskName' is invalid according to its validation rule: '%s'.", id.name())
	}
	if p := s.tracked(c); p != nil {
		return nil, p
	}
	body := writable(c.body)
	source := text(body, "properties", "creationData", "sourceResourceId")
	for action, linked := range map[string]string{
		"Microsoft.Compute/disks/beginGetAccess/action": source,
		"Microsoft.Compute/diskEncryptionSets/read":     text(body, "properties", "encryption", "diskEncryptionSetId"),
	} {
		if p := s.permissions.authorizeLinked(c, action, linked); linked != "" && p != nil {
			return nil, p
		}
	}
	rep := &reply{status: http.StatusAccepted}
	err := s.change(c, func(st *state) error {
		if old := st.Disks[id.key()]; old != nil {
			if old.State == stateDeleting {
				return conflict("OperationNotAllowed", "The disk '%s' is being deleted.", id.name())
			}
			if !strings.EqualFold(text(old.Body, "properties", "creationData", "sourceResourceId"), source) {
				return changeNotAllowed("disk.creationData.sourceResourceId")
			}
			old.change(mergePatch(old.Body, body), stateUpdating)
			rep.operation = c.begin(st, operation{Kind: "resource.settle", Target: old.ID, Latency: s.config.Latencies.Delete})
			rep.body = s.document(old)
			return nil
		}
		if source == "" {
			return invalid("disk.properties.creationData", "The sandbox makes disks by createOption 'Copy' from a snapshot or disk only.")
		}
		if src := st.resourceAt(source); src == nil || src.State != stateSucceeded {
			return refuse(http.StatusNotFound, "ResourceNotFound", "The source resource '%s' could not be found.", source)
		}
		d := &disk{resource: newResource(id, fromDisk(st, body, source))}
		st.Disks[id.key()] = d
		rep.operation = c.begin(st, operation{Kind: "disk.create", Target: d.ID, Latency: s.config.Latencies.Snapshot})
		rep.body = s.document(d)
		return nil
	})
	return rep, err
}

func (s disks) make(ctx context.Context, op operation) (func(*state), error) {
	var source string
	s.store.Read(func(st *state) {
		source = text(st.Disks[fold(op.Target)].Body, "properties", "creationData", "sourceResourceId")
	})
	if err := s.contents.copyOnce(ctx, op, source); err != nil {
		return nil, err
	}
	return s.settle(ctx, op)
}

func (s disks) patch(c *call) (*reply, error) {
	id := c.diskID()
	rep := &reply{status: http.StatusOK}
	err := s.change(c, func(st *state) error {
		d := st.Disks[id.key()]
		if d == nil {
			return notFound(id)
		}
		d.change(mergePatch(d.Body, writable(c.body)), d.State)
		rep.body = s.document(d)
		return nil
	})
	return rep, err
}

func (s disks) delete(c *call) (*reply, error) {
	id := c.diskID()
	return s.beginDelete(c, id, s.config.Latencies.Delete, func(st *state) *problem {
		if holder := st.holderOf(st.Disks[id.key()]); holder != nil {
			return conflict("OperationNotAllowed", "Disk %s is attached to VM %s.", id.name(), holder.ID)
		}
		return nil
	})
}
