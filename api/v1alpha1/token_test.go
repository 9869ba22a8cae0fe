package v1alpha1

import (
	"strings"
	"testing"
)

// TestTokenOfACopy: the token of an order fits its field for every cloud's IDs, and names one snapshot on one device.
func TestTokenOfACopy(t *testing.T) {
	long := "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/" + strings.Repeat("g", 90) + "/providers/Microsoft.Compute/snapshots/s"
	seen := map[string]bool{}
	for _, c := range []CopiedDisk{{"snap-1", "vol-1"}, {"snap-1", "vol-2"}, {long, "lun-0"}, {long, "lun-1"}, {long + "2", "lun-0"}} {
		token := c.Token()
		if token == "" || len(token) > maxToken || seen[token] || token != c.Token() {
			t.Errorf("the token of %+v is %q", c, token)
		}
		seen[token] = true
	}
	if got := (&CopiedDisk{"snap-1", "vol-1"}).Token(); got != "snap-1@vol-1" {
		t.Errorf("a short token is %q", got)
	}
	for _, c := range []*CopiedDisk{nil, {Snapshot: long}, {Device: "lun-0"}} {
		if c.Token() != "" {
			t.Errorf("%+v has a token", c)
		}
	}
}
