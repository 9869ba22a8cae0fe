package azure

import (
	"net/http"
	"strings"
)

// extensions are the inline extensions of a scale set's model, shown as resources.
type extensions struct{ scaleSets }

func (s extensions) routes() []*route {
	const noun, action = "extension", "Microsoft.Compute/virtualMachineScaleSets/extensions/"
	return []*route{
		{method: http.MethodGet, pattern: extensionPath, noun: noun, operation: "get", action: action + "read", handle: s.get},
		{method: http.MethodPut, pattern: extensionPath, noun: noun, operation: "put", action: action + "write", handle: s.put},
		{method: http.MethodPatch, pattern: extensionPath, noun: noun, operation: "patch", action: action + "write", handle: s.put},
		{method: http.MethodDelete, pattern: extensionPath, noun: noun, operation: "delete", action: action + "delete", handle: s.delete},
		{method: http.MethodGet, pattern: scaleSetPath + "/extensions", noun: noun, operation: "list", action: action + "read", handle: s.list},
	}
}

func (c *call) extensionID() resourceID {
	return c.compute("virtualMachineScaleSets", "scaleset", "extensions", "extension")
}

// extensionDocument shows an inline extension as a resource.
func extensionDocument(set *scaleSet, e object) object {
	id := set.id().child("extensions", text(e, "name"))
	doc := object{"id": id.String(), "name": id.name(), "type": id.resourceType()}
	properties := copyObject(child(e, "properties"))
	delete(properties, "protectedSettings")
	properties["provisioningState"] = stateSucceeded
	if set.State == stateUpdating {
		properties["provisioningState"] = stateUpdating
	}
	doc["properties"] = properties
	return doc
}

func (s extensions) get(c *call) (*reply, error) {
	return s.lookUp(c.extensionID(), func(st *state, _ string) object {
		if set := st.ScaleSets[c.scaleSetID().key()]; set != nil {
			for _, e := range extensionsOf(set.profile()) {
				if strings.EqualFold(text(e, "name"), c.vars["extension"]) {
					return extensionDocument(set, e)
				}
			}
		}
		return nil
	})
}

func (s extensions) list(c *call) (*reply, error) {
	docs := []any{}
	known := false
	s.store.Read(func(st *state) {
		set := st.ScaleSets[c.scaleSetID().key()]
		if known = set != nil; known {
			for _, e := range extensionsOf(set.profile()) {
				docs = append(docs, extensionDocument(set, e))
			}
		}
	})
	if !known {
		return nil, notFound(c.scaleSetID())
	}
	return s.page(c, docs), nil
}

// put adds or changes an inline extension.
func (s extensions) put(c *call) (*reply, error) {
	name := c.vars["extension"]
	rep := &reply{status: http.StatusCreated}
	entry := object{"name": name, "properties": copyObject(child(c.body, "properties"))}
	delete(child(entry, "properties"), "provisioningState")
	err := s.rewrite(c, rep, func(old []object) ([]any, *problem) {
		next := []any{}
		for _, e := range old {
			if strings.EqualFold(text(e, "name"), name) {
				rep.status = http.StatusOK
				entry["name"] = text(e, "name")
				if c.r.Method == http.MethodPatch {
					entry["properties"] = mergePatch(child(e, "properties"), child(entry, "properties"))
				}
				continue
			}
			next = append(next, e)
		}
		if c.r.Method == http.MethodPatch && rep.status == http.StatusCreated {
			return nil, notFound(c.extensionID())
		}
		return append(next, entry), nil
	})
	if err != nil {
		return nil, err
	}
	s.store.Read(func(st *state) {
		if set := st.ScaleSets[c.scaleSetID().key()]; set != nil {
			rep.body = extensionDocument(set, entry)
		}
	})
	return rep, nil
}

func (s extensions) delete(c *call) (*reply, error) {
	rep := &reply{status: http.StatusAccepted}
	gone := true
	err := s.rewrite(c, rep, func(old []object) ([]any, *problem) {
		next := []any{}
		for _, e := range old {
			if strings.EqualFold(text(e, "name"), c.vars["extension"]) {
				gone = false
				continue
			}
			next = append(next, e)
		}
		return next, nil
	})
	if gone && err == nil {
		rep.status = http.StatusNoContent
		rep.operation = nil
	}
	rep.body = nil
	return rep, err
}

// rewrite replaces the profile's extensions by the result of f.
func (s extensions) rewrite(c *call, rep *reply, f func([]object) ([]any, *problem)) error {
	return s.change(c, func(st *state) error {
		set := st.ScaleSets[c.scaleSetID().key()]
		if set == nil {
			return parentNotFound(c.extensionID())
		}
		profile := copyObject(set.profile())
		next, p := f(extensionsOf(profile))
		if p != nil {
			return p
		}
		put(profile, next, "extensionProfile", "extensions")
		keepProtected(set.profile(), profile)
		body := copyObject(set.Body)
		put(body, profile, "properties", "virtualMachineProfile")
		return s.write(st, c, set, body, rep)
	})
}
