package aws

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// problem is an error of AWS.
type problem struct {
	Status int
	Code   string
	Text   string
}

func (p *problem) Error() string { return p.Code + ": " + p.Text }

func refuse(status int, code, format string, args ...any) *problem {
	return &problem{status, code, fmt.Sprintf(format, args...)}
}

// bad is a mistake of the client's.
func bad(code, format string, args ...any) *problem {
	return refuse(http.StatusBadRequest, code, format, args...)
}

// invalid is Auto Scaling's error for nearly everything.
func invalid(format string, args ...any) *problem { return bad("ValidationError", format, args...) }

// missing is EC2's error for a missing parameter.
func missing(name string) *problem {
	return bad("MissingParameter", "The request must contain the parameter %s", name)
}

func asProblem(err error) *problem {
	var p *problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return p
	default:
		return refuse(http.StatusInternalServerError, "InternalError", "An internal error has occurred: %v", err)
	}
}

// document is the error in the service's format: EC2's own, or the query protocol's.
func (p *problem) document(s *service, request string) query.Element {
	if s.name == "ec2" {
		return query.Of("Response",
			query.Of("Errors", query.Of("Error", query.Text("Code", p.Code), query.Text("Message", p.Text))),
			query.Text("RequestID", request))
	}
	kind := "Sender"
	if p.Status >= http.StatusInternalServerError {
		kind = "Receiver"
	}
	e := query.Of("ErrorResponse",
		query.Of("Error", query.Text("Type", kind), query.Text("Code", p.Code), query.Text("Message", p.Text)),
		query.Text("RequestId", request))
	e.Space = s.space
	return e
}
