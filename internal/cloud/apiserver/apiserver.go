// Package apiserver converts errors of API servers for providers whose pools are Kubernetes objects.
package apiserver

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// maxWrites is how often a write is repeated with a new read after a conflict. Controllers write status often, which does not
// change Kamino's decision.
const maxWrites = 10

// RetryOnConflict repeats a read with the following write after a conflict.
func RetryOnConflict(do func() error) error {
	for try := 1; ; try++ {
		err := do()
		var ours *cloud.Error
		if try == maxWrites || !errors.As(err, &ours) || !apierrors.IsConflict(ours.Err) {
			return err
		}
	}
}

// Fail converts an error of the API server to cloud.Error; nil stays nil.
func Fail(op, resource string, err error) error {
	var ours *cloud.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	out := &cloud.Error{Kind: cloud.Unavailable, Op: op, Resource: resource, Message: err.Error(), Err: err, Code: string(apierrors.ReasonForError(err))}
	switch {
	case apierrors.IsNotFound(err):
		out.Kind = cloud.NotFound
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		out.Kind = cloud.Conflict
	case apierrors.IsUnauthorized(err):
		out.Kind = cloud.Unauthenticated
	case apierrors.IsForbidden(err):
		out.Kind = cloud.Denied
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		out.Kind = cloud.Invalid
	case apierrors.IsTooManyRequests(err):
		out.Kind = cloud.Throttled
	}
	if seconds, reported := apierrors.SuggestsClientDelay(err); reported {
		out.RetryAfter = time.Duration(seconds) * time.Second
	}
	return out
}
