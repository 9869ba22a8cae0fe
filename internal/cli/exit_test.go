package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

func TestExitCode(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	for name, test := range map[string]struct {
		err  error
		want int
	}{
		"nothing":             {nil, ExitDone},
		"anything":            {errors.New("x"), ExitUnexpected},
		"usage":               {usagef("x"), ExitUsage},
		"refused":             {refusedf("x"), ExitRefused},
		"wrapped":             {fmt.Errorf("y: %w", refusedf("x")), ExitRefused},
		"forbidden":           {apierrors.NewForbidden(nodes, "n", errors.New("x")), ExitNotAllowed},
		"unauthorized":        {apierrors.NewUnauthorized("x"), ExitNotAllowed},
		"cloud denies":        {&cloud.Error{Kind: cloud.Denied}, ExitNotAllowed},
		"cloud credential":    {fmt.Errorf("pool: %w", &cloud.Error{Kind: cloud.Unauthenticated}), ExitNotAllowed},
		"cloud away":          {&cloud.Error{Kind: cloud.Unavailable}, ExitUnreachable},
		"cloud throttles":     {&cloud.Error{Kind: cloud.Throttled}, ExitUnreachable},
		"cloud has no such":   {&cloud.Error{Kind: cloud.NotFound}, ExitUnexpected},
		"cloud can't":         {&cloud.Error{Kind: cloud.Unsupported}, ExitRefused},
		"disk full":           {&fs.PathError{Op: "write", Path: "/mnt/disk/etc/x", Err: syscall.ENOSPC}, ExitUnexpected},
		"read-only disk":      {fmt.Errorf("write /etc/x: %w", syscall.EROFS), ExitUnexpected},
		"no connection":       {&net.OpError{Op: "dial", Net: "tcp", Err: &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}}, ExitUnreachable},
		"connection refused":  {&url.Error{Op: "Get", URL: "https://x", Err: syscall.ECONNREFUSED}, ExitUnreachable},
		"port is taken":       {fmt.Errorf("controller: %w", &net.OpError{Op: "listen", Err: syscall.EADDRINUSE}), ExitUsage},
		"API server busy":     {apierrors.NewTooManyRequests("x", 1), ExitUnreachable},
		"API server restarts": {apierrors.NewServiceUnavailable("x"), ExitUnreachable},
		"not found":           {apierrors.NewNotFound(nodes, "n"), ExitUnexpected},
		"canceled":            {&url.Error{Op: "Get", URL: "https://x", Err: context.Canceled}, ExitUnexpected},
	} {
		t.Run(name, func(t *testing.T) {
			if got := exitCode(test.err); got != test.want {
				t.Errorf("exitCode(%v) = %d, want %d", test.err, got, test.want)
			}
		})
	}
}

func TestTheFirstRefusalDecidesTheCode(t *testing.T) {
	permission := cloud.Refusal{Reason: "PermissionMissing", Message: "m"}
	other := cloud.Refusal{Reason: "Windows", Message: "m"}
	for _, test := range []struct {
		refusals []cloud.Refusal
		want     int
	}{
		{[]cloud.Refusal{permission, other}, ExitNotAllowed},
		{[]cloud.Refusal{other, permission}, ExitRefused},
	} {
		err := refusal("cannot capture node n", test.refusals)
		if got := exitCode(err); got != test.want {
			t.Errorf("%v: exit code %d, want %d", test.refusals, got, test.want)
		}
		if strings.Count(err.Error(), "\n") != 4 || !strings.Contains(err.Error(), "\n  see https://") {
			t.Errorf("not a line and an address for each refusal:\n%v", err)
		}
	}
}

func TestFailureReportsChanges(t *testing.T) {
	f := &Factory{Now: nowUTC}
	for name, test := range map[string]struct {
		reason string
		donor  bool
		want   int
	}{
		"found before anything was done": {"Windows", false, ExitRefused},
		"a permission":                   {"PermissionMissing", false, ExitNotAllowed},
		"after the reservation":          {"ImageFailed", true, ExitFailed},
		"a permission lost on the way":   {"Denied", true, ExitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			p := prior("p", "2026.03.09", "n", v1alpha1.PhaseFailed)
			p.Status.Failure = &v1alpha1.Failure{Reason: test.reason, Message: "m", CloudError: "the cloud's words"}
			if test.donor {
				at := metav1.NewMicroTime(testNow)
				p.Status.Donor = &v1alpha1.DonorStatus{ReservedAt: &at, ReleasedAt: &at}
			}
			err := f.failed(&p)
			if got := exitCode(err); got != test.want {
				t.Errorf("exit code %d, want %d: %v", got, test.want, err)
			}
			if !strings.Contains(err.Error(), "the cloud's words") {
				t.Errorf("%q leaves out what the cloud said", err)
			}
		})
	}
}

func prior(name, version, node string, phase v1alpha1.Phase) v1alpha1.Prototype {
	p := v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec = v1alpha1.PrototypeSpec{Pool: "pool1", Version: version,
		Donor: v1alpha1.Donor{NodeName: node, ProviderID: "memory:///pools/pool1/instances/" + node}}
	p.Status.Phase = phase
	return p
}

// TestErrorsBreakAtWords on a terminal, and stay in one piece elsewhere.
func TestErrorsBreakAtWords(t *testing.T) {
	for _, width := range []int{0, 40} {
		var said bytes.Buffer
		f := &Factory{Out: io.Discard, Err: &said, Getenv: func(string) string { return "" }, Now: time.Now, Window: func() (int, int) { return width, 24 }}
		if code := f.Run(t.Context(), []string{"history", "--no-such-flag-in-this-command"}); code != ExitUsage {
			t.Fatalf("exit code %d", code)
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if broken := len(lines) > 1; broken != (width > 0) || !strings.Contains(said.String(), "--no-such-flag-in-this-command") {
			t.Errorf("width %d:\n%s", width, said.String())
		}
		for _, line := range lines {
			if width > 0 && len(line) > width {
				t.Errorf("%d columns: %s", len(line), line)
			}
		}
	}
}
