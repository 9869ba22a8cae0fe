package doctor

import (
	"context"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestDefinitionsOfAnotherVersion: as after `helm rollback` alone, the definitions are not those of the controller.
func TestDefinitionsOfAnotherVersion(t *testing.T) {
	for difference, want := range map[string]Level{"": OK, "the definitions in the cluster are of another version, and require x": Warn} {
		d, _, _ := newDoctor(t, memory.PoolSpec{})
		d.Difference = func(context.Context) (string, error) { return difference, nil }
		if level, says := worst(examine(t, d), CheckInstallation); level != want || !strings.Contains(says, difference) {
			t.Errorf("%q: %s %s", difference, level, says)
		}
	}
}
