package azure

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

func TestErrorKinds(t *testing.T) {
	deniedText := "The client 'c0ffee' with object id 'c0ffee' does not have authorization to perform action 'Microsoft.Compute/virtualMachineScaleSets/read' over scope '/subscriptions/1' or the scope is invalid. If access was recently granted, please refresh your credentials."
	for _, test := range []struct {
		name  string
		reply answer
		want  cloud.Kind
		says  string
		after time.Duration
	}{
		{name: "not found", reply: armError(404, "ResourceNotFound", "gone"), want: cloud.NotFound, says: "gone"},
		{name: "denied", reply: armError(403, "AuthorizationFailed", deniedText), want: cloud.Denied,
			says: "action Microsoft.Compute/virtualMachineScaleSets/read on /subscriptions/1 is not allowed for client c0ffee: assign a role"},
		{name: "linked", reply: armError(403, "LinkedAuthorizationFailed",
			"The client 'a' has permission to perform action 'X/write' on scope '/s/1'; however, "+
				"it does not have permission to perform action(s) 'Y/read' on the linked scope(s) '/s/2'"),
			want: cloud.Denied, says: "action Y/read on /s/2"},
		{name: "policy", reply: armError(403, "RequestDisallowedByPolicy", "no tags"), want: cloud.Denied, says: "Azure Policy"},
		{name: "lock", reply: armError(409, "ScopeLocked", "locked"), want: cloud.Denied, says: "remove the lock"},
		{name: "expired", reply: armError(401, "ExpiredAuthenticationToken", "The access token expiry is past."),
			want: cloud.Unauthenticated, says: "Log in again"},
		{name: "throttled", reply: armError(429, "TooManyRequests", "slow down", "Retry-After", "17"), want: cloud.Throttled, after: 17 * time.Second},
		{name: "quota", reply: armError(409, "OperationNotAllowed",
			"Operation could not be completed as it results in exceeding approved standardDSv5Family Cores quota."),
			want: cloud.QuotaExceeded, says: "larger quota"},
		{name: "quota code", reply: armError(400, "QuotaExceeded", "no more"), want: cloud.QuotaExceeded},
		{name: "busy", reply: armError(409, "OperationNotAllowed", "The operation is not allowed while it is updating."), want: cloud.Conflict},
		{name: "etag", reply: armError(412, "PreconditionFailed", "etag"), want: cloud.Conflict},
		{name: "bad request", reply: armError(400, "InvalidParameter", "wrong"), want: cloud.Invalid, says: "wrong"},
		{name: "outage", reply: armError(503, "ServerBusy", "busy", "Retry-After", "30"), want: cloud.Unavailable, after: 30 * time.Second},
		{name: "no body", reply: answer{status: 418}, want: cloud.Invalid, says: "418"},
		{name: "unreachable",
			reply: answer{body: &url.Error{Op: "Get", URL: "https://x", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}},
			want:  cloud.Unavailable, says: "cannot be reached"},
		{name: "untrusted", reply: answer{body: &url.Error{Op: "Get", URL: "https://x", Err: x509.UnknownAuthorityError{}}},
			want: cloud.Unavailable, says: "SSL_CERT_FILE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newARM(t)
			for range maxRetries + 1 {
				a.next("GET", string(testPool), test.reply)
			}
			_, err := a.provider().Pool(t.Context(), testPool)
			e := mustKind(t, err, test.want)
			if !strings.Contains(e.Message, test.says) {
				t.Errorf("message %q does not say %q", e.Message, test.says)
			}
			if strings.Contains(e.Error(), "\n") || !strings.Contains(e.Error(), "read scale set pool1") {
				t.Errorf("the error is not one line that names the object: %q", e.Error())
			}
			if e.RetryAfter != test.after {
				t.Errorf("retry after %s, want %s", e.RetryAfter, test.after)
			}
		})
	}
}

func TestErrorDetails(t *testing.T) {
	a := newARM(t)
	a.next("GET", string(testPool), answer{status: 409, body: map[string]any{"error": map[string]any{
		"code": "Conflict", "message": "It failed.", "details": []any{map[string]any{"code": "Inner", "message": "Because of this."}},
	}}})
	_, err := a.provider().Pool(t.Context(), testPool)
	if e := mustKind(t, err, cloud.Conflict); e.Message != "It failed. Because of this." {
		t.Errorf("message %q", e.Message)
	}
}

func TestCancelledCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newARM(t).provider().Pool(ctx, testPool)
	wantKind(t, err, cloud.Unavailable)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v is not the context's error", err)
	}
}

func TestRetries(t *testing.T) {
	var statuses []int
	a := newARM(t)
	a.pool("")
	a.next("GET", string(testPool), armError(500, "InternalServerError", "again"))
	p, err := New(t.Context(), Config{Credential: token{}, Transport: a, OnRequest: func(_ string, status int, throttled bool) {
		statuses = append(statuses, status)
		if throttled != (status == 429) {
			t.Errorf("status %d, throttled %v", status, throttled)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Pool(t.Context(), testPool); err != nil {
		t.Errorf("one failure was not retried: %v", err)
	}
	a.next("GET", string(testPool), armError(429, "TooManyRequests", "later", "Retry-After", "60"))
	_, err = p.Pool(t.Context(), testPool)
	wantKind(t, err, cloud.Throttled)
	if want := []int{500, 200, 429}; len(statuses) != len(want) {
		t.Errorf("requests were answered %v, want %v: a long Retry-After is returned, not slept", statuses, want)
	}
}
