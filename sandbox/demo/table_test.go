package demo

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

const (
	eksNode = "ip-10-105-203-100.eu-central-1.compute.internal"
	version = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/kamino/images/" +
		"kamino-k8s-agentpool1-24816321-vmss-prototype/versions/2026.11.30"
)

func compared(generic, clone []clock.Wait, genericPod, clonePod time.Duration) *scenario {
	pod := func(took time.Duration) []clock.Wait { return []clock.Wait{{Kind: "pull", Took: took}} }
	s := &scenario{Options: Options{Cloud: pool.Azure}, donor: "donor", patching: 6 * time.Minute}
	s.before = map[string]machine.Status{"donor": {Kernel: "6.1.156-177.287.amzn2023.x86_64", Packages: map[string]string{"openssl": "3.2.2-1.amzn2023.0.3"}}}
	s.generic = joined{Join: control.Join{Node: "k8s-agentpool1-24816321-vmss000003"}, boot: generic, pod: pod(genericPod),
		machine: machine.Status{Kernel: "6.1.156-177.286.amzn2023.x86_64", Image: "Canonical:0001-com-ubuntu-server-jammy:22_04-lts-gen2:22.04.202601010"}}
	s.clone = joined{Join: control.Join{Node: eksNode}, boot: clone, pod: pod(clonePod),
		machine: machine.Status{Kernel: "6.1.156-177.287.amzn2023.x86_64", Image: version}}
	return s
}

func boots(seconds int) []clock.Wait {
	return []clock.Wait{{Kind: machine.WaitBoot, Took: time.Duration(seconds) * time.Second}}
}

func TestPrototypeMustBeFaster(t *testing.T) {
	for name, c := range map[string]struct {
		s     *scenario
		eks   bool
		fails string
	}{
		"faster":              {s: compared(boots(60), boots(20), 12*time.Second, time.Second)},
		"Ready later":         {s: compared(boots(20), boots(22), 12*time.Second, time.Second), fails: "was Ready after 0m22s"},
		"Ready later, on EKS": {s: compared(boots(20), boots(22), 12*time.Second, time.Second), eks: true},
		"a slow first pod":    {s: compared(boots(20), boots(22), 4*time.Second, 4*time.Second), eks: true, fails: "the first pod: 0m26s"},
		"nothing measured":    {s: compared(nil, nil, 0, 0), fails: "no simulated times"},
	} {
		if c.eks {
			c.s.Cloud = pool.AWS
		}
		err := c.s.prototypeIsFaster(t.Context())
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v, want %q", name, err, c.fails)
		}
	}
	unpatched := compared(boots(60), boots(20), 12*time.Second, time.Second)
	unpatched.clone.machine.Kernel, unpatched.clone.boot = unpatched.generic.machine.Kernel, boots(60)
	if err := unpatched.prototypeIsFaster(t.Context()); err == nil {
		t.Error("a golden image without the patch passes")
	}
}

// TestTextFits into 80 columns, with the names of real clouds, and no word is broken.
func TestTextFits(t *testing.T) {
	var out bytes.Buffer
	s := compared(boots(60), boots(20), 12*time.Second, time.Second)
	s.print = newPrinter(&out, false)
	s.generic.identity = identity{machineID: strings.Repeat("0", 32), hostKey: "SHA256:" + strings.Repeat("a", 43)}
	s.clone.identity = s.generic.identity
	s.capture.prototype.Status.Donor = &v1alpha1.DonorStatus{}
	s.print.title(pool.AWS)
	s.print.step(s.captureTitle())
	for _, c := range s.eksChecks() {
		s.print.check(c.claim, errors.New("node "+eksNode+" was rebooted or rebuilt, or had another machine ID"))
	}
	s.print.event(control.Event{Subject: eksNode, Text: "libssl3 3.0.2-0ubuntu1.16 fixes CVE-2026-0001 and CVE-2026-0002, was 3.0.2-0ubuntu1.15"})
	if err := s.compareNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, whole := range []string{eksNode, "credential is on the disk", "request to patched node", "...1-24816321-vmss000003"} {
		if !strings.Contains(out.String(), whole) {
			t.Errorf("%q is not in one piece:\n%s", whole, out.String())
		}
	}
}
