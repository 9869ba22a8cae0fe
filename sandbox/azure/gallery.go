package azure

import (
	"net/http"
	"regexp"
	"strings"
)

const (
	galleryRead   = "Microsoft.Compute/galleries/read"
	galleryWrite  = "Microsoft.Compute/galleries/write"
	galleryDelete = "Microsoft.Compute/galleries/delete"
)

func galleryRoutes() []*route {
	const noun = "gallery"
	return []*route{
		{method: http.MethodGet, pattern: galleryPath, noun: noun, operation: "get", action: galleryRead, handle: (*Server).getGallery},
		{method: http.MethodPut, pattern: galleryPath, noun: noun, operation: "put", action: galleryWrite, handle: (*Server).putGallery},
		{method: http.MethodPatch, pattern: galleryPath, noun: noun, operation: "patch", action: galleryWrite, handle: (*Server).patchGallery},
		{method: http.MethodDelete, pattern: galleryPath, noun: noun, operation: "delete", action: galleryDelete, handle: (*Server).deleteGallery},
		{method: http.MethodGet, pattern: computePath + "/galleries", noun: noun, operation: "list", action: galleryRead, handle: (*Server).listGalleries},
		{method: http.MethodGet, pattern: subscriptionPath + "/providers/Microsoft.Compute/galleries", noun: noun, operation: "list",
			action: galleryRead, handle: (*Server).listGalleries},
	}
}

// galleryName: letters, digits, dots and underscores; no dashes.
var galleryName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.]{0,78}[A-Za-z0-9])?$`)

func (c *call) galleryID() resourceID { return c.compute("galleries", "gallery") }

func (s *Server) getGallery(c *call) (*reply, error) {
	return s.lookUp(c.galleryID(), func(st *state, key string) object {
		if r := st.Galleries[key]; r != nil {
			return r.document()
		}
		return nil
	})
}

// lookUp answers a GET by a document, or says that there is none.
func (s *Server) lookUp(id resourceID, find func(*state, string) object) (*reply, error) {
	var doc object
	s.store.read(func(st *state) { doc = find(st, id.key()) })
	if doc == nil {
		return nil, notFound(id)
	}
	return ok(doc), nil
}

// scopePrefix is what the IDs of a list's resources begin with.
func (c *call) scopePrefix() string {
	if c.vars["group"] == "" {
		return "/subscriptions/"
	}
	return groupKey(c.vars["subscription"], c.vars["group"]) + "/"
}

func (s *Server) listGalleries(c *call) (*reply, error) {
	var docs []any
	s.store.read(func(st *state) { docs = documents(st.Galleries, c.scopePrefix(), (*resource).document) })
	return s.page(c, docs), nil
}

func (s *Server) putGallery(c *call) (*reply, error) {
	id := c.galleryID()
	if !galleryName.MatchString(id.name()) {
		return nil, invalid("galleryName", "The entity name 'galleryName' is invalid according to its validation rule: ^[^_\\W][\\w._]{0,79}(?<![-.])$: '%s'.", id.name())
	}
	if p := s.tracked(c); p != nil {
		return nil, p
	}
	return s.putSimple(c, id, func(st *state) (map[string]*resource, *problem) {
		for _, other := range st.Galleries {
			if strings.EqualFold(other.id().name(), id.name()) && other.key() != id.key() {
				return nil, conflict("Conflict", "The gallery name '%s' is already used by '%s'. Gallery names must be unique within the subscription.", id.name(), other.ID)
			}
		}
		return st.Galleries, s.withinQuota(st, "Galleries", 1)
	})
}

// putSimple creates or replaces a resource whose only effect is to be there. Its table, or what is against it,
// comes from check, whose quota is looked at for new ones only.
func (s *Server) putSimple(c *call, id resourceID, check func(*state) (map[string]*resource, *problem)) (*reply, error) {
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

func (s *Server) patchGallery(c *call) (*reply, error) {
	return s.patchSimple(c, c.galleryID(), nil)
}

// patchSimple merges a change; check compares the resource before and after it.
func (s *Server) patchSimple(c *call, id resourceID, check func(old, next object) *problem) (*reply, error) {
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

func (s *Server) deleteGallery(c *call) (*reply, error) {
	id := c.galleryID()
	return s.delete(c, id, s.config.Latencies.Delete, func(st *state) *problem {
		if len(documents(st.Definitions, id.key()+"/images/", (*resource).document)) > 0 {
			return nested(id)
		}
		return nil
	})
}

func nested(id resourceID) *problem {
	return conflict("CannotDeleteResource", "Can not delete resource before nested resources are deleted: '%s'.", id.name())
}
