package cli

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kamino-dev/kamino/internal/cli/exit"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// Exit codes, one for each class of ending.
const (
	ExitDone        = exit.Done
	ExitUnexpected  = exit.Unexpected
	ExitUsage       = exit.Usage
	ExitRefused     = exit.Refused
	ExitFailed      = exit.Failed
	ExitNotAllowed  = exit.NotAllowed
	ExitUnreachable = exit.Unreachable
	ExitNeedsPerson = exit.NeedsPerson
	ExitNothingToDo = exit.NothingToDo
	ExitInterrupted = exit.Interrupted
)

// failure is an error with an exit code.
type failure = exit.Failure

// Short names of package exit.
var usagef, refusedf = exit.Usagef, exit.Refusedf

// refusal is one error for all refusals of a capture, with a sentence for each refusal.
func refusal(what string, refusals []cloud.Refusal) error {
	code := ExitRefused
	var b strings.Builder
	fmt.Fprintf(&b, "%s, and nothing was changed:", what)
	var addresses []string
	for i, r := range refusals {
		fmt.Fprintf(&b, "\n  %s: %s", r.Reason, r.Message)
		if address := page.Reason(r.Reason); !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
		// The first refusal decides the exit code: the user must repair that cause first.
		if i == 0 && permissionReason(r.Reason) {
			code = ExitNotAllowed
		}
	}
	fmt.Fprintf(&b, "\n  see %s", strings.Join(addresses, "\n  see "))
	return &failure{Code: code, Err: errors.New(b.String())}
}

// permissionReason reports whether a reason is about a credential or a permission.
func permissionReason(reason string) bool {
	switch reason {
	case "PermissionMissing", string(cloud.Denied), string(cloud.Unauthenticated):
		return true
	default:
		return false
	}
}

// exitCode is the class of an error.
func exitCode(err error) int {
	var (
		e       *failure
		refused *cluster.Refused
	)
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &refused):
		return ExitRefused
	case cluster.NotAllowed(err):
		return ExitNotAllowed
	case cannotListen(err):
		return ExitUsage
	case cluster.Unreachable(err):
		return ExitUnreachable
	case cloud.Is(err, cloud.Unsupported), cloud.Is(err, cloud.Refused):
		return ExitRefused
	default:
		return ExitUnexpected
	}
}

// refusedCode is the class of a refused decision, from the cloud's error if err is not nil.
func refusedCode(err error) int {
	if code := exitCode(err); code != ExitDone && code != ExitUnexpected {
		return code
	}
	return ExitRefused
}

// cannotListen reports whether the address in a flag is invalid or in use.
func cannotListen(err error) bool {
	var local *net.OpError
	return errors.As(err, &local) && local.Op == "listen"
}

// explain returns an error as a sentence with a remedy.
func explain(err error) string {
	var (
		e         *failure
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
