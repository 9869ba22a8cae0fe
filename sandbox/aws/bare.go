package aws

import (
	"context"
	"sync"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// powerFleet is a fleet of machines with only a power state. An unknown machine is on.
type powerFleet struct {
	mu  sync.Mutex
	off map[string]bool
}

func (b *powerFleet) set(id string, off bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.off[id] = off
	return nil
}

// CopyDisk implements fleet.Fleet.
func (b *powerFleet) CopyDisk(context.Context, fleet.DiskID, fleet.DiskID) error { return nil }

// DeleteDisk implements fleet.Fleet.
func (b *powerFleet) DeleteDisk(context.Context, fleet.DiskID) error { return nil }

// Launch implements fleet.Fleet.
func (b *powerFleet) Launch(_ context.Context, spec fleet.Spec) error { return b.set(spec.ID, false) }

// PowerOn implements fleet.Fleet.
func (b *powerFleet) PowerOn(_ context.Context, id string) error { return b.set(id, false) }

// PowerOff implements fleet.Fleet.
func (b *powerFleet) PowerOff(_ context.Context, id string, _ bool) error { return b.set(id, true) }

// Power implements fleet.Fleet.
func (b *powerFleet) Power(id string) fleet.Power {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.off[id] {
		return fleet.Off
	}
	return fleet.On
}

// Console implements fleet.Fleet.
func (b *powerFleet) Console(string) string { return "" }

// Terminate implements fleet.Fleet.
func (b *powerFleet) Terminate(_ context.Context, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.off, id)
	return nil
}

// Reimage implements fleet.Fleet.
func (b *powerFleet) Reimage(_ context.Context, spec fleet.Spec) error { return b.set(spec.ID, false) }
