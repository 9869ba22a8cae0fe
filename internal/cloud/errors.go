package cloud

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind says how a caller can handle an error.
type Kind string

const (
	// NotFound: the requested object does not exist.
	NotFound Kind = "NotFound"
	// Conflict: the state differs from the caller's assumption, or another operation is running. Read again.
	Conflict Kind = "Conflict"
	// Unauthenticated: the credential was rejected (wrong secret, expired token).
	Unauthenticated Kind = "Unauthenticated"
	// Denied: the credential lacks a permission. The message names action and resource.
	Denied Kind = "Denied"
	// Invalid: the cloud will never accept the request.
	Invalid Kind = "Invalid"
	// QuotaExceeded: a limit of the subscription or region is exhausted.
	QuotaExceeded Kind = "QuotaExceeded"
	// Throttled: too many requests. RetryAfter is when to retry.
	Throttled Kind = "Throttled"
	// Refused: the call would now do something that Kamino never does, so the call was not made. Code is the reason and
	// Message the text of a Refusal. After the remedy the same call succeeds.
	Refused Kind = "Refused"
	// Unsupported: the provider does not support the operation.
	Unsupported Kind = "Unsupported"
	// Unavailable: the cloud failed or was unreachable. The same call may work later.
	Unavailable Kind = "Unavailable"
)

// Error is the error type of every provider.
type Error struct {
	Kind Kind
	// Op and Resource are the operation and its object, in the cloud's words.
	Op       string
	Resource string
	// Code and Message are the cloud's own.
	Code    string
	Message string
	// Refusal is the structured form of Message; nil if unknown.
	Refusal *Refusal
	// RetryAfter is the delay that the cloud requested; zero without one.
	RetryAfter time.Duration
	// Err is the SDK's error; may be nil.
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
	if e.Code != "" && e.Code != string(e.Kind) {
		fmt.Fprintf(&b, " (%s)", e.Code)
	}
	if e.Message != "" { // a part of a sentence, so without the period of the cloud's own
		fmt.Fprintf(&b, ": %s", strings.TrimSuffix(e.Message, "."))
	}
	return b.String()
}

// Unwrap returns the SDK's error.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of an error; Unavailable for errors from elsewhere, "" for nil.
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

// Is reports whether the error is of the kind.
func Is(err error, kind Kind) bool { return KindOf(err) == kind }

// RetryAfter returns the delay that the cloud requested; zero without one.
func RetryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}
