package machine

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// write is the continuous writing of running services. A service that still runs writes removed files again, and so
// is detected.
func (s *session) write() {
	period := max(s.machine.fleet.config.Clock.Real(s.latencies().Write), 200*time.Millisecond)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for beat := 0; ; beat++ {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
		}
		if err := s.writeOnce(beat); err != nil {
			s.machine.fleet.config.Log.Warn("services could not write", "machine", s.spec.ID, "error", err)
		}
	}
}

// writeOnce lets each active service write.
func (s *session) writeOnce(beat int) error {
	s.mu.Lock()
	id, name := s.machineID, s.name
	s.mu.Unlock()
	if id == "" {
		return nil
	}
	defer disk.Writing(s.root)()
	now := s.machine.fleet.config.Clock.Now()
	line := fmt.Sprintf("%s %s systemd[1]: beat %d\n", now.Format(time.Stamp), name, beat)
	var errs []error
	// init always logs.
	if s.units.Message("systemd-journald.service") {
		errs = append(errs, disk.Append(filepath.Join(s.root, "var/log/journal", id, "system.journal"), line, 0o640))
		if s.units.Message("rsyslog.service") {
			errs = append(errs, disk.Append(filepath.Join(s.root, "var/log/syslog"), line, 0o640))
		}
	}
	if !s.onEC2() && s.units.Active("walinuxagent.service") {
		errs = append(errs,
			disk.WriteFile(filepath.Join(s.root, "var/lib/waagent/events", fmt.Sprintf("%d.json", beat%10)), []byte(`{"EventName":"HeartBeat","VMId":"`+s.spec.VMID+`"}`+"\n"), 0o600),
			disk.WriteFile(filepath.Join(s.root, "var/lib/waagent/published_hostname"), []byte(name), 0o644),
			disk.Append(filepath.Join(s.root, "var/log/waagent.log"), now.Format(time.RFC3339)+" INFO ExtHandler heartbeat\n", 0o644))
	}
	if s.units.Active("systemd-timesyncd.service") {
		errs = append(errs, disk.WriteFile(filepath.Join(s.root, "var/lib/systemd/timesync/clock"), nil, 0o644))
	}
	if s.units.Active(containerdUnit) {
		for _, pod := range disk.Pods(s.root) {
			errs = append(errs, disk.Append(filepath.Join(s.root, "var/log/pods", pod.Namespace+"_"+pod.Name+"_"+pod.UID, "0.log"), line, 0o640))
		}
	}
	if s.units.Active(kubeletUnit) {
		errs = append(errs, disk.Serve(s.root, s.facts()))
	}
	return errors.Join(errs...)
}

// lastWrites are the writes of a clean shutdown. They undo the generalization of a disk; so a donor must be powered
// off at once.
func (s *session) lastWrites() error {
	s.mu.Lock()
	id, name := s.machineID, s.name
	s.mu.Unlock()
	if id == "" {
		return nil
	}
	seed := make([]byte, 512)
	_, _ = rand.Read(seed)
	errs := []error{disk.WriteFile(filepath.Join(s.root, "var/lib/systemd/random-seed"), seed, 0o600)}
	if disk.MachineID(s.root) == "" {
		errs = append(errs, disk.WriteFile(filepath.Join(s.root, "etc/machine-id"), []byte(id+"\n"), 0o644))
	}
	line := fmt.Sprintf("%s %s systemd[1]: Reached target Power-Off.\n", s.machine.fleet.config.Clock.Now().Format(time.Stamp), name)
	if s.units.Message("systemd-journald.service") {
		errs = append(errs, disk.Append(filepath.Join(s.root, "var/log/journal", id, "system.journal"), line, 0o640))
	}
	return errors.Join(errs...)
}
