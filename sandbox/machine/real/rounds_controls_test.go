//go:build machines

package real

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/agent/quiesce"
)

// testControls takes copies that are of no use, before the writers begin. Each must be found out.
func (d *copyDonor) testControls(t *testing.T) {
	t.Run("before the flush", func(t *testing.T) {
		early := d.newCopy()
		snapshotOf(t, d.m.image, early.path)
		c := d.copyInService(t, "Auto")
		discard(t, c.path)
		c.path = early.path
		d.mustDiscard(t, c, "does not hold the donor's last flush")
	})
	t.Run("without a flush", func(t *testing.T) {
		d.untilSeen(t, func(c *aCopy) string {
			d.m.sh(t, d.nonce(c))
			snapshotOf(t, d.m.image, c.path)
			return "does not hold the donor's last flush"
		})
	})
	t.Run("another disk", func(t *testing.T) {
		c := d.newCopy()
		snapshotOf(t, d.pristine, c.path)
		d.mustDiscard(t, c, "the copy has the machine ID")
	})
	t.Run("in a transaction", d.testTransaction)
	t.Run("an image without a flush", func(t *testing.T) {
		// The nonce alone is flushed: the image is removed from the copy.
		d.untilSeen(t, func(c *aCopy) string {
			d.m.sh(t, "sync -f /")
			d.pull(t, d.images[0])
			d.m.sh(t, d.nonce(c)+" && sync /"+quiesce.NonceDir+"/"+c.uid)
			snapshotOf(t, d.m.image, c.path)
			d.m.sh(t, "ctr -n k8s.io images rm --sync "+d.images[0])
			return "Removed the damaged image " + d.images[0]
		})
	})
}

// nonce writes the nonce in the way of Kamino, without a flush.
func (*copyDonor) nonce(c *aCopy) string {
	return "rm -rf /" + quiesce.NonceDir + " && mkdir -p /" + quiesce.NonceDir + " && echo " + c.nonce + " >/" + quiesce.NonceDir + "/" + c.uid
}

// mustDiscard cleans a copy that must be discarded for a reason.
func (d *copyDonor) mustDiscard(t *testing.T, c *aCopy, why string) {
	t.Helper()
	if exit, out := d.clean(t, c); exit != 4 || !strings.Contains(out, why) {
		t.Errorf("exit code %d, want 4 and %q\n%s", exit, why, out)
	}
	discard(t, c.path)
}

// untilSeen takes copies until Kamino says what is wrong with one. Any program on the host that calls sync also flushes the donor.
func (d *copyDonor) untilSeen(t *testing.T, take func(c *aCopy) (says string)) {
	t.Helper()
	for copies := 1; ; copies++ {
		c := d.newCopy()
		says := take(c)
		exit, out := d.clean(t, c)
		discard(t, c.path)
		if strings.Contains(out, says) {
			return
		}
		if copies == maxCopies {
			t.Fatalf("in %d copies nothing says %q; exit code %d\n%s", copies, says, exit, out)
		}
	}
}

// testTransaction: Kamino waits for dpkg, and changes nothing on a donor that stays busy. A copy without the wait is half installed, flushed
// or not.
func (d *copyDonor) testTransaction(t *testing.T) {
	d.m.sh(t, "systemd-run -q --unit=site-slow dpkg -i /mnt/site/site-slow.deb")
	await(t, "the package to be half configured", func() bool {
		_, err := d.m.try("test -e /run/slow")
		return err == nil
	})
	q := startQuiesce(t, d.m, "--wait", "2s")
	if line := q.await(t, "Waiting"); line == nil || !strings.Contains(line["for"].(string), "dpkg") {
		t.Errorf("it does not wait for dpkg: %v", line)
	}
	if line := q.await(t, "Now"); line != nil {
		t.Errorf("a copy may be taken: %v", line)
	}
	if err := q.cmd.Wait(); code(err) != 3 || !strings.Contains(q.stderr.String(), "DonorBusy") {
		t.Errorf("%v\n%s", err, q.stderr.String())
	}
	if _, err := d.m.try("test ! -e /" + quiesce.NonceDir + "/" + q.uid); err != nil {
		t.Error("the nonce is on the disk of a busy donor")
	}
	c := d.newCopy()
	d.m.sh(t, d.nonce(c)+" && sync -f /")
	snapshotOf(t, d.m.image, c.path)
	d.mustDiscard(t, c, incomplete)
	d.m.sh(t, "touch /run/go")
	await(t, "dpkg to end", func() bool {
		_, err := d.m.try("! systemctl is-active site-slow && dpkg -P site-slow")
		return err == nil
	})
}
