package trial

import (
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/workload"
)

// exitFailed is the exit code of a capture that has failed.
const exitFailed = 4

// bad are versions that must fail, by the check that is for them.
var bad = map[string]struct {
	check   trial.Name
	timeout time.Duration
	defect  disk.Defect
}{
	"nojoin":  {trial.Registered, time.Minute, disk.Defect{Kind: disk.NeverJoins}},
	"unready": {trial.Ready, time.Minute, disk.Defect{Kind: disk.NotReadyLater, After: 3 * time.Second * timeScale}},
	"crash":   {trial.Daemons, ample, disk.Defect{Kind: disk.CrashingDaemonSet, DaemonSet: workload.Namespace + "/" + workload.DaemonSet}},
	"twin":    {trial.Identity, ample, disk.Defect{Kind: disk.SharedIdentity}},
	"deaf":    {trial.Network, ample, disk.Defect{Kind: disk.NoNetwork}},
}

func TestBadVersionFails(t *testing.T) {
	t.Parallel()
	for _, w := range []way{apart, inPool} {
		t.Run(string(w.mode), func(t *testing.T) {
			t.Parallel()
			for name, c := range bad {
				t.Run(name, func(t *testing.T) {
					g := newGround(t, strings.ToLower(string(w.mode[:1]))+name, w)
					g.spoil(c.defect)
					g.capture(c.timeout).ends(t, exitFailed, string(c.check))
					g.hasFailed(c.check)
				})
			}
		})
	}
}
