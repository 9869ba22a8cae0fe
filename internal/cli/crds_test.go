package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cluster"
)

// TestDefinitionsAreApplied runs `kamino crds --apply` on a cluster that lacks one of the kinds.
func TestDefinitionsAreApplied(t *testing.T) {
	connection := startCluster(t)
	var out bytes.Buffer
	f := NewFactory()
	f.Out, f.Err = &out, t.Output()
	f.Connect = func(*Options) (*cluster.Connection, error) { return connection, nil }
	for i, want := range []string{"prototypepolicies.kamino.dev: created\n", "prototypepolicies.kamino.dev: unchanged\n"} {
		out.Reset()
		if code := f.Run(t.Context(), []string{"crds", "--apply"}); code != ExitDone {
			t.Fatalf("run %d ended with %d", i, code)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("run %d says\n%swant %s", i, out.String(), want)
		}
	}
}
