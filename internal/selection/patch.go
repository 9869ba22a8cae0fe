package selection

import (
	"fmt"

	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// readPatch reads the time of the node's most recent patch.
func (s *subject) readPatch() {
	s.patch, s.found = s.Node.Annotations[s.rules.MostRecentPatch]
	if !s.found {
		return
	}
	at, err := time.Parse(time.RFC3339, s.patch)
	s.err = err
	if err == nil && !at.After(s.now) {
		s.verdict.PatchedAt = at
	}
}

// noRebootPending applies even if the rules about patches are waived, because a node before its reboot is patched by
// half.
//
// kured sets the annotation when the need for a reboot appears. kured removes the annotation after its own reboot only,
// never after a reboot by hand or by the cloud.
func noRebootPending(s *subject) *cloud.Refusal {
	name := s.rules.RebootPending
	value, found := s.Node.Annotations[name]
	switch {
	case !found, value == "false":
		return nil
	case !s.verdict.PatchedAt.IsZero() && s.verdict.ReadySince.After(s.verdict.PatchedAt):
		return refuse(RebootPending, fmt.Sprintf("if it was rebooted by hand or by the cloud, nobody takes the annotation away, so do that: `kubectl annotate node %s %s-`", s.Node.Name, name), "node %s waits for its reboot (annotation %s), although it became Ready after the need for one was found", s.Node.Name, name)
	}
	return refuse(RebootPending, "it is a candidate once the patcher has rebooted it", "node %s waits for its reboot (annotation %s), and its disk is patched by half", s.Node.Name, name)
}

func patched(s *subject) *cloud.Refusal {
	name := s.rules.MostRecentPatch
	switch {
	case s.waived:
		return nil
	case !s.found:
		return refuse(NotPatched, "it is a candidate once the patcher has written it", "node %s does not say when it was patched (annotation %s)", s.Node.Name, name)
	case s.err != nil:
		return refuse(PatchTimeInvalid, "see who writes it", "node %s says %q in annotation %s, which is not a time in RFC 3339, such as %s", s.Node.Name, clip(s.patch), name, utc(time.Unix(0, 0)))
	case s.verdict.PatchedAt.IsZero():
		return refuse(PatchedInFuture, "see whether its clock is right", "node %s says in annotation %s that it was patched at %s, which is still to come", s.Node.Name, name, clip(s.patch))
	}
	return nil
}

func patchedSinceImage(s *subject) *cloud.Refusal {
	at := s.verdict.PatchedAt
	if s.waived || at.IsZero() || s.pool.BuiltAt.IsZero() || at.After(s.pool.BuiltAt) {
		return nil
	}
	return refuse(PatchedBeforeImage, "it is a candidate after its next patch", "node %s was patched at %s, before %s was captured, so that a copy of it would be no newer", s.Node.Name, utc(at), s.image())
}

// goodPatch keeps a suspect patch out of the next version. A node that was patched in place has the same patch as a
// node that was built from the quarantined version. goodPatch is never waived.
func goodPatch(s *subject) *cloud.Refusal {
	at := s.verdict.PatchedAt
	if at.IsZero() || !at.After(s.pool.BuiltAt) || at.After(s.pool.BadUntil) {
		return nil
	}
	return refuse(SuspectPatch, "it is a candidate after its next patch; or lift the quarantine with `kamino release`", "node %s was patched at %s, before a version was captured that is quarantined now, and may carry what was wrong with it", s.Node.Name, utc(at))
}

// rebootedSincePatch requires that the node became Ready after the time in the annotation. kured writes the time when
// it detects the need for a reboot. The reboot may follow hours later, or without kured.
func rebootedSincePatch(s *subject) *cloud.Refusal {
	at := s.verdict.PatchedAt
	if s.waived || at.IsZero() || !s.ready || s.verdict.ReadySince.After(at) {
		return nil
	}
	return refuse(NotRebootedSincePatch, "it is a candidate once it has been rebooted", "node %s has been Ready without a break since before %s, when it was found to need a reboot, so it runs what was there before the patch", s.Node.Name, utc(at))
}

// clip limits the length of an annotation's value in messages.
func clip(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return text[:most] + "..."
}
