package e2e

import "testing"

func TestDemo(t *testing.T) {
	t.Parallel()
	tell(t, sandbox.Kamino).testTrue(
		"tries the image before the pool uses it", "Trying: Network: Passed: ", "ok  the image passed its trial", "ok  the trial's node is gone",
		"ok  the new node was built from the prototype", "asked for to Ready", "These are sandbox times",
	)
}

// saboteur is a kamino that tries nothing, whatever it is asked for, and undoes, once its capture is done, some of what a capture
// is for: the donor is cordoned again, and the image gets back the identity that the donor has.
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

func TestDemoCatchesWhatIsNotTrue(t *testing.T) {
	t.Parallel()
	meddled(t, saboteur).testUntrue(
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
