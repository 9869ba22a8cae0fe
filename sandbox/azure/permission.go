package azure

import (
	"net/http"
	"slices"
	"strings"
)

// permissions grants every action of the principal's role that no fault denies.
type permissions struct{ *backend }

// authorize checks that the role has the action, and that no fault denies the action on the scope.
func (s permissions) authorize(c *call, action, scope string) *problem {
	if action == "" || s.has(c.principal, action) && !s.deny(action) {
		return nil
	}
	return refuse(http.StatusForbidden, "AuthorizationFailed",
		"The client '%s' with object id '%s' does not have authorization to perform action '%s' over scope '%s' or the scope is invalid. "+
			"If access was recently granted, please refresh your credentials.",
		c.principal.ClientID, c.principal.ObjectID, action, scope)
}

// authorizeLinked checks an action on another resource in the request.
func (s permissions) authorizeLinked(c *call, action, linked string) *problem {
	if s.has(c.principal, action) && !s.deny(action) {
		return nil
	}
	return refuse(http.StatusForbidden, "LinkedAuthorizationFailed",
		"The client '%s' with object id '%s' has permission to perform action '%s' on scope '%s'; however, it does not have permission "+
			"to perform action(s) '%s' on the linked scope(s) '%s' (respectively) or the linked scope(s) are invalid.",
		c.principal.ClientID, c.principal.ObjectID, c.route.action, c.r.URL.Path, action, linked)
}

// role returns the actions of a principal.
func (s permissions) role(who principal) []string {
	if actions, limited := s.config.Roles[who.ClientID]; limited {
		return actions
	}
	return []string{"*"}
}

func (s permissions) has(who principal, action string) bool {
	return slices.ContainsFunc(s.role(who), func(a string) bool { return a == "*" || strings.EqualFold(a, action) })
}

// deny reports whether a fault denies the action, and counts the fault.
func (s permissions) deny(action string) bool {
	denied := false
	s.store.Read(func(st *state) { denied = st.Faults.Denying(action) != nil })
	if !denied {
		return false
	}
	err := s.store.Write(func(st *state) error {
		if f := st.Faults.Denying(action); f != nil {
			f.Struck++
		}
		return nil
	})
	if err != nil {
		s.config.Log.Error("fault was not counted", "error", err)
	}
	return true
}

func (s permissions) routes() []*route {
	const action = "Microsoft.Authorization/permissions/read"
	tail := "providers/Microsoft.Authorization/permissions"
	return []*route{
		{method: http.MethodGet, pattern: groupPath + "/" + tail, noun: "permission", operation: "list", action: action, handle: s.list},
		{method: http.MethodGet, pattern: "{scope...}/" + tail, noun: "permission", operation: "list", action: action, handle: s.list},
	}
}

// list shows the permissions of the principal: its role without denied actions.
func (s permissions) list(c *call) (*reply, error) {
	denied := []any{}
	s.store.Read(func(st *state) {
		for _, f := range st.Faults.Live() {
			if f.Deny != "" && !slices.Contains(denied, any(f.Deny)) {
				denied = append(denied, f.Deny)
			}
		}
	})
	return ok(object{"value": []any{object{
		"actions": s.role(c.principal), "notActions": denied, "dataActions": []any{}, "notDataActions": []any{},
	}}}), nil
}
