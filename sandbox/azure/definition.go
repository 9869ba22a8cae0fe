package azure

import (
	"net/http"
	"regexp"
	"strings"
)

const (
	definitionRead   = "Microsoft.Compute/galleries/images/read"
	definitionWrite  = "Microsoft.Compute/galleries/images/write"
	definitionDelete = "Microsoft.Compute/galleries/images/delete"
)

// definitions hold the versions of an image.
type definitions struct{ *backend }

func (s definitions) routes() []*route {
	const noun = "definition"
	return []*route{
		{method: http.MethodGet, pattern: definitionPath, noun: noun, operation: "get", action: definitionRead, handle: s.get},
		{method: http.MethodPut, pattern: definitionPath, noun: noun, operation: "put", action: definitionWrite, handle: s.put},
		{method: http.MethodPatch, pattern: definitionPath, noun: noun, operation: "patch", action: definitionWrite, handle: s.patch},
		{method: http.MethodDelete, pattern: definitionPath, noun: noun, operation: "delete", action: definitionDelete, handle: s.delete},
		{method: http.MethodGet, pattern: galleryPath + "/images", noun: noun, operation: "list", action: definitionRead, handle: s.list},
	}
}

var definitionName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,78}[A-Za-z0-9])?$`)

func (c *call) definitionID() resourceID {
	return c.compute("galleries", "gallery", "images", "definition")
}

func (s definitions) get(c *call) (*reply, error) {
	return s.lookUp(c.definitionID(), func(st *state, key string) object {
		if r := st.Definitions[key]; r != nil {
			return r.document()
		}
		return nil
	})
}

func (s definitions) list(c *call) (*reply, error) {
	gallery := c.galleryID()
	var docs []any
	known := false
	s.store.Read(func(st *state) {
		known = st.Galleries[gallery.key()] != nil
		docs = documents(st.Definitions, gallery.key()+"/images/", (*resource).document)
	})
	if !known {
		return nil, notFound(gallery)
	}
	return s.page(c, docs), nil
}

// newerGalleryAPI is the first API version with the default V2 and Trusted Launch.
const newerGalleryAPI = "2024-03-03"

// fillDefinition sets Azure's defaults for omitted properties of a new definition.
func fillDefinition(body object, apiVersion string) object {
	properties := child(body, "properties")
	if text(properties, "architecture") == "" {
		properties["architecture"] = "x64"
	}
	newer := apiVersion >= newerGalleryAPI
	if text(properties, "hyperVGeneration") == "" {
		properties["hyperVGeneration"] = "V1"
		if newer {
			properties["hyperVGeneration"] = "V2"
		}
	}
	if newer && properties["features"] == nil && properties["hyperVGeneration"] == "V2" {
		properties["features"] = []any{object{"name": "SecurityType", "value": "TrustedLaunchSupported"}}
	}
	return body
}

func (s definitions) put(c *call) (*reply, error) {
	id := c.definitionID()
	if !definitionName.MatchString(id.name()) {
		return nil, invalid("galleryImageName", "The entity name 'galleryImageName' is invalid according to its validation rule: '%s'.", id.name())
	}
	if p := s.tracked(c); p != nil {
		return nil, p
	}
	body := writable(c.body)
	for _, required := range [][]string{{"osType"}, {"osState"}, {"identifier", "publisher"}, {"identifier", "offer"}, {"identifier", "sku"}} {
		if text(body, append([]string{"properties"}, required...)...) == "" {
			name := "galleryImage.properties." + strings.Join(required, ".")
			return nil, invalid(name, "Required parameter '%s' is missing (null).", name)
		}
	}
	c.body = fillDefinition(body, c.version())
	return s.putSimple(c, id, func(st *state) (map[string]*resource, *problem) {
		if st.Galleries[id.parent().key()] == nil {
			return nil, parentNotFound(id)
		}
		if old := st.Definitions[id.key()]; old != nil {
			if p := sameDefinition(old.Body, c.body); p != nil {
				return nil, p
			}
		}
		if p := uniqueIdentifier(st, id, c.body); p != nil {
			return nil, p
		}
		return st.Definitions, s.withinQuota(st, "GalleryImages", 1)
	})
}

// parentNotFound is the answer to a PUT under a missing resource.
func parentNotFound(id resourceID) *problem {
	return refuse(http.StatusNotFound, "ParentResourceNotFound", "Failed to perform 'write' on resource(s) of type '%s', "+
		"because the parent resource '%s' could not be found.", strings.TrimPrefix(id.resourceType(), computeNamespace+"/"), id.parent())
}

// sameDefinition refuses changes of immutable properties.
func sameDefinition(old, next object) *problem {
	for _, property := range []string{"osType", "osState", "hyperVGeneration", "architecture", "identifier", "features"} {
		if !same(at(old, "properties", property), at(next, "properties", property)) {
			return changeNotAllowed("galleryImage.properties." + property)
		}
	}
	return nil
}

// uniqueIdentifier refuses publisher, offer and sku that another definition of the gallery has.
func uniqueIdentifier(st *state, id resourceID, body object) *problem {
	mine := child(body, "properties", "identifier")
	for key, other := range st.Definitions {
		if key == id.key() || !strings.HasPrefix(key, id.parent().key()+"/images/") {
			continue
		}
		theirs := child(other.Body, "properties", "identifier")
		if strings.EqualFold(text(mine, "publisher"), text(theirs, "publisher")) &&
			strings.EqualFold(text(mine, "offer"), text(theirs, "offer")) && strings.EqualFold(text(mine, "sku"), text(theirs, "sku")) {
			return conflict("Conflict", "The gallery image '%s' already has the identifier publisher '%s', offer '%s', sku '%s'. "+
				"The identifier must be unique within the gallery.", other.id().name(), text(mine, "publisher"), text(mine, "offer"), text(mine, "sku"))
		}
	}
	return nil
}

func (s definitions) patch(c *call) (*reply, error) {
	return s.patchSimple(c, c.definitionID(), sameDefinition)
}

func (s definitions) delete(c *call) (*reply, error) {
	id := c.definitionID()
	return s.beginDelete(c, id, s.config.Latencies.Delete, func(st *state) *problem {
		for key := range st.Versions {
			if strings.HasPrefix(key, id.key()+"/versions/") {
				return nested(id)
			}
		}
		return nil
	})
}
