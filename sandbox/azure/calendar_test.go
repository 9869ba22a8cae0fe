package azure

import (
	"testing"
	"time"

	"github.com/kamino-dev/kamino/sandbox/clock"
)

// TestDocumentsUseTheCalendar: after a skip of two days, a machine is created as quickly as before, and shows the
// new date.
func TestDocumentsUseTheCalendar(t *testing.T) {
	calendar := &clock.Calendar{}
	c := newCloud(t, func(c *Config) { c.Clock.Calendar = calendar })
	c.pool(t, 0, nil)
	calendar.Skip(48 * time.Hour)
	if err := c.patch(t, capacityOf(1)); err != nil {
		t.Fatal(err)
	}
	all := c.instances(t)
	if len(all) != 1 || c.fleet.Size() != 1 {
		t.Fatalf("%d instances and %d machines, want one", len(all), c.fleet.Size())
	}
	if created := all[0].Properties.TimeCreated; time.Until(*created).Round(time.Hour) != 48*time.Hour {
		t.Errorf("the instance was made at %s, want two days ahead", created)
	}
}
