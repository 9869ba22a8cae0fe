package e2e

import "testing"

func TestDemoOfARollback(t *testing.T) {
	t.Parallel()
	tell(t, sandbox.Kamino, "--rollback").testTrue(
		"2 instances run and have no Node", "is quarantined", "ok  the pool went back once, by itself", "ok  the good version is blamed for nothing",
		"What kamino says", "kamino release ",
	)
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
	meddled(t, meddler, "--rollback").testUntrue(
		"NO  2 nodes were built from the bad version",
		"NO  the pool went back once, by itself",
		"NO  the recipe names the version before",
		"NO  the bad version is quarantined",
		"NO  the policy captures nothing of this pool",
		"NO  the nodes that ran were left alone",
		"ok  no snapshot, pod or lock is left behind",
		"error: it is not true that 2 nodes were built",
	)
}
