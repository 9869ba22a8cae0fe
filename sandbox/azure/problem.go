package azure

import (
	"fmt"
	"net/http"
)

// problem is an error in ARM's form. Status is the HTTP status of the answer; 0 in an operation's result.
type problem struct {
	Status  int    `json:"-"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Target  string `json:"target,omitempty"`
	header  http.Header
}

func (p *problem) Error() string { return p.Code + ": " + p.Message }

// body is the answer's JSON.
func (p *problem) body() object {
	inner := object{"code": p.Code, "message": p.Message}
	if p.Target != "" {
		inner["target"] = p.Target
	}
	return object{"error": inner}
}

func refuse(status int, code, format string, args ...any) *problem {
	return &problem{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

func (p *problem) on(target string) *problem {
	p.Target = target
	return p
}

func badRequest(code, format string, args ...any) *problem {
	return refuse(http.StatusBadRequest, code, format, args...)
}

func invalid(target, format string, args ...any) *problem {
	return badRequest("InvalidParameter", format, args...).on(target)
}

func conflict(code, format string, args ...any) *problem {
	return refuse(http.StatusConflict, code, format, args...)
}

// notFound is ARM's answer for a missing resource.
func notFound(id resourceID) *problem {
	return refuse(http.StatusNotFound, "ResourceNotFound", "The Resource '%s' under resource group '%s' was not found. "+
		"For more details please go to https://aka.ms/ARMResourceNotFoundFix", id.typeAndNames(), id.group)
}

func changeNotAllowed(property string) *problem {
	return conflict("PropertyChangeNotAllowed", "Changing property '%s' is not allowed.", property).on(property)
}
