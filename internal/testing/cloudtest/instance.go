package cloudtest

import (
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var instanceCases = []testCase{
	{"an instance shows itself", instanceShowsItself},
	{"a missing instance is not found", instanceNotFound},
	{"two ways to write an ID name one instance", sameInstance},
	{"EnsureStopped is repeated until stopped", stops},
	{"EnsureStarted is repeated until running", starts},
	{"EnsureStarted leaves a running instance alone", startedAlready},
	{"Restart boots a running instance again", restarts},
	{"a guest that switches itself off is stopped", guestPowersOff},
	{"the serial console of an instance is its own, and its end is read", readsConsole},
}

func instanceShowsItself(t *testing.T, s suite) {
	image := s.recipe(t).Image
	for _, id := range s.Instances {
		have := got(s.p.Instance(t.Context(), id))(t)
		if !s.p.SameInstance(have.ID, id) || have.Pool != s.Pool && have.Pool != "" {
			t.Errorf("%s of %s is shown as %s of %s", id, s.Pool, have.ID, have.Pool)
		}
		have.ID, have.Pool, have.Disk, have.CreatedAt, have.Type, have.Zone, have.Recipe = "", "", "", time.Time{}, "", "", ""
		wantSame(t, string(id), cloud.Instance{Power: cloud.PowerRunning, Image: image}, have)
	}
}

func instanceNotFound(t *testing.T, s suite) {
	ctx := t.Context()
	fails(s.p.Instance(ctx, s.Missing))(t, cloud.NotFound)
	fails(s.p.EnsureStopped(ctx, s.Missing))(t, cloud.NotFound)
	fails(s.p.EnsureStarted(ctx, s.Missing))(t, cloud.NotFound)
	if err := s.p.Restart(ctx, s.Missing); !cloud.Is(err, cloud.NotFound) {
		t.Errorf("the restart of nothing: %v", err)
	}
	fails(s.p.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: theSnapshot, Instance: s.Missing}))(t, cloud.NotFound)
	if have := got(s.p.Snapshot(ctx, s.Missing, theSnapshot))(t); have.State != cloud.Absent {
		t.Errorf("there is a snapshot of nothing: %+v", have)
	}
}

func sameInstance(t *testing.T, s suite) {
	if !s.p.SameInstance(s.a, s.a) {
		t.Errorf("%s is not itself", s.a)
	}
	if s.p.SameInstance(s.a, s.b) {
		t.Errorf("%s is %s", s.a, s.b)
	}
	shout := upper(s.a)
	if have := s.p.SameInstance(s.a, shout); have != s.FoldsCase {
		t.Errorf("SameInstance(%s, %s) is %t, want %t", s.a, shout, have, s.FoldsCase)
	}
	if s.FoldsCase {
		got(s.p.Instance(t.Context(), shout))(t)
	}
}

// stop stops an instance, and checks every answer.
func (s suite) stop(t *testing.T, id cloud.InstanceID) {
	t.Helper()
	s.until(t, "stopped", func() bool {
		power := got(s.p.EnsureStopped(t.Context(), id))(t)
		switch power {
		case cloud.PowerStopped:
			return true
		case cloud.PowerRunning, cloud.PowerStopping, cloud.PowerStarting, cloud.PowerUnknown:
		default:
			t.Fatalf("power %q is none of the contract's", power)
		}
		return false
	})
	s.wantPower(t, id, cloud.PowerStopped)
}

// start starts an instance, and checks every answer.
func (s suite) start(t *testing.T, id cloud.InstanceID) {
	t.Helper()
	s.until(t, "running", func() bool {
		power := got(s.p.EnsureStarted(t.Context(), id))(t)
		switch power {
		case cloud.PowerRunning:
			return true
		case cloud.PowerStopped, cloud.PowerStopping, cloud.PowerStarting, cloud.PowerUnknown:
		default:
			t.Fatalf("power %q is none of the contract's", power)
		}
		return false
	})
	s.wantPower(t, id, cloud.PowerRunning)
}

func (s suite) wantPower(t *testing.T, id cloud.InstanceID, want cloud.Power) {
	t.Helper()
	if have := got(s.p.Instance(t.Context(), id))(t).Power; have != want {
		t.Errorf("%s is %q, want %q", id, have, want)
	}
}

func stops(t *testing.T, s suite) {
	s.stop(t, s.a)
	if power := got(s.p.EnsureStopped(t.Context(), s.a))(t); power != cloud.PowerStopped {
		t.Errorf("stopping a stopped instance makes it %q", power)
	}
	s.Advance(t)
	s.wantPower(t, s.a, cloud.PowerStopped)
	s.wantPower(t, s.b, cloud.PowerRunning)
}

func starts(t *testing.T, s suite) {
	before := s.instances(t)
	s.stop(t, s.a)
	s.start(t, s.a)
	s.Advance(t)
	wantSame(t, "stopped and started (-before +after)", before, s.instances(t))
}

func startedAlready(t *testing.T, s suite) {
	for range 3 {
		if power := got(s.p.EnsureStarted(t.Context(), s.a))(t); power != cloud.PowerRunning {
			t.Fatalf("starting a running instance makes it %q", power)
		}
		s.wantPower(t, s.a, cloud.PowerRunning)
		s.Advance(t)
	}
}

func restarts(t *testing.T, s suite) {
	before := s.instances(t)
	boots := func(id cloud.InstanceID) int {
		if s.Boots == nil {
			return 0
		}
		return s.Boots(t, id)
	}
	first, other := boots(s.a), boots(s.b)
	if err := s.p.Restart(t.Context(), s.a); err != nil {
		t.Fatal(err)
	}
	s.until(t, "restarted", func() bool {
		return got(s.p.Instance(t.Context(), s.a))(t).Power == cloud.PowerRunning && (s.Boots == nil || boots(s.a) > first)
	})
	s.Advance(t)
	wantSame(t, "restarted (-before +after)", before, s.instances(t))
	if s.Boots != nil && (boots(s.a) != first+1 || boots(s.b) != other) {
		t.Errorf("%d and %d boots became %d and %d", first, other, boots(s.a), boots(s.b))
	}
}

func guestPowersOff(t *testing.T, s suite) {
	if s.PowerOffGuest == nil {
		t.Skip("the harness cannot switch a guest off")
	}
	s.PowerOffGuest(t, s.a)
	s.until(t, "stopped", func() bool {
		return got(s.p.Instance(t.Context(), s.a))(t).Power == cloud.PowerStopped
	})
	if power := got(s.p.EnsureStopped(t.Context(), s.a))(t); power != cloud.PowerStopped {
		t.Errorf("EnsureStopped finds %q", power)
	}
	s.start(t, s.a)
}

func readsConsole(t *testing.T, s suite) {
	if s.Console == nil {
		t.Skip("the harness has no consoles")
	}
	for _, id := range s.Instances {
		text := strings.Repeat("before\r\n", cloud.ConsoleSize/8) + "the end of " + string(id)
		s.Console(t, id, text)
	}
	for _, id := range s.Instances {
		have := got(s.p.ConsoleOutput(t.Context(), id))(t)
		if !strings.HasSuffix(have, "\r\nthe end of "+string(id)) || len(have) > cloud.ConsoleSize {
			t.Errorf("%d bytes of the console of %s end in %q", len(have), id, have[max(0, len(have)-100):])
		}
	}
	fails(s.p.ConsoleOutput(t.Context(), s.Missing))(t, cloud.NotFound)
}
