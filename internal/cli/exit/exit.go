// Package exit classifies the endings of a command: exit codes, and errors as sentences with remedies.
package exit

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// Exit codes, one for each class of ending.
const (
	Done        = 0
	Unexpected  = 1
	Usage       = 2
	Refused     = 3  // nothing was changed
	Failed      = 4  // the capture failed and the donor is back in service
	NotAllowed  = 5  // a credential or a permission
	Unreachable = 6  // the API server or the cloud
	NothingToDo = 10 // with --detailed-exitcode only
	Interrupted = 130
)

// Failure is an error with an exit code.
type Failure struct {
	Code int
	Err  error
}

// Error implements error.
func (e *Failure) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Failure) Unwrap() error { return e.Err }

// Usagef returns an error of wrong usage.
func Usagef(format string, args ...any) error {
	return &Failure{Usage, fmt.Errorf(format, args...)}
}

// Refusedf returns a refusal: nothing was changed.
func Refusedf(format string, args ...any) error {
	return &Failure{Refused, fmt.Errorf(format, args...)}
}

// Refusal is one error for all refusals of a capture, with a sentence for each refusal.
func Refusal(what string, refusals []cloud.Refusal) error {
	code := Refused
	var b strings.Builder
	fmt.Fprintf(&b, "%s, and nothing was changed:", what)
	var addresses []string
	for i, r := range refusals {
		fmt.Fprintf(&b, "\n  %s: %s", r.Reason, r.Message)
		if address := page.Reason(r.Reason); !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
		// The first refusal decides the exit code: the user must repair that cause first.
		if i == 0 && PermissionReason(r.Reason) {
			code = NotAllowed
		}
	}
	fmt.Fprintf(&b, "\n  see %s", strings.Join(addresses, "\n  see "))
	return &Failure{code, errors.New(b.String())}
}

// PermissionReason reports whether a reason is about a credential or a permission.
func PermissionReason(reason string) bool {
	switch reason {
	case "PermissionMissing", string(cloud.Denied), string(cloud.Unauthenticated):
		return true
	default:
		return false
	}
}

// Code is the class of an error.
func Code(err error) int {
	var (
		e       *Failure
		refused *cluster.Refused
	)
	switch {
	case err == nil:
		return Done
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &refused):
		return Refused
	case cluster.NotAllowed(err):
		return NotAllowed
	case cannotListen(err):
		return Usage
	case cluster.Unreachable(err):
		return Unreachable
	case cloud.Is(err, cloud.Unsupported), cloud.Is(err, cloud.Refused):
		return Refused
	default:
		return Unexpected
	}
}

// RefusedCode is the class of a refused decision, from the cloud's error if err is not nil.
func RefusedCode(err error) int {
	if code := Code(err); code != Done && code != Unexpected {
		return code
	}
	return Refused
}

// cannotListen reports whether the address in a flag is invalid or in use.
func cannotListen(err error) bool {
	var local *net.OpError
	return errors.As(err, &local) && local.Op == "listen"
}

// Explain returns an error as a sentence with a remedy.
func Explain(err error) string {
	var (
		e         *Failure
		refused   *cluster.Refused
		fromCloud *cloud.Error
		transport *url.Error
	)
	switch {
	case errors.As(err, &e), errors.As(err, &refused), errors.As(err, &fromCloud):
		return err.Error()
	case apierrors.IsUnauthorized(err):
		return "the API server rejects your credential (wrong or expired): renew the credential in your kubeconfig"
	case apierrors.IsForbidden(err):
		return "your credential has no permission for this in the cluster: " + err.Error()
	case errors.As(err, &transport):
		return "the API server is unreachable: " + transport.Error()
	default:
		return err.Error()
	}
}
