package cloud

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind says what a caller can do about an error.
type Kind string

const (
	// NotFound: the thing that was asked for does not exist.
	NotFound Kind = "NotFound"
	// Conflict: the world is not as the call assumed, or somebody else is at it: look again.
	Conflict Kind = "Conflict"
	// Unauthenticated: the credential was not accepted (wrong secret, expired token).
	Unauthenticated Kind = "Unauthenticated"
	// Denied: the credential was accepted and may not do this; the message names action and resource.
	Denied Kind = "Denied"
	// Invalid: the cloud will never take this request as it is.
	Invalid Kind = "Invalid"
	// QuotaExceeded: a limit of the subscription or region is used up.
	QuotaExceeded Kind = "QuotaExceeded"
	// Throttled: too many requests; RetryAfter says when to come back.
	Throttled Kind = "Throttled"
	// Refused: as the thing stands now, the call would do what Kamino never does, so it was not made. Code is the
	// reason of a Refusal and Message its sentence; the same call goes through once that is mended.
	Refused Kind = "Refused"
	// Unsupported: this provider cannot do that.
	Unsupported Kind = "Unsupported"
	// Unavailable: the cloud failed or was not reached; the same call may work later.
	Unavailable Kind = "Unavailable"
)

// Error is what every provider returns.
type Error struct {
	Kind Kind
	// Op and Resource say what was attempted on what, in the cloud's own terms.
	Op       string
	Resource string
	// Code and Message are the cloud's own.
	Code    string
	Message string
	// Refusal is what Message says as data, where what is in the way is known; nil elsewhere.
	Refusal *Refusal
	// RetryAfter is how long to wait, when the cloud said so.
	RetryAfter time.Duration
	// Err is what the SDK returned, if anything.
	Err error
}

// Error reads as "stop instance 3 of pool1: denied: <cloud's message>".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Resource != "" {
		fmt.Fprintf(&b, " %s", e.Resource)
	}
	fmt.Fprintf(&b, ": %s", e.Kind)
	if e.Code != "" {
		fmt.Fprintf(&b, " (%s)", e.Code)
	}
	if e.Message != "" {
		fmt.Fprintf(&b, ": %s", e.Message)
	}
	return b.String()
}

// Unwrap gives the SDK's error.
func (e *Error) Unwrap() error { return e.Err }

// KindOf tells the kind of an error; Unavailable for one that no provider made, "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Unavailable
}

// Is tells whether the error is of the kind.
func Is(err error, kind Kind) bool { return KindOf(err) == kind }

// RetryAfter is the delay that the cloud asked for, or zero.
func RetryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}
