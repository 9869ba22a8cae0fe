package conformance

import (
	"context"
	"fmt"
	"sync"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// shed is a fleet of machines without insides: power, and a text for each disk.
type shed struct {
	mu    sync.Mutex
	power map[string]fleet.Power
	disks map[fleet.DiskID]string
}

func newShed() *shed {
	return &shed{power: map[string]fleet.Power{}, disks: map[fleet.DiskID]string{}}
}

func (s *shed) set(id string, power fleet.Power) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.power[id] = power
	return nil
}

func (s *shed) CopyDisk(_ context.Context, dst, src fleet.DiskID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.disks[src]
	if !ok {
		content = "platform image " + string(src)
	}
	s.disks[dst] = content
	return nil
}

func (s *shed) DeleteDisk(_ context.Context, id fleet.DiskID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.disks, id)
	return nil
}

func (s *shed) Launch(_ context.Context, spec fleet.Spec) error {
	s.mu.Lock()
	_, there := s.disks[spec.Disk]
	s.mu.Unlock()
	if !there {
		return fmt.Errorf("machine %s has no disk %s", spec.ID, spec.Disk)
	}
	return s.set(spec.ID, fleet.On)
}

func (s *shed) PowerOn(_ context.Context, id string) error { return s.set(id, fleet.On) }

func (s *shed) PowerOff(_ context.Context, id string, _ bool) error { return s.set(id, fleet.Off) }

func (s *shed) Power(id string) fleet.Power {
	s.mu.Lock()
	defer s.mu.Unlock()
	if power := s.power[id]; power != "" {
		return power
	}
	return fleet.Off
}

func (s *shed) Terminate(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.power, id)
	return nil
}

func (s *shed) Reimage(_ context.Context, spec fleet.Spec) error { return s.set(spec.ID, fleet.On) }
