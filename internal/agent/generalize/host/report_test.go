package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/rules"
)

type namedError struct{ error }

func (namedError) ReasonName() string { return "StaleCopy" }

// TestReportOfACopy: a run on a copy proves the copy of its order alone, and says by name why there is no proof.
func TestReportOfACopy(t *testing.T) {
	dir := t.TempDir()
	for file, content := range map[string]string{"etc/machine-id": "0123456789abcdef0123456789abcdef\n", "etc/hostname": "donor-1\n", "etc/kubernetes/certs/client.crt": "x"} {
		p := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	profile, err := rules.Load(v1alpha1.ProfileStatic)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := tree.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	disk := &v1alpha1.CopiedDisk{Snapshot: "snap-1", Device: "vol-1"}
	r := &generalize.Runner{Profile: profile, Tool: "test", Subject: generalize.RunSubject{Prototype: "p", UID: "u", Copy: disk}, Now: time.Now}
	m, err := r.Run(t.Context(), opened)
	if err != nil {
		t.Fatal(err)
	}
	report, err := FactsOf(r, opened, m, t.Logf).Report(m, "o", time.Unix(1795240800, 0))
	if err != nil {
		t.Fatal(err)
	}
	for order, c := range map[types.UID]struct {
		disk *v1alpha1.CopiedDisk
		want bool
	}{"o": {disk, true}, "p": {disk, false}} {
		record := v1alpha1.Record{Order: &v1alpha1.OrderRecord{UID: order, Copy: c.disk}}
		if got := record.Proves(report.Proof, "u"); got != c.want {
			t.Errorf("order %s: proves %t, want %t: %+v", order, got, c.want, report.Proof)
		}
	}
	if (v1alpha1.Record{GeneralizeBootID: boot, Order: &v1alpha1.OrderRecord{UID: "o"}}).Proves(report.Proof, "u") || report.Proof.BootID != "" {
		t.Error("the proof of a copy proves a boot")
	}
	why := fmt.Errorf("a copy: %w", namedError{errors.New(strings.Repeat("x", 2*maxWhy))})
	u := Failure(r.Subject, "o", why, time.Now()).Unproven
	if !(v1alpha1.Record{Order: &v1alpha1.OrderRecord{UID: "o", Copy: disk}}).Answers(u, "u") || u.Reason != "StaleCopy" ||
		len(u.Message) > maxWhy+8 {
		t.Errorf("got %+v", u)
	}
}
