package machine

import (
	"time"

	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
)

// Latencies are the simulated durations of a machine's life. Zero means the default, negative none.
type Latencies struct {
	// PowerOn from the order to the power being on; 5 s. PowerOff of a hard stop; 2 s.
	PowerOn, PowerOff time.Duration
	// Shutdown is the operating system's orderly way down; 15 s.
	Shutdown time.Duration
	// Boot from power on to the system being up; 20 s. KubeletStart from then to the Node being Ready; 5 s.
	Boot, KubeletStart time.Duration
	// FirstBoot is what Kamino's first-boot unit adds to a boot: the check of the machine, and new keys; 2 s.
	FirstBoot time.Duration
	// Install is the time to download and install packages on a generic image; 105 s. The pulls of three images add
	// to the time. Join is the rest of the bootstrap; 9 s.
	Install, Join time.Duration
	// Extension is the run of a VM extension; 60 s.
	Extension time.Duration
	// Patch is the download and installation of updates; 300 s.
	Patch time.Duration
	// Write is how often a running machine's services write to its disk; 10 s, never less than 200 ms of
	// real time.
	Write   time.Duration
	Kubelet kubelet.Latencies
}

// Defaulted sets the defaults of zero fields.
func (l Latencies) Defaulted() Latencies {
	for field, fallback := range map[*time.Duration]time.Duration{
		&l.PowerOn: 5 * time.Second, &l.PowerOff: 2 * time.Second, &l.Shutdown: 15 * time.Second,
		&l.Boot: 20 * time.Second, &l.FirstBoot: 2 * time.Second, &l.KubeletStart: 5 * time.Second,
		&l.Install: 105 * time.Second, &l.Join: 9 * time.Second, &l.Extension: time.Minute,
		&l.Patch: 5 * time.Minute, &l.Write: 10 * time.Second, &l.Kubelet.ImagePull: 12 * time.Second,
	} {
		if *field == 0 {
			*field = fallback
		}
		*field = max(*field, 0)
	}
	if l.Kubelet.ImagePull == 0 {
		// Zero would mean the default once more.
		l.Kubelet.ImagePull = -1
	}
	return l
}
