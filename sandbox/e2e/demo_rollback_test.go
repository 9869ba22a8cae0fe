package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDemoOfARollback(t *testing.T) {
	t.Parallel()
	said, code := demo(t, sandbox.Kamino, "--rollback")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	for _, want := range []string{
		"2 instances run and have no Node", "is quarantined", "ok  the pool went back once, by itself", "ok  the good version is blamed for nothing",
		"What kamino says", "kamino release ",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the story does not say %q", want)
		}
	}
	if strings.Contains(said, "NO  ") {
		t.Error("not all is true")
	}
	if t.Failed() {
		t.Log(said)
	}
}

// meddler is a kamino that undoes, before it shows the history, what the pool has done by itself: a person is made to have
// acknowledged it and to have released the version, a node is rebooted, and one more node is built from the bad version.
const meddler = `#!/bin/sh
set -eu
if [ "$1" = history ]; then
	set=$2
	bad=$(date -u +%Y.%m.%d)02
	{
		"$REAL_KAMINO" release "$set"
		"$REAL_KAMINO" release "$set" "$bad"
		"$REAL_KAMINO" promote "$set" "$bad"
		kamino-sandbox scale pool1 8
		kamino-sandbox reboot "${set}000002"
	} >&2
fi
exec "$REAL_KAMINO" "$@"
`

func TestDemoOfARollbackCatchesWhatIsNotTrue(t *testing.T) {
	t.Parallel()
	kamino := filepath.Join(t.TempDir(), "kamino")
	script := strings.ReplaceAll(meddler, "$REAL_KAMINO", sandbox.Kamino)
	if err := os.WriteFile(kamino, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	said, code := demo(t, kamino, "--rollback")
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{
		"NO  2 nodes were built from the bad version",
		"NO  the pool went back once, by itself",
		"NO  the recipe names the version before",
		"NO  the bad version is quarantined",
		"NO  the policy captures nothing of this pool",
		"NO  the nodes that ran were left alone",
		"ok  no snapshot, pod or lock is left behind",
		"error: it is not true that 2 nodes were built",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the story does not say %q", want)
		}
	}
	if t.Failed() {
		t.Log(said)
	}
}
