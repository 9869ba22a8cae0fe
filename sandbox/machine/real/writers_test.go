//go:build machines

package real

import (
	"os"
	"path/filepath"
	"testing"
)

// writers are services that no profile knows: one writes all the time, one has its log open, and one has deleted its
// open file.
var writers = []string{
	"systemd-run -q --unit=site-late sh -c 'x=needle; while :; do echo $x-late >>/var/log/site-late.log; sleep 0.1; done'",
	"systemd-run -q --unit=site-held -p StandardOutput=append:/var/log/site-held.log sh -c 'x=needle; seq 5000 | sed s/^/$x-held-/; exec sleep 10000'",
	"systemd-run -q --unit=site-own sh -c 'x=needle; exec 3>/var/lib/site-own; seq 5000 | sed s/^/$x-own-/ >&3; rm /var/lib/site-own; exec sleep 10000'",
}

var writtenNeedles = map[string][]byte{
	"a file that is written all the time": []byte("needle-late"), "an open log": []byte("needle-held-"), "a deleted open file": []byte("needle-own-"),
}

// startWriters starts the services, and waits until the content is on the disk.
func (m *machine) startWriters(t *testing.T) {
	t.Helper()
	for _, command := range writers {
		m.sh(t, command)
	}
	await(t, "the services to write", func() bool {
		_, err := m.try("test -s /var/log/site-late.log && grep -q needle-held-5000 /var/log/site-held.log && ls -l /proc/$(systemctl show -p MainPID --value site-own)/fd/3 | grep -q deleted")
		return err == nil
	})
	m.sh(t, "sync")
	if found := secretsOnDisk(t, m.image, writtenNeedles); len(found) != len(writtenNeedles) {
		t.Fatalf("the disk has only %q", found)
	}
}

// testWriters requires that nothing of the services is on the generalized disk.
func testWriters(t *testing.T, image string) {
	t.Helper()
	mounted(t, image, func(root string) {
		for _, name := range []string{"var/log/site-late.log", "var/log/site-held.log"} {
			if _, err := os.Lstat(filepath.Join(root, name)); !os.IsNotExist(err) {
				t.Errorf("/%s is on the generalized disk: %v", name, err)
			}
		}
	})
	if found := secretsOnDisk(t, image, writtenNeedles); len(found) > 0 {
		t.Errorf("on the generalized disk: %q", found)
	}
}
