package requestlog

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRequestClasses(t *testing.T) {
	b := New()
	for _, step := range []struct {
		r    Request
		uri  string
		want Class
	}{
		{Request{Method: "GET", Noun: "pool", Operation: "get", Status: 200}, "/pool", Read},
		{Request{Method: "GET", Noun: "pool", Operation: "get", Status: 200}, "/POOL", Repeat},
		{Request{Method: "GET", Noun: "pool", Operation: "get", Status: 200, Principal: "other"}, "/pool", Read},
		{Request{Method: "GET", Noun: "pool", Operation: "get", Status: 404}, "/pool2", Read},
		{Request{Method: "PATCH", Noun: "pool", Operation: "patch", Status: 429}, "/pool", Write},
		{Request{Method: "HEAD", Noun: "pool", Operation: "get", Status: 200}, "/pool", Read},
		{Request{Method: "GET", Class: Poll, Noun: "operation", Operation: "get", Status: 200}, "/operation", Poll},
		{Request{Method: "GET", Class: Poll, Noun: "operation", Operation: "get", Status: 200}, "/operation", Poll},
		{Request{Method: "POST", Class: Login, Noun: "token", Operation: "post", Status: 200}, "/token", Login},
		{Request{Method: "GET", Status: 404}, "/nowhere", Read},
		{Request{Method: "DELETE", Noun: "pool", Operation: "delete"}, "/pool", Write},
	} {
		b.Enter(step.r, step.uri)
		all := b.Requests()
		if got := all[len(all)-1].Class; got != step.want {
			t.Errorf("%s %s counts as %s, want %s", step.r.Method, step.uri, got, step.want)
		}
	}
	want := Stats{Requests: 10, Reads: 5, Writes: 2, Polls: 2, Repeats: 1, Logins: 1, Throttled: 1, Failed: 2,
		ByOperation: map[string]int{"pool get": 4, "pool patch": 1, "pool delete": 1}}
	if diff := cmp.Diff(want, b.Stats()); diff != "" {
		t.Errorf("counted otherwise than wanted (-want +got):\n%s", diff)
	}
	b.Reset()
	if n := len(b.Requests()) + b.Stats().Requests; n != 0 {
		t.Errorf("%d requests are there after a reset", n)
	}
	b.Enter(Request{Method: "GET", Noun: "pool", Operation: "get"}, "/pool")
	if b.Stats().Repeats != 0 {
		t.Error("what was asked before the reset counts as a repeat")
	}
}

// TestExplicitClass: some clouds take every request as a POST.
func TestExplicitClass(t *testing.T) {
	b := New()
	look := Request{Method: "POST", Class: Read, Noun: "instance", Operation: "Describe", Status: 200}
	write := Request{Method: "POST", Class: Write, Noun: "instance", Operation: "Stop", Status: 503, Throttled: true}
	for _, r := range []Request{look, look, write, look} {
		b.Enter(r, r.Operation)
	}
	want := Stats{Requests: 4, Reads: 2, Writes: 1, Repeats: 1, Throttled: 1, ByOperation: map[string]int{"instance Describe": 2, "instance Stop": 1}}
	if diff := cmp.Diff(want, b.Stats()); diff != "" {
		t.Errorf("counted otherwise than wanted (-want +got):\n%s", diff)
	}
}

func TestOldRequestsAreDropped(t *testing.T) {
	b := New()
	for n := range keptRequests + 1 {
		b.Enter(Request{Method: "PUT", Status: n}, "/")
	}
	all := b.Requests()
	if len(all) != keptRequests/2+1 || all[0].Status != keptRequests/2 || all[len(all)-1].Status != keptRequests {
		t.Errorf("%d are kept, from %d to %d", len(all), all[0].Status, all[len(all)-1].Status)
	}
	if b.Stats().Writes != keptRequests+1 {
		t.Errorf("%d writes are counted, want all", b.Stats().Writes)
	}
}

func TestReadsAreDroppedBeforeWrites(t *testing.T) {
	b := New()
	b.Enter(Request{Method: "PUT", Path: "/written"}, "/written")
	for n := range 3 * keptRequests {
		b.Enter(Request{Method: "GET", Status: n}, "/")
	}
	if all := b.Requests(); all[0].Path != "/written" || all[1].Status < keptRequests || len(all) > keptRequests {
		t.Errorf("%d are kept, from %s and %d", len(all), all[0].Path, all[1].Status)
	}
}
