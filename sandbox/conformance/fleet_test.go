package conformance

import (
	"context"
	"fmt"
	"sync"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// emptyFleet is a fleet of empty machines: power, and a text per disk.
type emptyFleet struct {
	mu    sync.Mutex
	power map[string]fleet.Power
	disks map[fleet.DiskID]string
	// consoles are the serial consoles by machine.
	consoles map[string]string
}

func newEmptyFleet() *emptyFleet {
	return &emptyFleet{power: map[string]fleet.Power{}, disks: map[fleet.DiskID]string{}, consoles: map[string]string{}}
}

func (s *emptyFleet) set(id string, power fleet.Power) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.power[id] = power
	return nil
}

func (s *emptyFleet) CopyDisk(_ context.Context, dst, src fleet.DiskID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.disks[src]
	if !ok {
		content = "platform image " + string(src)
	}
	s.disks[dst] = content
	return nil
}

func (s *emptyFleet) DeleteDisk(_ context.Context, id fleet.DiskID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.disks, id)
	return nil
}

func (s *emptyFleet) Launch(_ context.Context, spec fleet.Spec) error {
	s.mu.Lock()
	_, there := s.disks[spec.Disk]
	s.mu.Unlock()
	if !there {
		return fmt.Errorf("machine %s has no disk %s", spec.ID, spec.Disk)
	}
	return s.set(spec.ID, fleet.On)
}

func (s *emptyFleet) PowerOn(_ context.Context, id string) error { return s.set(id, fleet.On) }

func (s *emptyFleet) PowerOff(_ context.Context, id string, _ bool) error {
	return s.set(id, fleet.Off)
}

func (s *emptyFleet) Power(id string) fleet.Power {
	s.mu.Lock()
	defer s.mu.Unlock()
	if power := s.power[id]; power != "" {
		return power
	}
	return fleet.Off
}

func (s *emptyFleet) Terminate(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.power, id)
	return nil
}

func (s *emptyFleet) Console(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.consoles[id]
	return text[max(0, len(text)-cloud.ConsoleSize):]
}

func (s *emptyFleet) setConsole(id, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.consoles[id] = text
}

func (s *emptyFleet) Reimage(_ context.Context, spec fleet.Spec) error {
	return s.set(spec.ID, fleet.On)
}
