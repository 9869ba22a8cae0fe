package azure

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// gets counts the GETs of a path.
func (a *fakeARM) gets(path string) (n int) {
	for _, c := range a.calls {
		if c.Method == http.MethodGet && strings.EqualFold(c.Path, path) {
			n++
		}
	}
	return n
}

const vmPath = string(testPool) + "/virtualMachines/0"

// TestReadCache: with a cache, an instance is read once until a write. Without a cache, and with WithoutReadCache,
// each read is a request.
func TestReadCache(t *testing.T) {
	a := newARM(t)
	a.vm(`{"etag": "\"1\""}`)
	p := a.provider()
	ctx := cloud.WithReadCache(t.Context())
	for range 3 {
		if _, err := p.Instance(ctx, testInstance); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.gets(vmPath); n != 1 {
		t.Errorf("%d reads within one look", n)
	}
	if _, err := p.Instance(cloud.WithoutReadCache(ctx), testInstance); err != nil || a.gets(vmPath) != 2 {
		t.Errorf("without cache: %v, %d reads", err, a.gets(vmPath))
	}
	if err := p.ProtectFromScaleIn(ctx, testInstance, cloud.TokenUnprotected); err != nil || a.gets(vmPath) != 2 {
		t.Errorf("a write on what was seen: %v, %d reads", err, a.gets(vmPath))
	}
	for range 2 {
		have, err := p.Protection(ctx, testInstance)
		if err != nil || !have.Protected {
			t.Errorf("after the write: %+v, %v", have, err)
		}
	}
	if n := a.gets(vmPath); n != 4 {
		t.Errorf("%d reads, want each after a write", n)
	}
}

// TestFreshReadBeforeWrite: without an ETag, a fresh read precedes a write. With an ETag, Azure refuses the write
// after a change.
func TestFreshReadBeforeWrite(t *testing.T) {
	for name, test := range map[string]struct {
		etag  string
		reads int
	}{"with an ETag": {`"1"`, 1}, "without one": {"", 2}} {
		t.Run(name, func(t *testing.T) {
			a := newARM(t)
			a.vm(`{}`)
			delete(a.documents[fold(vmPath)], "etag")
			if test.etag != "" {
				a.documents[fold(vmPath)]["etag"] = test.etag
			}
			p, ctx := a.provider(), cloud.WithReadCache(t.Context())
			if _, err := p.Instance(ctx, testInstance); err != nil {
				t.Fatal(err)
			}
			if err := p.ProtectFromScaleIn(ctx, testInstance, cloud.TokenUnprotected); err != nil {
				t.Fatal(err)
			}
			if n := a.gets(vmPath); n != test.reads {
				t.Errorf("%d reads, want %d", n, test.reads)
			}
			for _, c := range a.calls {
				if c.Method == http.MethodPut && c.IfMatch != test.etag {
					t.Errorf("If-Match %q, want %q", c.IfMatch, test.etag)
				}
			}
		})
	}
}

// TestFailedReadIsNotCached: the cache keeps no errors, except NotFound.
func TestFailedReadIsNotCached(t *testing.T) {
	a := newARM(t)
	a.next(http.MethodGet, vmPath, armError(http.StatusForbidden, "AuthorizationFailed", "not now"))
	p, ctx := a.provider(), cloud.WithReadCache(t.Context())
	_, err := p.Instance(ctx, testInstance)
	wantKind(t, err, cloud.Denied)
	for range 2 {
		_, err = p.Instance(ctx, testInstance)
		wantKind(t, err, cloud.NotFound)
	}
	if n := a.gets(vmPath); n != 2 {
		t.Errorf("%d reads", n)
	}
}
