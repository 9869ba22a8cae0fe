package azure

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestEnsureRemoved: each state of an instance leads to the right request. A second removal of a leaving instance
// must not shrink the scale set again.
func TestEnsureRemoved(t *testing.T) {
	const remove = "DELETE virtualMachineScaleSets/pool1/virtualMachines/0"
	for _, test := range []struct {
		name, vm string
		want     cloud.State
		sent     []string
	}{
		{"it runs", `{}`, cloud.Deleting, []string{remove}},
		{"it is off", `{"properties": {"instanceView": {"statuses": [{"code": "PowerState/stopped"}]}}}`, cloud.Deleting, []string{remove}},
		{"it is protected", `{"properties": {"protectionPolicy": {"protectFromScaleIn": true}}}`, cloud.Deleting, []string{remove}},
		{"its last change failed", `{"properties": {"provisioningState": "Failed"}}`, cloud.Deleting, []string{remove}},
		{"it is on its way out", `{"properties": {"provisioningState": "Deleting"}}`, cloud.Deleting, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newARM(t)
			a.pool("")
			a.vm(test.vm)
			state, err := a.provider().EnsureRemoved(t.Context(), testInstance)
			if err != nil || state != test.want {
				t.Errorf("got %q, %v, want %s", state, err, test.want)
			}
			if diff := cmp.Diff(test.sent, a.made()); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
		})
	}
	a := newARM(t)
	a.pool("")
	if state, err := a.provider().EnsureRemoved(t.Context(), testInstance); err != nil || state != cloud.Absent {
		t.Errorf("one that is gone: %q, %v", state, err)
	}
	if sent := a.made(); sent != nil {
		t.Errorf("one that is gone: sent %v", sent)
	}
	_, err := a.provider().EnsureRemoved(t.Context(), "aws:///eu-west-1a/i-0")
	wantKind(t, err, cloud.Unsupported)
}
