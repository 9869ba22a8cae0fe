package running

import (
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestCopy: the donor serves, its disk is copied in a freeze, the copy is cleaned and proven on another machine.
func TestCopy(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "copy")
	boots := e.donor().Boots
	m := e.take()
	if !m.Frozen || m.FrozenFor.Duration <= 0 || m.MachineID != e.donor().MachineID {
		t.Errorf("the moment is %+v", m.Moment)
	}
	volume := e.attach(m.snapshot)
	o := e.clean(m, volume, volume)
	r := o.result()
	record := v1alpha1.Record{Order: &o.record}
	if !record.Proves(r.Proof, holder.UID) {
		t.Fatalf("no proof: %+v", r.Unproven)
	}
	if now := e.Machine(e.Donor); now.Boots != boots {
		t.Errorf("the donor has booted %d times, before %d", now.Boots, boots)
	}
}
