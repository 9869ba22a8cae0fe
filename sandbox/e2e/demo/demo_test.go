// Package demo runs demos of more than one capture. A demo must end with an error if one of its checks is false.
package demo

import (
	"os"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) { os.Exit(sandboxtest.MainWithPrograms(m, &sandbox)) }

func TestRollback(t *testing.T) {
	for _, cloud := range []string{"azure", "aws"} {
		t.Run(cloud, func(t *testing.T) {
			t.Parallel()
			sandbox.Demo(t, sandbox.Kamino, "--rollback", "--cloud", cloud).AssertPassed(
				"2 instances run and have no Node", "is quarantined", "ok  Kamino rolled the pool back once",
				"ok  the good version has no bad mark", "Output of kamino", "kamino acknowledge ",
			)
		})
	}
}

// TestPioneer: real apt patches the pioneer from a signed repository. It is captured in place on Azure, and copied on AWS.
func TestPioneer(t *testing.T) {
	for _, cloud := range []string{"azure", "aws"} {
		t.Run(cloud, func(t *testing.T) {
			t.Parallel()
			sandbox.Demo(t, sandbox.Kamino, "--pioneer", "--cloud", cloud).AssertPassed(
				"libssl3 3.0.2-0ubuntu1.16 fixes CVE-2026-0001", "ok  the version has the patch level of the signed report",
				"ok  the next nodes were built from the version, and were patched", "ok  no other node ran apt", "500 new nodes", "rebuild.outdated",
				"ok  the pioneer is back in service",
			)
		})
	}
}

func TestClusterAPI(t *testing.T) {
	binaries := os.Getenv("KAMINO_CLUSTERAPI_BIN")
	if binaries == "" {
		t.Skip("KAMINO_CLUSTERAPI_BIN is not set: `make test-long` sets it")
	}
	sandbox.Demo(t, sandbox.Kamino, "--capi", "--capi-binaries", binaries).AssertPassed("ok  the new node is Ready and was built from the prototype")
}

// brokenCapture is a kamino without trials, which undoes parts of its capture. The script cordons the donor again,
// and gives the image the identity of the donor.
const brokenCapture = `#!/bin/sh
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
	sandbox.DemoWith(t, brokenCapture).AssertFailedChecks(
		"NO  the trial of the image passed",
		"NO  the trial node is gone",
		"NO  the new node and its donor have different identities",
		": machine-id, ssh host key",
		"NO  no two machines have collided",
		"NO  the donor is back in service, unchanged",
		"is still cordoned",
		"ok  the other nodes are unchanged",
		"error: check failed: the trial of the image passed",
	)
}

// brokenRollback is a kamino that undoes the automatic rollback before the history is shown. The script
// acknowledges the rollback, lifts the quarantine of the bad version and promotes it, grows the pool by one node, and reboots
// another node.
const brokenRollback = `#!/bin/sh
set -eu
if [ "$1" = history ]; then
	set=$2
	bad=$(date -u +%Y.%m.%d)02
	{
		"$REAL_KAMINO" acknowledge "$set"
		"$REAL_KAMINO" unquarantine "$set" "$bad"
		"$REAL_KAMINO" promote "$set" "$bad"
		kamino-sandbox scale pool1 8
		kamino-sandbox reboot "${set}000002"
	} >&2
fi
exec "$REAL_KAMINO" "$@"
`

func TestRollbackDemoFailsOnFalseChecks(t *testing.T) {
	t.Parallel()
	sandbox.DemoWith(t, brokenRollback, "--rollback").AssertFailedChecks(
		"NO  2 nodes were built from the bad version",
		"NO  Kamino rolled the pool back once",
		"NO  the recipe names the previous version",
		"NO  the bad version is quarantined",
		"NO  the policy captures no node of the pool",
		"NO  the running nodes are unchanged",
		"ok  no snapshot, pod or lock is left",
		"error: check failed: 2 nodes were built",
	)
}

// brokenPioneer is a kamino that spoils the image after the capture. The new nodes have the old packages, and a log of apt.
const brokenPioneer = `#!/bin/sh
set -eu
"$REAL_KAMINO" "$@"
if [ "$1" = capture ]; then
	for image in "$KAMINO_SANDBOX_DIR"/machines/disks/*versions-*; do
		sed -i 's/3.0.2-0ubuntu1.16/3.0.2-0ubuntu1.15/' "$image/var/lib/dpkg/status"
		mkdir -p "$image/var/log/apt"
		echo "Upgrade: openssl:amd64 (3.0.2-0ubuntu1.15, 3.0.2-0ubuntu1.16)" >>"$image/var/log/apt/history.log"
	done
fi
`

func TestPioneerDemoFailsOnFalseChecks(t *testing.T) {
	t.Parallel()
	sandbox.DemoWith(t, brokenPioneer, "--pioneer").AssertFailedChecks(
		"NO  the next nodes were built from the version",
		"has openssl 3.0.2-0ubuntu1.15 and patch level",
		"NO  no other node ran apt",
		"ok  the version has the patch level of the signed report",
	)
}
