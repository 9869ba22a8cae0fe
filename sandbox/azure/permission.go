package azure

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// authorize checks that the principal may do the action on the scope. Everything is allowed that no fault
// denies.
func (s *Server) authorize(c *call, action, scope string) *problem {
	if action == "" || !s.deny(action) {
		return nil
	}
	return refuse(http.StatusForbidden, "AuthorizationFailed",
		"The client '%s' with object id '%s' does not have authorization to perform action '%s' over scope '%s' or the scope is invalid. "+
			"If access was recently granted, please refresh your credentials.",
		c.principal.ClientID, c.principal.ObjectID, action, scope)
}

// authorizeLinked checks an action on another resource that a request refers to.
func (s *Server) authorizeLinked(c *call, action, linked string) *problem {
	if !s.deny(action) {
		return nil
	}
	return refuse(http.StatusForbidden, "LinkedAuthorizationFailed",
		"The client '%s' with object id '%s' has permission to perform action '%s' on scope '%s'; however, it does not have permission "+
			"to perform action(s) '%s' on the linked scope(s) '%s' (respectively) or the linked scope(s) are invalid.",
		c.principal.ClientID, c.principal.ObjectID, c.route.action, c.r.URL.Path, action, linked)
}

// deny tells whether a fault denies the action, and counts the fault.
func (s *Server) deny(action string) bool {
	denied := false
	s.store.read(func(st *state) { denied = st.denies(action) != nil })
	if !denied {
		return false
	}
	err := s.store.write(func(st *state) error {
		if f := st.denies(action); f != nil {
			f.Struck++
		}
		return nil
	})
	if err != nil {
		s.config.Log.Error("fault was not counted", "error", err)
	}
	return true
}

func (st *state) denies(action string) *orderedFault {
	for _, f := range st.Faults {
		if f.Deny != "" && !f.spent() && actionMatches(f.Deny, action) {
			return f
		}
	}
	return nil
}

// actionMatches compares an action with a pattern of role definitions.
func actionMatches(pattern, action string) bool {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	found, err := regexp.MatchString("(?i)^"+strings.Join(parts, ".*")+"$", action)
	return err == nil && found
}

func permissionRoutes() []*route {
	const action = "Microsoft.Authorization/permissions/read"
	tail := "providers/Microsoft.Authorization/permissions"
	return []*route{
		{method: http.MethodGet, pattern: groupPath + "/" + tail, noun: "permission", operation: "list", action: action, handle: (*Server).listPermissions},
		{method: http.MethodGet, pattern: "{scope...}/" + tail, noun: "permission", operation: "list", action: action, handle: (*Server).listPermissions},
	}
}

// listPermissions tells what the principal may do: everything but what is denied.
func (s *Server) listPermissions(*call) (*reply, error) {
	denied := []any{}
	s.store.read(func(st *state) {
		for _, f := range st.Faults {
			if f.Deny != "" && !f.spent() && !slices.Contains(denied, any(f.Deny)) {
				denied = append(denied, f.Deny)
			}
		}
	})
	return ok(object{"value": []any{object{
		"actions": []any{"*"}, "notActions": denied, "dataActions": []any{}, "notDataActions": []any{},
	}}}), nil
}
