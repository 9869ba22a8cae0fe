package trial

import (
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// exitFailed is the exit code of a failed capture.
const exitFailed = 4

// testBadVersion asserts that a version with a defect fails at the check for the defect.
func testBadVersion(t *testing.T, name string, timeout time.Duration, d disk.Defect, check trial.CheckName, settings ...string) {
	t.Helper()
	t.Parallel()
	e := newEnv(t, name)
	e.Spoil("", d)
	e.Start(captureArgs(e, timeout, settings...)...).ExpectExit(exitFailed, string(check))
	assertFailedAt(e, check)
}

func TestVersionNeverJoins(t *testing.T) {
	onlyOnAzure(t)
	testBadVersion(t, "nojoin", short, disk.Defect{Kind: disk.NeverJoins}, trial.Registered)
}

func TestVersionNotReadyLater(t *testing.T) {
	// The soak is longer than a busy machine needs to report that the node is not Ready. If the trial itself looks
	// too late to see the node Ready, the short timeout ends the check.
	onlyOnAzure(t)
	testBadVersion(t, "unready", short, disk.Defect{Kind: disk.NotReadyLater, After: 3 * time.Second * timeScale}, trial.Ready, "soak: 20s")
}

func TestVersionWithSharedIdentity(t *testing.T) {
	onlyOnAzure(t)
	testBadVersion(t, "twin", generous, disk.Defect{Kind: disk.SharedIdentity}, trial.Identity)
}

func TestVersionWithoutNetwork(t *testing.T) {
	onlyOnAzure(t)
	testBadVersion(t, "deaf", generous, disk.Defect{Kind: disk.NoNetwork}, trial.Network)
}
