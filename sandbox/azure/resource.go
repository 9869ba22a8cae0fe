package azure

import (
	"context"
	"net/http"
	"slices"
	"strings"
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

// hasContent tells whether the fleet keeps a disk's content under the ID.
func hasContent(id resourceID) bool {
	return id.is("snapshots") || id.is("disks") || id.is("galleries/images/versions")
}

// runSettle is an operation without an effect of its own: what was written takes its time.
func runSettle(_ context.Context, s *Server, op operation) (func(*state), error) {
	if err := s.wait(op, 1); err != nil {
		return nil, err
	}
	return func(st *state) {
		if r := st.resourceAt(op.Target); r != nil {
			r.end(nil)
		}
	}, nil
}

func failSettle(st *state, op operation, p *problem) {
	if r := st.resourceAt(op.Target); r != nil {
		r.end(p)
	}
}

// runDelete removes a resource and its content.
func runDelete(ctx context.Context, s *Server, op operation) (func(*state), error) {
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

// delete starts the deletion of what the call names, unless check refuses it. Deleting nothing is 204.
func (s *Server) delete(c *call, id resourceID, latency time.Duration, check func(*state) *problem) (*reply, error) {
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

// newResource is one that a PUT makes.
func newResource(id resourceID, body object) resource {
	return resource{ID: id.String(), Body: body, State: stateCreating, Created: time.Now().UTC(), Revision: 1}
}

// date is how a document tells a real moment.
func (s *Server) date(real time.Time) string { return s.config.Clock.At(real).Format(time.RFC3339Nano) }

// documents renders a table's resources under an ID prefix, in the order of their names.
func documents[T any](table map[string]*T, prefix string, render func(*T) object) []any {
	var keys []string
	for k := range table {
		if strings.HasPrefix(k, fold(prefix)) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	out := make([]any, 0, len(keys))
	for _, k := range keys {
		out = append(out, render(table[k]))
	}
	return out
}

// tagsOf reads tags; a client may send null.
func tagsOf(body object) object {
	tags, _ := body["tags"].(object)
	return tags
}
