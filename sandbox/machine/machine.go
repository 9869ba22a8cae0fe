package machine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// machine is a VM. Orders that change the power run one after the other. A loss of power never waits.
type machine struct {
	fleet *Fleet
	// order is held (by sending) while an order is carried out.
	order chan struct{}

	mu      sync.Mutex
	record  record
	power   fleet.Power
	session *session
	// unread are the container images of a new disk that nothing has read yet.
	unread map[string]bool
}

func newMachine(f *Fleet, r record) *machine {
	if r.Address == 0 {
		r.Address = f.nextIP.Add(1)
	}
	return &machine{fleet: f, order: make(chan struct{}, 1), record: r, power: fleet.Off}
}

// Power returns the current state.
func (m *machine) Power() fleet.Power {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.power
}

func (m *machine) specification() fleet.Spec {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record.Spec
}

func (m *machine) respecify(spec fleet.Spec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record.Spec = spec
}

func (m *machine) address() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.record.Address + 3
	return fmt.Sprintf("10.%d.%d.%d", 240+(n>>16)%4, n>>8&0xff, n&0xff)
}

// lockPower waits for earlier orders. The caller must call the returned function at the end.
func (m *machine) lockPower(ctx context.Context) (func(), error) {
	select {
	case m.order <- struct{}{}:
		return func() { <-m.order }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// change changes and stores the record.
func (m *machine) change(alter func(*record)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	alter(&m.record)
	return m.fleet.save(m.record)
}

// now is the present boot; nil if the machine is off.
func (m *machine) now() *session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.session
}

// powerOn powers a machine on and returns during the boot.
func (m *machine) powerOn(ctx context.Context) error {
	release, err := m.lockPower(ctx)
	if err != nil {
		return err
	}
	defer release()
	return m.switchOn(ctx)
}

// switchOn needs the order.
func (m *machine) switchOn(ctx context.Context) error {
	if m.now() != nil {
		return nil
	}
	m.set(fleet.Starting)
	if err := m.fleet.config.Clock.Sleep(ctx, m.fleet.config.Latencies.PowerOn); err != nil {
		return m.stayOff(err)
	}
	if err := m.change(func(r *record) { r.On, r.Boots = true, r.Boots+1 }); err != nil {
		return m.stayOff(err)
	}
	s, err := newSession(m)
	if err != nil {
		return m.stayOff(fmt.Errorf("boot %s: %w", m.specification().ID, err))
	}
	s.noteStart()
	m.mu.Lock()
	m.session, m.power = s, fleet.On
	m.mu.Unlock()
	if m.fleet.ctx.Err() != nil {
		m.end(s, false, fleet.Starting)
		return m.fleet.ctx.Err()
	}
	s.start()
	return nil
}

// stayOff ends a boot that failed. The end of the fleet is no such failure: the next fleet boots the machine.
func (m *machine) stayOff(err error) error {
	if m.fleet.ctx.Err() != nil {
		return err
	}
	m.set(fleet.Off)
	return errors.Join(err, m.change(func(r *record) { r.On = false }))
}

func (m *machine) set(power fleet.Power) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.power = power
}

// powerOff powers a machine off: with a shutdown of the operating system, or at once (hard). A hard stop interrupts a
// running order.
func (m *machine) powerOff(ctx context.Context, hard bool) error {
	if hard {
		m.cutPower()
	}
	release, err := m.lockPower(ctx)
	if err != nil {
		return err
	}
	defer release()
	return m.switchOff(ctx, hard)
}

// switchOff needs the order.
func (m *machine) switchOff(ctx context.Context, hard bool) error {
	if s := m.now(); s != nil {
		m.end(s, !hard, fleet.Off)
	}
	if err := m.change(func(r *record) { r.On = false }); err != nil {
		return err
	}
	if hard {
		return m.fleet.config.Clock.Sleep(ctx, m.fleet.config.Latencies.PowerOff)
	}
	return nil
}

// cutPower ends the current boot at once, even during an order.
func (m *machine) cutPower() {
	if s := m.now(); s != nil {
		m.end(s, false, fleet.Off)
	}
}

// end ends a boot and returns when nothing of it is left. The second to call it waits for the first;
// cutting the power cuts an orderly way down short. Before another boot the power is never Off: the cloud would take a reboot, or the
// end of the sandbox, for a shutdown by the guest.
func (m *machine) end(s *session, orderly bool, after fleet.Power) {
	if !orderly {
		s.cancel()
	}
	s.ending.Do(func() {
		m.set(fleet.Stopping)
		if orderly {
			s.shutdown()
		}
		s.kill()
		m.mu.Lock()
		m.session, m.power = nil, after
		m.mu.Unlock()
		close(s.ended)
	})
	<-s.ended
}

// poweredItselfOff is the machine's own doing, such as a write to sysrq-trigger: the record says off.
func (m *machine) poweredItselfOff(s *session) {
	m.end(s, false, fleet.Off)
	if err := m.change(func(r *record) { r.On = false }); err != nil {
		m.fleet.config.Log.Error("machine's record not kept", "machine", m.specification().ID, "error", err)
	}
}
