package azure

import (
	"net/http"
	"slices"
	"strings"
)

// Levels of a management lock.
const (
	lockAgainstDelete = "CanNotDelete"
	lockReadOnly      = "ReadOnly"
)

// lock protects a scope against deletion, or against changes. The state holds locks by ID, in lower case.
type lock struct {
	ID string `json:"id"`
	// Scope is the locked resource, resource group or subscription, with all resources below.
	Scope string `json:"scope"`
	Name  string `json:"name"`
	Level string `json:"level"`
	Notes string `json:"notes,omitempty"`
}

// locks are management locks. Source: Resource Manager's reference, Management Locks; Lock your resources to protect
// your infrastructure.
type locks struct{ *backend }

func (s locks) routes() []*route {
	const noun, action = "lock", "Microsoft.Authorization/locks/"
	const all, one = "{scope...}/providers/Microsoft.Authorization/locks", "{scope...}/providers/Microsoft.Authorization/locks/{lock}"
	return []*route{
		{method: http.MethodGet, pattern: all, noun: noun, operation: "list", action: action + "read", handle: s.list},
		{method: http.MethodGet, pattern: one, noun: noun, operation: "get", action: action + "read", handle: s.get},
		{method: http.MethodPut, pattern: one, noun: noun, operation: "put", action: action + "write", handle: s.put},
		{method: http.MethodDelete, pattern: one, noun: noun, operation: "delete", action: action + "delete", handle: s.delete},
	}
}

// forbids reports whether a lock of the level refuses the method, with Resource Manager's word. A POST is never a
// deletion for a lock, even if the POST deletes resources.
func forbids(level, method string) (string, bool) {
	switch method {
	case http.MethodDelete:
		return "delete", true
	case http.MethodPut, http.MethodPatch, http.MethodPost:
		return "write", level == lockReadOnly
	}
	return "", false
}

// within reports whether a scope is equal to another scope, or below.
func within(scope, of string) bool {
	return fold(scope) == fold(of) || strings.HasPrefix(fold(scope), fold(of)+"/")
}

// admits refuses requests that a lock forbids. Locks can always be removed.
func (s locks) admits(c *call) *problem {
	if c.route.noun == "lock" {
		return nil
	}
	path, word := strings.TrimSuffix(c.r.URL.Path, "/"), ""
	var scopes []string
	s.store.Read(func(st *state) {
		for _, l := range st.Locks {
			if what, forbidden := forbids(l.Level, c.r.Method); forbidden && within(path, l.Scope) {
				scopes, word = append(scopes, "'"+l.Scope+"'"), what
			}
		}
	})
	if len(scopes) == 0 {
		return nil
	}
	slices.Sort(scopes)
	return conflict("ScopeLocked", "The scope '%s' cannot perform %s operation because following scope(s) are locked: %s. "+
		"Please remove the lock and try again.", path, word, strings.Join(slices.Compact(scopes), ","))
}

func (l *lock) document() object {
	doc := object{"id": l.ID, "name": l.Name, "type": "Microsoft.Authorization/locks", "properties": object{"level": l.Level}}
	if l.Notes != "" {
		put(doc, l.Notes, "properties", "notes")
	}
	return doc
}

// list shows the locks of the scope and above. Locks below the scope are shown, too, without the filter atScope().
func (s locks) list(c *call) (*reply, error) {
	scope, above := c.vars["scope"], strings.EqualFold(c.r.URL.Query().Get("$filter"), "atScope()")
	var docs []any
	s.store.Read(func(st *state) {
		docs = documents(st.Locks, "", func(l *lock) object {
			if within(scope, l.Scope) || !above && within(l.Scope, scope) {
				return l.document()
			}
			return nil
		})
	})
	return s.page(c, slices.DeleteFunc(docs, func(doc any) bool { return len(doc.(object)) == 0 })), nil
}

func (c *call) lockID() string {
	return c.vars["scope"] + "/providers/Microsoft.Authorization/locks/" + c.vars["lock"]
}

func (s locks) get(c *call) (*reply, error) {
	var doc object
	s.store.Read(func(st *state) {
		if l := st.Locks[fold(c.lockID())]; l != nil {
			doc = l.document()
		}
	})
	if doc == nil {
		return nil, refuse(http.StatusNotFound, "LockNotFound", "The lock '%s' could not be found.", c.vars["lock"])
	}
	return ok(doc), nil
}

func (s locks) put(c *call) (*reply, error) {
	made := &lock{ID: c.lockID(), Scope: c.vars["scope"], Name: c.vars["lock"], Level: text(c.body, "properties", "level"),
		Notes: text(c.body, "properties", "notes")}
	if made.Level != lockAgainstDelete && made.Level != lockReadOnly {
		return nil, badRequest("LockLevelNotSupported", "The lock level '%s' is not supported. Supported levels are '%s,%s'.",
			made.Level, lockAgainstDelete, lockReadOnly)
	}
	rep := ok(made.document())
	err := s.store.Write(func(st *state) error {
		if st.Locks[fold(made.ID)] == nil {
			rep.status = http.StatusCreated
		}
		st.Locks[fold(made.ID)] = made
		return nil
	})
	return rep, err
}

func (s locks) delete(c *call) (*reply, error) {
	rep := &reply{status: http.StatusNoContent}
	err := s.store.Write(func(st *state) error {
		if st.Locks[fold(c.lockID())] != nil {
			rep.status = http.StatusOK
		}
		delete(st.Locks, fold(c.lockID()))
		return nil
	})
	return rep, err
}
