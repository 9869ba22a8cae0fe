package machine

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// Kinds of waits of a boot.
const (
	WaitCloud   = "cloud"
	WaitBoot    = "boot"
	WaitInstall = "install"
	WaitPull    = "pull"
	WaitJoin    = "join"
)

// imageSize of a container image on the disk, in MiB; a pull takes Latencies.Kubelet.ImagePull.
const imageSize = 250

// noteStart notes what the machine waited for before its power was on. The disk of a new machine is still unread.
func (s *session) noteStart() {
	m := s.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.record.Boots == 1 {
		s.waits.Note(WaitCloud, "request", s.spec.Waited)
		m.unread = map[string]bool{}
		if s.spec.ReadRate > 0 && !s.spec.Light {
			for _, image := range disk.Images(s.root) {
				m.unread[image] = true
			}
		}
	}
	s.waits.Note(WaitCloud, "power", s.latencies().PowerOn)
}

// firstRead is the time of the first read of an image on the machine's new disk; 0 for an image that was pulled or read.
func (m *machine) firstRead(image string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.unread[image] {
		return 0
	}
	delete(m.unread, image)
	return imageSize * time.Second / time.Duration(max(m.record.Spec.ReadRate, 1))
}

// PodWaits are what a pod waited for on a machine until its containers ran.
func (f *Fleet) PodWaits(id string, pod types.UID) []clock.Wait {
	if m := f.find(id); m != nil {
		if s := m.now(); s != nil && s.agent() != nil {
			return s.agent().Waits(pod)
		}
	}
	return nil
}

// PatchWaits are what a patch of a machine waits for until the reboot.
func (f *Fleet) PatchWaits() time.Duration {
	return f.config.Latencies.Patch + f.config.Latencies.Shutdown
}
