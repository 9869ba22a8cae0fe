package azure

import (
	"context"
	"net/http"
	"time"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// resourceAt finds a resource of any kind by its ID; nil if there is none.
func (st *state) resourceAt(id string) *resource {
	key := fold(id)
	for _, table := range []map[string]*resource{st.Groups, st.Galleries, st.Definitions} {
		if r := table[key]; r != nil {
			return r
		}
	}
	if r := st.Versions[key]; r != nil {
		return &r.resource
	}
	if r := st.Snapshots[key]; r != nil {
		return &r.resource
	}
	if r := st.Disks[key]; r != nil {
		return &r.resource
	}
	if r := st.ScaleSets[key]; r != nil {
		return &r.resource
	}
	if r := st.Instances[key]; r != nil {
		return &r.resource
	}
	return nil
}

// remove forgets a resource of any kind.
func (st *state) remove(id string) {
	key := fold(id)
	delete(st.Galleries, key)
	delete(st.Definitions, key)
	delete(st.Versions, key)
	delete(st.Snapshots, key)
	delete(st.Disks, key)
	delete(st.ScaleSets, key)
	delete(st.Instances, key)
}

// diskOf is how the fleet knows the content of a disk, snapshot or image version.
func diskOf(id string) fleet.DiskID { return fleet.DiskID(fold(id)) }

// hasContent reports whether the fleet holds a disk's content under the ID.
func hasContent(id resourceID) bool {
	return id.is("snapshots") || id.is("disks") || id.is("galleries/images/versions")
}

// settle is an operation without an effect of its own: a write takes its time. A resource that is being deleted stays
// so.
func (s *backend) settle(_ context.Context, op operation) (func(*state), error) {
	if err := s.wait(op, 1); err != nil {
		return nil, err
	}
	return func(st *state) { written(st, op, nil) }, nil
}

// written records the result of a write to a resource.
func written(st *state, op operation, p *problem) {
	if r := st.resourceAt(op.Target); r != nil && r.State != stateDeleting {
		r.end(p)
	}
}

func failRemoval(st *state, op operation, p *problem) {
	if r := st.resourceAt(op.Target); r != nil {
		r.end(p)
	}
}

// runDelete deletes a resource and its content.
func (s *backend) runDelete(ctx context.Context, op operation) (func(*state), error) {
	if err := s.wait(op, 1); err != nil {
		return nil, err
	}
	id, _ := parseID(op.Target)
	if hasContent(id) {
		if err := s.config.Fleet.DeleteDisk(ctx, diskOf(op.Target)); err != nil {
			return nil, err
		}
	}
	return func(st *state) { st.remove(op.Target) }, nil
}

// beginDelete starts the deletion of a resource, unless check refuses. Deleting a missing resource is 204.
func (s *backend) beginDelete(c *call, id resourceID, latency time.Duration, check func(*state) *problem) (*reply, error) {
	rep := &reply{status: http.StatusNoContent}
	err := s.change(c, func(st *state) error {
		r := st.resourceAt(id.String())
		if r == nil {
			return nil
		}
		if check != nil {
			if p := check(st); p != nil {
				return p
			}
		}
		r.State = stateDeleting
		rep.status = http.StatusAccepted
		rep.operation = c.begin(st, operation{Kind: "resource.delete", Target: r.ID, Latency: latency})
		return nil
	})
	return rep, err
}

// newResource is a resource created by a PUT.
func newResource(id resourceID, body object) resource {
	return resource{ID: id.String(), Body: body, State: stateCreating, Created: time.Now().UTC(), Revision: 1}
}

// tagsOf reads tags; a client may send null.
func tagsOf(body object) object {
	tags, _ := body["tags"].(object)
	return tags
}

// lookUp answers a GET by a document, or says that there is none.
func (s *backend) lookUp(id resourceID, find func(*state, string) object) (*reply, error) {
	var doc object
	s.store.Read(func(st *state) { doc = find(st, id.key()) })
	if doc == nil {
		return nil, notFound(id)
	}
	return ok(doc), nil
}

// putSimple creates or replaces a resource without further effects. check returns the table of the resource, or a
// refusal. The quota applies to new resources only.
func (s *backend) putSimple(c *call, id resourceID, check func(*state) (map[string]*resource, *problem)) (*reply, error) {
	rep := &reply{status: http.StatusOK}
	body := writable(c.body)
	err := s.change(c, func(st *state) error {
		table, p := check(st)
		old := st.resourceAt(id.String())
		switch {
		case p != nil && (old == nil || p.Code != quotaCode):
			return p
		case old == nil:
			r := newResource(id, body)
			table[id.key()] = &r
			old, rep.status = &r, http.StatusCreated
		case old.State == stateDeleting:
			return conflict("Conflict", "The request failed due to conflict with a concurrent request. The resource '%s' is being deleted.", id.name())
		default:
			old.change(body, stateUpdating)
		}
		rep.operation = c.begin(st, operation{Kind: "resource.settle", Target: old.ID, Latency: s.config.Latencies.Gallery})
		rep.body = old.document()
		return nil
	})
	return rep, err
}

// patchSimple merges a change; check compares the old and the new resource.
func (s *backend) patchSimple(c *call, id resourceID, check func(old, next object) *problem) (*reply, error) {
	rep := &reply{status: http.StatusOK}
	err := s.change(c, func(st *state) error {
		r := st.resourceAt(id.String())
		if r == nil {
			return notFound(id)
		}
		next := mergePatch(r.Body, writable(c.body))
		if check != nil {
			if p := check(r.Body, next); p != nil {
				return p
			}
		}
		r.change(next, stateUpdating)
		rep.operation = c.begin(st, operation{Kind: "resource.settle", Target: r.ID, Latency: s.config.Latencies.Gallery})
		rep.body = r.document()
		return nil
	})
	return rep, err
}
