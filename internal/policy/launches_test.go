package policy_test

import (
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// launches is what the cloud answers to launches of a version.
func (s *promotedPool) launches(version string) cloud.Launches {
	s.Helper()
	image, err := s.cloud.Image(s.Context(), cloud.ImageRef{Pool: s.pool, Version: version})
	s.must(err)
	return image.Launches
}

func (s *promotedPool) quarantine(version, reason string) {
	s.Helper()
	s.must(s.cloud.TagImage(s.Context(), cloud.ImageRef{Pool: s.pool, Version: version}, map[string]string{cloud.TagQuarantined: reason}))
}

// TestQuarantinedVersionsAreNotLaunched: the controller forbids the launches of a version that a person, a trial or an earlier Kamino
// quarantined, but of no version that the recipe names. A quiet pool costs no request.
func TestQuarantinedVersionsAreNotLaunched(t *testing.T) {
	s := trustInMemory(t)
	s.quarantine(s.good, "why")
	s.quarantine(s.bad, "the recipe names it")
	s.last(400)
	if good, bad := s.launches(s.good), s.launches(s.bad); good != cloud.LaunchesForbidden || bad != cloud.LaunchesAllowed {
		t.Errorf("launches of the version are %s, and %s of the version in the recipe", good, bad)
	}
	s.quarantine(s.good, "")
	s.must(s.cloud.AllowLaunches(t.Context(), cloud.ImageRef{Pool: s.pool, Version: s.good}, true))
	s.cloud.ChangeRecipe(s.pool, string(s.pool)+"/versions/"+s.good)
	s.last(400)
	if good, bad := s.launches(s.good), s.launches(s.bad); good != cloud.LaunchesAllowed || bad != cloud.LaunchesForbidden {
		t.Errorf("after the recipe changed, launches are %s and %s", good, bad)
	}
	if n := s.writes()["AllowLaunches"]; n != 2 {
		t.Errorf("%d requests", n)
	}
}

// TestLaunchesAreForbiddenLater: a denied or lost request is repeated, with a pause after a denial. A version that a person has released
// since the last look stays as it is.
func TestLaunchesAreForbiddenLater(t *testing.T) {
	s := trustInMemory(t)
	s.quarantine(s.good, "why")
	s.cloud.Forbid("AllowLaunches")
	s.last(480)
	if n := s.writes()["AllowLaunches"]; n < 2 || n > 8 || s.launches(s.good) != cloud.LaunchesAllowed {
		t.Errorf("%d requests in eight hours without the permission", n)
	}
	s.cloud.Permit("AllowLaunches")
	for _, outcome := range []memory.Outcome{memory.FailBefore(cloud.Unavailable), memory.FailAfter(cloud.Unavailable)} {
		lose := true
		s.calls.Inject(func(c memory.Call) memory.Outcome {
			if c.Op != "AllowLaunches" || !lose {
				return memory.Pass()
			}
			lose = false
			return outcome
		})
		s.must(s.cloud.AllowLaunches(t.Context(), cloud.ImageRef{Pool: s.pool, Version: s.good}, true))
		s.last(400)
		if s.launches(s.good) != cloud.LaunchesForbidden || lose {
			t.Errorf("after a lost request launches are %s", s.launches(s.good))
		}
	}
	s = trustInMemory(t)
	s.quarantine(s.good, "why")
	reads := 0
	s.calls.Inject(func(c memory.Call) memory.Outcome {
		if c.Op == "Images" {
			if reads++; reads == 1 {
				s.clock.Advance(2 * time.Second)
			} else {
				s.quarantine(s.good, "") // a person, after the look
			}
		}
		return memory.Pass()
	})
	s.last(400)
	if s.launches(s.good) != cloud.LaunchesAllowed || reads < 2 {
		t.Errorf("after %d reads, launches of a version are forbidden that a person has released", reads)
	}
}
