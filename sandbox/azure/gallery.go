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

// galleries hold definitions of images.
type galleries struct{ *backend }

func (s galleries) routes() []*route {
	const noun = "gallery"
	return []*route{
		{method: http.MethodGet, pattern: galleryPath, noun: noun, operation: "get", action: galleryRead, handle: s.get},
		{method: http.MethodPut, pattern: galleryPath, noun: noun, operation: "put", action: galleryWrite, handle: s.put},
		{method: http.MethodPatch, pattern: galleryPath, noun: noun, operation: "patch", action: galleryWrite, handle: s.patch},
		{method: http.MethodDelete, pattern: galleryPath, noun: noun, operation: "delete", action: galleryDelete, handle: s.delete},
		{method: http.MethodGet, pattern: computePath + "/galleries", noun: noun, operation: "list", action: galleryRead, handle: s.list},
		{method: http.MethodGet, pattern: subscriptionPath + "/providers/Microsoft.Compute/galleries", noun: noun, operation: "list",
			action: galleryRead, handle: s.list},
	}
}

// galleryName: letters, digits, dots and underscores; no dashes.
var galleryName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.]{0,78}[A-Za-z0-9])?$`)

func (c *call) galleryID() resourceID { return c.compute("galleries", "gallery") }

func (s galleries) get(c *call) (*reply, error) {
	return s.lookUp(c.galleryID(), func(st *state, key string) object {
		if r := st.Galleries[key]; r != nil {
			return r.document()
		}
		return nil
	})
}

// scopePrefix is the prefix of the IDs in a list.
func (c *call) scopePrefix() string {
	if c.vars["group"] == "" {
		return "/subscriptions/"
	}
	return groupKey(c.vars["subscription"], c.vars["group"]) + "/"
}

func (s galleries) list(c *call) (*reply, error) {
	var docs []any
	s.store.Read(func(st *state) { docs = documents(st.Galleries, c.scopePrefix(), (*resource).document) })
	return s.page(c, docs), nil
}

func (s galleries) put(c *call) (*reply, error) {
	id := c.galleryID()
	if !galleryName.MatchString(id.name()) {
		return nil, invalid("galleryName",
			"The entity name 'galleryName' is invalid according to its validation rule: ^[^_\\W][\\w._]{0,79}(?<![-.])$: '%s'.", id.name())
	}
	if p := s.tracked(c); p != nil {
		return nil, p
	}
	return s.putSimple(c, id, func(st *state) (map[string]*resource, *problem) {
		for _, other := range st.Galleries {
			if strings.EqualFold(other.id().name(), id.name()) && other.key() != id.key() {
				return nil, conflict("Conflict",
					"The gallery name '%s' is already used by '%s'. Gallery names must be unique within the subscription.", id.name(), other.ID)
			}
		}
		return st.Galleries, s.withinQuota(st, "Galleries", 1)
	})
}

func (s galleries) patch(c *call) (*reply, error) {
	return s.patchSimple(c, c.galleryID(), nil)
}

func (s galleries) delete(c *call) (*reply, error) {
	id := c.galleryID()
	return s.beginDelete(c, id, s.config.Latencies.Delete, func(st *state) *problem {
		if len(documents(st.Definitions, id.key()+"/images/", (*resource).document)) > 0 {
			return nested(id)
		}
		return nil
	})
}

func nested(id resourceID) *problem {
	return conflict("CannotDeleteResource", "Can not delete resource before nested resources are deleted: '%s'.", id.name())
}
