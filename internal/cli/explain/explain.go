// Package explain turns errors into exit codes and into sentences with a remedy.
package explain

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

// Refusal is one error for all refusals of a capture, with a sentence for each refusal.
func Refusal(what string, refusals []cloud.Refusal) error {
	code := exit.Refused
	var b strings.Builder
	fmt.Fprintf(&b, "%s, and nothing was changed:", what)
	var addresses []string
	for i, r := range refusals {
		fmt.Fprintf(&b, "\n  %s: %s", r.Reason, r.Message)
		if address := page.Reason(r.Reason); !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
		// The first refusal decides the exit code: the user must repair that cause first.
		if i == 0 && IsPermission(r.Reason) {
			code = exit.NotAllowed
		}
	}
	fmt.Fprintf(&b, "\n  see %s", strings.Join(addresses, "\n  see "))
	return &exit.Failure{Code: code, Err: errors.New(b.String())}
}

// IsPermission reports whether a reason is about a credential or a permission.
func IsPermission(reason string) bool {
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
		e       *exit.Failure
		refused *cluster.Refused
	)
	switch {
	case err == nil:
		return exit.Done
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &refused):
		return exit.Refused
	case cluster.NotAllowed(err):
		return exit.NotAllowed
	case cannotListen(err):
		return exit.Usage
	case cluster.Unreachable(err):
		return exit.Unreachable
	case cloud.Is(err, cloud.Unsupported), cloud.Is(err, cloud.Refused):
		return exit.Refused
	default:
		return exit.Unexpected
	}
}

// RefusedCode is the class of a refused decision, from the cloud's error if err is not nil.
func RefusedCode(err error) int {
	if code := Code(err); code != exit.Done && code != exit.Unexpected {
		return code
	}
	return exit.Refused
}

// cannotListen reports whether the address in a flag is invalid or in use.
func cannotListen(err error) bool {
	var local *net.OpError
	return errors.As(err, &local) && local.Op == "listen"
}

// Sentence returns an error as a sentence with a remedy.
func Sentence(err error) string {
	var (
		e         *exit.Failure
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
