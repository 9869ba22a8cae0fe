package disk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

func TestDefectIsCopiedAndRemoved(t *testing.T) {
	root := filepath.Join(t.TempDir(), "image")
	if err := disk.Generic(root, disk.TemplateValues{}); err != nil {
		t.Fatal(err)
	}
	if got, err := disk.DefectOf(root); err != nil || got != (disk.Defect{}) {
		t.Errorf("a platform image has the defect %+v (%v)", got, err)
	}
	want := disk.Defect{Kind: disk.SharedIdentity, Share: 100, SystemUUID: "uuid"}
	if err := disk.Spoil(root, want, "0123456789abcdef0123456789abcdef"); err != nil {
		t.Fatal(err)
	}
	copied := root + "-copy"
	if err := disk.Copy(copied, root); err != nil {
		t.Fatal(err)
	}
	if got, err := disk.DefectOf(copied); err != nil || got != want || disk.MachineID(copied) != "0123456789abcdef0123456789abcdef" {
		t.Errorf("the copy has %+v and machine ID %q (%v)", got, disk.MachineID(copied), err)
	}
	for range 2 {
		if err := disk.Spoil(root, disk.Defect{Kind: disk.NoDefect}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := disk.DefectOf(root); err != nil || got != (disk.Defect{}) {
		t.Errorf("taken back, it is %+v (%v)", got, err)
	}
	if got, err := disk.DefectOf(copied); err != nil || got != want {
		t.Errorf("the copy lost its own: %+v (%v)", got, err)
	}
	if err := os.WriteFile(filepath.Join(copied, "usr/lib/sandbox/defect.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.DefectOf(copied); err == nil {
		t.Error("a defect that cannot be read is none")
	}
}

func TestDefectShare(t *testing.T) {
	for _, share := range []int{1, 30, 70, 100} {
		for seed := range uint64(5) {
			d, err := disk.Defect{Kind: disk.NeverJoins, Share: share, Seed: seed}.Validate()
			if err != nil {
				t.Fatal(err)
			}
			struck := 0
			for i := range 2000 {
				name := fmt.Sprintf("k8s-pool1-24816321-vmss%06d", i)
				if d.Affects(name) {
					struck++
				}
				if d.Affects(name) != d.Affects(strings.ToUpper(name)) {
					t.Fatalf("the answer for %s depends on its case", name)
				}
			}
			if got := float64(struck) / 20; got < float64(share)-3 || got > float64(share)+3 {
				t.Errorf("seed %d: %.1f %% of the machines, want %d", seed, got, share)
			}
		}
	}
	one, other := disk.Defect{Share: 50, Seed: 1}, disk.Defect{Share: 50, Seed: 2}
	differ := false
	for i := range 20 {
		differ = differ || one.Affects(fmt.Sprint(i)) != other.Affects(fmt.Sprint(i))
	}
	if !differ {
		t.Error("two seeds strike the same machines")
	}
}

func TestDefectValidation(t *testing.T) {
	for want, d := range map[string]disk.Defect{
		"is unknown":            {Kind: "haunted"},
		"the share is 101":      {Kind: disk.NeverJoins, Share: 101},
		"a time above 0 is for": {Kind: disk.NeverJoins, After: time.Minute},
		"a DaemonSet is for":    {Kind: disk.NoNetwork, DaemonSet: "a/b"},
		"pass namespace/name":   {Kind: disk.CrashingDaemonSet, DaemonSet: "b"},
	} {
		if _, err := d.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", d, err, want)
		}
	}
	for _, kind := range []disk.DefectKind{disk.NotReadyLater, disk.JoinsLate} {
		if d, err := (disk.Defect{Kind: kind}).Validate(); err != nil || d.Share != 100 || d.After != 5*time.Minute {
			t.Errorf("the defaults are %+v (%v)", d, err)
		}
	}
}
