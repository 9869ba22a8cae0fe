package azure

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

func TestInstance(t *testing.T) {
	a := newARM(t)
	a.vm(`{"properties": {"protectionPolicy": {"protectFromScaleIn": true}, "storageProfile": {"imageReference":
		{"id": "` + testDefinition + `", "publisher": null, "offer": null, "sku": null, "version": null, "exactVersion": "2026.11.3"}}}}`)
	got, err := a.provider().Instance(t.Context(), testInstance)
	if err != nil {
		t.Fatal(err)
	}
	want := cloud.Instance{ID: testInstance, Pool: testPool, Power: cloud.PowerRunning, Image: testDefinition, Type: "Standard_D2s_v5", Zone: "westus2-1", BuiltFrom: "2026.11.3",
		Disk: testScope + "/providers/Microsoft.Compute/disks/disk0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(a.calls) != 1 || a.calls[0].Query["$expand"][0] != "instanceView" {
		t.Errorf("requests %+v", a.calls)
	}
	_, err = a.provider().Instance(t.Context(), testInstance+"99")
	wantKind(t, err, cloud.NotFound)
}

func TestInstanceRefusals(t *testing.T) {
	for changes, reason := range map[string]string{
		`{"properties": {"storageProfile": {"osDisk": {"diffDiskSettings": {"option": "Local"}}}}}`: cloud.DiskUnsupported,
		`{"properties": {"storageProfile": {"osDisk": {"managedDisk": null}}}}`:                     cloud.DiskUnsupported,
		`{"properties": {"storageProfile": {"osDisk": {"osType": "Windows"}}}}`:                     cloud.SystemUnsupported,
		`{"properties": {"securityProfile": {"securityType": "ConfidentialVM"}}}`:                   cloud.DiskUnsupported,
	} {
		t.Run(reason, func(t *testing.T) {
			a := newARM(t)
			a.vm(changes)
			got, err := a.provider().Instance(t.Context(), testInstance)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(reasons(got.Refusals), []string{reason}) {
				t.Errorf("refusals %v", got.Refusals)
			}
		})
	}
}

func TestPower(t *testing.T) {
	for _, test := range []struct {
		state      string
		power      cloud.Power
		stop       cloud.Power
		start      cloud.Power
		stops, ups bool
	}{
		{"running", cloud.PowerRunning, cloud.PowerStopping, cloud.PowerRunning, true, false},
		{"starting", cloud.PowerStarting, cloud.PowerStarting, cloud.PowerStarting, false, false},
		{"stopping", cloud.PowerStopping, cloud.PowerStopping, cloud.PowerStopping, false, false},
		{"stopped", cloud.PowerStopped, cloud.PowerStopped, cloud.PowerStarting, false, true},
		{"deallocated", cloud.PowerStopped, cloud.PowerStopped, cloud.PowerStarting, false, true},
		{"strange", cloud.PowerUnknown, cloud.PowerStopping, cloud.PowerStarting, true, true},
	} {
		t.Run(test.state, func(t *testing.T) {
			a := newARM(t)
			a.power(test.state)
			p := a.provider()
			seen, err := p.Instance(t.Context(), testInstance)
			if err != nil || seen.Power != test.power {
				t.Errorf("power %q, %v", seen.Power, err)
			}
			stopped, err := p.EnsureStopped(t.Context(), testInstance)
			if err != nil || stopped != test.stop {
				t.Errorf("stopping: %q, %v", stopped, err)
			}
			started, err := p.EnsureStarted(t.Context(), testInstance)
			if err != nil || started != test.start {
				t.Errorf("starting: %q, %v", started, err)
			}
			var want []string
			if test.stops {
				want = append(want, "POST virtualMachineScaleSets/pool1/virtualMachines/0/poweroff")
			}
			if test.ups {
				want = append(want, "POST virtualMachineScaleSets/pool1/virtualMachines/0/start")
			}
			if got := a.made(); !slices.EqualFunc(got, want, strings.EqualFold) {
				t.Errorf("sent %v, want %v", got, want)
			}
		})
	}
}

func TestProtectFromScaleIn(t *testing.T) {
	a := newARM(t)
	a.vm(`{"properties": {"protectionPolicy": {"protectFromScaleSetActions": true}}}`)
	p := a.provider()
	if err := p.ProtectFromScaleIn(t.Context(), testInstance, cloud.TokenUnprotected); err != nil {
		t.Fatal(err)
	}
	sent := a.last("PUT", "/virtualMachines/0")
	want := object(t, `{"location": "westus2", "properties": {"protectionPolicy": {"protectFromScaleIn": true, "protectFromScaleSetActions": true}}}`)
	if diff := cmp.Diff(want, sent.Body); diff != "" || sent.IfMatch != `"7"` {
		t.Errorf("If-Match %q, body %s", sent.IfMatch, diff)
	}
	before := len(a.made())
	if err := p.ProtectFromScaleIn(t.Context(), testInstance, cloud.TokenUnprotected); err != nil || len(a.made()) != before {
		t.Errorf("protecting again: %v, sent %v", err, a.made()[before:])
	}
	a.ignore[fold(sent.Path)] = 9
	wantKind(t, p.Unprotect(t.Context(), testInstance, cloud.TokenUnprotected), cloud.Conflict)
	a.ignore[fold(sent.Path)] = 0
	if err := p.Unprotect(t.Context(), testInstance, cloud.TokenUnprotected); err != nil {
		t.Error(err)
	}
	if seen, err := p.Protection(t.Context(), testInstance); err != nil || seen.Protected {
		t.Errorf("protected %v, %v", seen.Protected, err)
	}
}
