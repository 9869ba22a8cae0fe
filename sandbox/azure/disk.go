package azure

import (
	"context"
	"net/http"
)

func diskRoutes() []*route {
	const noun, read, write = "disk", "Microsoft.Compute/disks/read", "Microsoft.Compute/disks/write"
	return []*route{
		{method: http.MethodGet, pattern: diskPath, noun: noun, operation: "get", action: read, handle: (*Server).getDisk},
		{method: http.MethodPut, pattern: diskPath, noun: noun, operation: "put", action: write, handle: (*Server).putDisk},
		{method: http.MethodPatch, pattern: diskPath, noun: noun, operation: "patch", action: write, handle: (*Server).patchDisk},
		{method: http.MethodDelete, pattern: diskPath, noun: noun, operation: "delete", action: "Microsoft.Compute/disks/delete", handle: (*Server).deleteDisk},
		{method: http.MethodGet, pattern: computePath + "/disks", noun: noun, operation: "list", action: read, handle: (*Server).listDisks},
		{method: http.MethodGet, pattern: subscriptionPath + "/providers/Microsoft.Compute/disks", noun: noun, operation: "list",
			action: read, handle: (*Server).listDisks},
	}
}

func (c *call) diskID() resourceID { return c.compute("disks", "disk") }

// diskDocument shows a disk.
func (s *Server) diskDocument(d *disk) object {
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

func (s *Server) getDisk(c *call) (*reply, error) {
	return s.lookUp(c.diskID(), func(st *state, key string) object {
		if d := st.Disks[key]; d != nil {
			return s.diskDocument(d)
		}
		return nil
	})
}

func (s *Server) listDisks(c *call) (*reply, error) {
	var docs []any
	s.store.read(func(st *state) { docs = documents(st.Disks, c.scopePrefix(), s.diskDocument) })
	return s.page(c, docs), nil
}

// putDisk makes a disk from a snapshot or another disk, or changes one that exists.
func (s *Server) putDisk(c *call) (*reply, error) {
	id := c.diskID()
	if !diskName.MatchString(id.name()) {
		return nil, invalid("diskName", "The entity name 'diskName' is invalid according to its validation rule: '%s'.", id.name())
	}
	if p := s.tracked(c); p != nil {
		return nil, p
	}
	body := writable(c.body)
	source := text(body, "properties", "creationData", "sourceResourceId")
	rep := &reply{status: http.StatusAccepted}
	err := s.change(c, func(st *state) error {
		if old := st.Disks[id.key()]; old != nil {
			old.change(mergePatch(old.Body, body), stateUpdating)
			rep.operation = c.begin(st, operation{Kind: "resource.settle", Target: old.ID, Latency: s.config.Latencies.Delete})
			rep.body = s.diskDocument(old)
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
		rep.body = s.diskDocument(d)
		return nil
	})
	return rep, err
}

func runDisk(ctx context.Context, s *Server, op operation) (func(*state), error) {
	var source string
	s.store.read(func(st *state) {
		source = text(st.Disks[fold(op.Target)].Body, "properties", "creationData", "sourceResourceId")
	})
	if err := s.step(op, "copied", func() error { return s.copy(ctx, op.Target, source) }); err != nil {
		return nil, err
	}
	return runSettle(ctx, s, op)
}

func (s *Server) patchDisk(c *call) (*reply, error) {
	id := c.diskID()
	rep := &reply{status: http.StatusOK}
	err := s.change(c, func(st *state) error {
		d := st.Disks[id.key()]
		if d == nil {
			return notFound(id)
		}
		d.change(mergePatch(d.Body, writable(c.body)), d.State)
		rep.body = s.diskDocument(d)
		return nil
	})
	return rep, err
}

func (s *Server) deleteDisk(c *call) (*reply, error) {
	id := c.diskID()
	return s.delete(c, id, s.config.Latencies.Delete, func(st *state) *problem {
		if owner := st.Disks[id.key()].Owner; owner != "" {
			return conflict("OperationNotAllowed", "Disk %s is attached to VM %s.", id.name(), owner)
		}
		return nil
	})
}
