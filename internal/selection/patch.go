package selection

import (
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
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

// noRebootPending applies even if the rules about patches are waived, because a node before its reboot is half patched. kured
// removes the annotation only after its own reboot, never after a reboot by hand or by the cloud.
func noRebootPending(s *subject) *cloud.Refusal {
	name := s.rules.RebootPending
	value, found := s.Node.Annotations[name]
	switch {
	case !found, value == "false":
		return nil
	case !s.verdict.PatchedAt.IsZero() && s.verdict.ReadySince.After(s.verdict.PatchedAt):
		return refuse(RebootPending, fmt.Sprintf("after a manual reboot, remove the annotation: `kubectl annotate node %s %s-`", s.Node.Name, name),
			"node %s waits for a reboot (annotation %s), although the node became Ready after the annotation was written", s.Node.Name, name)
	}
	return refuse(RebootPending, "wait for the reboot", "node %s waits for a reboot (annotation %s), so the patch is incomplete", s.Node.Name, name)
}

// noPatchFailed applies even if the rules about patches are waived, because the packages may be installed by half.
func noPatchFailed(s *subject) *cloud.Refusal {
	name := v1alpha1.PatchFailedAnnotation
	if value, found := s.Node.Annotations[name]; !found || value == "false" {
		return nil
	}
	return refuse(PatchFailed, fmt.Sprintf("repair the packages, then remove the annotation: `kubectl annotate node %s %s-`", s.Node.Name, name),
		"the last patch of node %s failed (annotation %s), so its packages may be incomplete", s.Node.Name, name)
}

func patched(s *subject) *cloud.Refusal {
	name := s.rules.MostRecentPatch
	switch {
	case s.waived:
		return nil
	case !s.found:
		return refuse(NotPatched, "wait until the patcher has written the annotation", "node %s has no time of a patch (annotation %s)", s.Node.Name, name)
	case s.err != nil:
		return refuse(PatchTimeInvalid, "fix the tool that writes the annotation",
			"node %s has %q in annotation %s; expected a time in RFC 3339, such as %s", s.Node.Name, clip(s.patch), name, utc(time.Unix(0, 0)))
	case s.verdict.PatchedAt.IsZero():
		return refuse(PatchTimeInvalid, "check the clock of the node",
			"node %s has a time in the future in annotation %s: %s", s.Node.Name, name, clip(s.patch))
	}
	return nil
}

func patchedSinceImage(s *subject) *cloud.Refusal {
	at := s.verdict.PatchedAt
	if s.waived || at.IsZero() || s.pool.BuiltAt.IsZero() || at.After(s.pool.BuiltAt) {
		return nil
	}
	return refuse(NoNewPatch, "wait for the next patch", "node %s was patched at %s, before the capture of %s, so an image would be no newer",
		s.Node.Name, utc(at), s.image())
}

// hasImageLevel reports whether the node has the packages of the image.
func (s *subject) hasImageLevel() bool {
	return s.pool.Level != "" && s.Node.Annotations[v1alpha1.PatchLevelAnnotation] == s.pool.Level
}

// newLevel refuses a node that rebooted without new packages.
func newLevel(s *subject) *cloud.Refusal {
	if s.waived || !s.hasImageLevel() {
		return nil
	}
	return refuse(NoNewPatch, "wait for the next patch", "node %s has the patch level of %s, so an image would be no newer", s.Node.Name, s.image())
}

// isNews reports whether the node has a patch that the image lacks.
func (s *subject) isNews() bool {
	at := s.verdict.PatchedAt
	return !at.IsZero() && (s.pool.BuiltAt.IsZero() || at.After(s.pool.BuiltAt)) && !s.hasImageLevel()
}

// goodPatch keeps a suspect patch out of the next version. A node that was patched in place has the same patch as a
// node that was built from the quarantined version. goodPatch is never waived.
func goodPatch(s *subject) *cloud.Refusal {
	at := s.verdict.PatchedAt
	if at.IsZero() || !at.After(s.pool.BuiltAt) || at.After(s.pool.BadUntil) {
		return nil
	}
	return refuse(SuspectPatch, "wait for the next patch, or lift the quarantine with `kamino unquarantine`",
		"node %s was patched at %s, before the capture of a quarantined version, and may have the same fault", s.Node.Name, utc(at))
}

// rebootedSincePatch requires that the node became Ready after the time in the annotation. kured writes the time when
// it detects the need for a reboot. The reboot may follow hours later, or without kured.
func rebootedSincePatch(s *subject) *cloud.Refusal {
	at := s.verdict.PatchedAt
	if s.waived || at.IsZero() || !s.ready || s.verdict.ReadySince.After(at) {
		return nil
	}
	return refuse(NotRebootedSincePatch, "reboot the node",
		"node %s has been Ready since before %s, when the patcher found that a reboot was needed, so the node runs unpatched software", s.Node.Name, utc(at))
}

// clip limits the length of an annotation's value in messages.
func clip(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return text[:most] + "..."
}
