package fault

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kamino-dev/kamino/sandbox/clock"
)

func TestFaultMatching(t *testing.T) {
	for name, test := range map[string]struct {
		fault Fault
		want  bool
	}{
		"everything":              {Fault{}, true},
		"method in another case":  {Fault{Method: "put"}, true},
		"another method":          {Fault{Method: "GET"}, false},
		"path, in part":           {Fault{Path: "/POOLS/.*2"}, true},
		"another path":            {Fault{Path: "/disks/"}, false},
		"noun":                    {Fault{Resource: "Pool"}, true},
		"another noun":            {Fault{Resource: "disk"}, false},
		"operation":               {Fault{Operation: "PUT"}, true},
		"another operation":       {Fault{Operation: "get"}, false},
		"all but one":             {Fault{Method: "PUT", Path: "pools", Resource: "pool", Operation: "get"}, false},
		"a permission is no such": {Fault{Deny: "*"}, false},
	} {
		if got := List(nil).With(test.fault).Strike("PUT", "/pools/p2", "pool", "put") != nil; got != test.want {
			t.Errorf("%s: it strikes: %t, want %t", name, got, test.want)
		}
	}
}

func TestFaultSkipAndCount(t *testing.T) {
	l := List(nil).With(Fault{Name: "a", Skip: 2, Count: 2}).With(Fault{Name: "b", Resource: "disk"})
	var struck []string
	for range 6 {
		name := "-"
		if f := l.Strike("GET", "/", "pool", "get"); f != nil {
			name = f.Name
		}
		struck = append(struck, name)
	}
	if got, want := struck, []string{"-", "-", "a", "a", "-", "-"}; !slices.Equal(got, want) {
		t.Errorf("struck %v, want %v", got, want)
	}
	if live := l.Live(); len(live) != 1 || live[0].Name != "b" {
		t.Errorf("live are %v, want b", live)
	}
	l = l.With(Fault{Name: "a"})
	if f := l.Strike("GET", "/", "pool", "get"); f == nil || len(l) != 2 {
		t.Error("a fault of the same name did not take its place")
	}
	if l = l.Without("b"); len(l) != 1 {
		t.Errorf("%d are left without b, want 1", len(l))
	}
	if l = l.Without(); len(l) != 0 {
		t.Errorf("%d are left without all", len(l))
	}
}

func TestDenying(t *testing.T) {
	l := List(nil).With(Fault{Name: "a", Deny: "Disks/*/write", Count: 1})
	for action, want := range map[string]bool{"disks/os/WRITE": true, "disks/write": false, "disks/os/read": false, "x/disks/os/write": false} {
		if got := l.Denying(action) != nil; got != want {
			t.Errorf("%s is denied: %t, want %t", action, got, want)
		}
	}
	l.Denying("disks/os/write").Struck++
	if l.Denying("disks/os/write") != nil {
		t.Error("a spent fault denies")
	}
}

func TestFaultValidation(t *testing.T) {
	for _, bad := range []Fault{{Path: "("}, {Phase: "during"}} {
		if _, err := bad.Validate(); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	f, err := Fault{RetryAfter: 3}.Validate()
	if err != nil || f.Phase != Before || f.Status != 429 {
		t.Errorf("completed to %+v, %v", f, err)
	}
	if f, _ := (Fault{RetryAfter: 3, Status: 503, Phase: After}).Validate(); f.Status != 503 || f.Phase != After {
		t.Errorf("what was given is replaced: %+v", f)
	}
}

func TestFaultDelaysAndDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := (&Fault{Delay: 20}).Apply(t.Context(), clock.Clock{Scale: 10}); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("it took %v, %v; want 2 s", time.Since(began), err)
		}
		defer func() {
			if recover() == nil {
				t.Error("the connection is kept")
			}
		}()
		_ = (&Fault{Drop: true}).Apply(t.Context(), clock.Clock{})
	})
}
