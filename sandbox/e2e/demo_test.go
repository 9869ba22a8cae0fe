package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// demo tells the story with a kamino, in a temporary directory that the test looks at afterwards.
func demo(t *testing.T, kamino string, flags ...string) (result string, code int) {
	t.Helper()
	temp := t.TempDir()
	got := sandbox.Run(t, []string{"TMPDIR=" + temp}, "kamino-sandbox", append([]string{"demo", "--kamino", kamino}, flags...)...)
	left, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		t.Errorf("the story left %s behind", entry.Name())
	}
	return got.Stdout + got.Stderr, got.Code
}

func TestDemo(t *testing.T) {
	t.Parallel()
	said, code := demo(t, sandbox.Kamino)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	for _, want := range []string{"kamino captures that node", "ok  the new node was built from the prototype", "asked for to Ready", "These are sandbox times"} {
		if !strings.Contains(said, want) {
			t.Errorf("the story does not say %q", want)
		}
	}
	if strings.Contains(said, "\x1b[") {
		t.Error("escape sequences without a terminal")
	}
	if t.Failed() {
		t.Log(said)
	}
}

// saboteur is a kamino that undoes, once its capture is done, some of what a capture is for: the donor is
// cordoned again, and the image gets back the identity that the donor has.
const saboteur = `#!/bin/sh
set -eu
"$REAL_KAMINO" "$@"
if [ "$1" = capture ]; then
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
	kamino := filepath.Join(t.TempDir(), "kamino")
	script := strings.ReplaceAll(saboteur, "$REAL_KAMINO", sandbox.Kamino)
	if err := os.WriteFile(kamino, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	said, code := demo(t, kamino)
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{
		"NO  it shares no identity with its donor",
		"machine-id, ssh host key with",
		"NO  no two machines have collided",
		"NO  the donor is back in service, as it was",
		"is still cordoned",
		"ok  the other nodes were left alone",
		"error: it is not true that it shares no identity",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the story does not say %q", want)
		}
	}
	if t.Failed() {
		t.Log(said)
	}
}
