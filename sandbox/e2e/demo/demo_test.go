// Package demo runs the demos that are no story of one capture, and holds the demos to what they promise: a demo ends with an error
// where a check of its own is not true.
package demo

import (
	"os"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) { os.Exit(sandboxtest.MainOfPrograms(m, &sandbox)) }

func TestRollback(t *testing.T) {
	for _, cloud := range []string{"azure", "aws"} {
		t.Run(cloud, func(t *testing.T) {
			t.Parallel()
			sandbox.Demo(t, sandbox.Kamino, "--rollback", "--cloud", cloud).AssertTrue(
				"2 instances run and have no Node", "is quarantined", "ok  the pool went back once, by itself",
				"ok  the good version is blamed for nothing", "What kamino says", "kamino release ",
			)
		})
	}
}

func TestClusterAPI(t *testing.T) {
	binaries := os.Getenv("KAMINO_CLUSTERAPI_BIN")
	if binaries == "" {
		t.Skip("KAMINO_CLUSTERAPI_BIN is not set: `make test-long` sets it")
	}
	sandbox.Demo(t, sandbox.Kamino, "--capi", "--capi-binaries", binaries).AssertTrue("ok  the new node was built from the prototype")
}

// saboteur is a kamino without trials, which undoes parts of its capture afterwards: it cordons the donor again, and gives the
// image the identity of the donor.
const saboteur = `#!/bin/sh
set -eu
if [ "$1" != capture ]; then
	exec "$REAL_KAMINO" "$@"
else
	"$REAL_KAMINO" capture "$2" --trial Off
	kamino-sandbox kubectl cordon "$2" >/dev/null
	donor=$(kamino-sandbox disk "$2")
	for image in "$KAMINO_SANDBOX_DIR"/machines/disks/*versions-*; do
		cp "$donor/etc/machine-id" "$image/etc/machine-id"
		cp "$donor"/etc/ssh/ssh_host_* "$image/etc/ssh/"
	done
fi
`

func TestDemoFailsOnFalseChecks(t *testing.T) {
	t.Parallel()
	sandbox.DemoWith(t, saboteur).AssertUntrue(
		"NO  the image passed its trial",
		"NO  the trial's node is gone",
		"NO  it shares no identity with its donor",
		"machine-id, ssh host key with",
		"NO  no two machines have collided",
		"NO  the donor is back in service, as it was",
		"is still cordoned",
		"ok  the other nodes were left alone",
		"error: it is not true that the image passed its trial",
	)
}

// meddler is a kamino that undoes the automatic rollback before it shows the history: it acknowledges the rollback, releases the bad
// version, promotes it, grows the pool by one node, and reboots another node.
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

func TestRollbackDemoFailsOnFalseChecks(t *testing.T) {
	t.Parallel()
	sandbox.DemoWith(t, meddler, "--rollback").AssertUntrue(
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
