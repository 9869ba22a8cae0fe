package agent

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/agent/quiesce"
	"github.com/kamino-dev/kamino/internal/cli/exit"
)

const (
	nonceName = "0bde4000-0000-4000-8000-000000000003"
	nonce     = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// TestQuiesceRefusals: wrong flags and a disk that is not copied change nothing.
func TestQuiesceRefusals(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc/1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "proc/1/mountinfo"), []byte("1 0 0:30 / / rw - overlay overlay rw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := func(more ...string) []string {
		return append([]string{"quiesce", "--root", root, "--nonce-name", nonceName, "--nonce", nonce}, more...)
	}
	for name, test := range map[string]struct {
		args []string
		code int
		says string
	}{
		"overlay":     {good(), exit.Refused, "the root file system is overlay"},
		"no root":     {[]string{"quiesce"}, exit.Usage, "--root"},
		"no nonce":    {[]string{"quiesce", "--root", root, "--nonce-name", nonceName}, exit.Usage, "64 hexadecimal digits"},
		"a path":      {good("--nonce-name", "../x"), exit.Usage, "want a UID"},
		"freeze":      {good("--freeze", "Always"), exit.Usage, "Auto or Never"},
		"no wait":     {good("--wait", "0s"), exit.Usage, "--wait"},
		"an argument": {good("x"), exit.Usage, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out, failure bytes.Buffer
			e := Environment{In: strings.NewReader("accepted\n"), Out: &out, Err: &failure, Now: time.Now, Getenv: func(string) string { return "" }, Running: quiesce.Linux{}}
			if code := e.Run(t.Context(), test.args); code != test.code || !strings.Contains(failure.String(), test.says) || out.Len() > 0 {
				t.Errorf("exit code %d, want %d; %s%s", code, test.code, out.String(), failure.String())
			}
			if entries, _ := os.ReadDir(root); len(entries) != 1 {
				t.Errorf("something was made: %v", entries)
			}
		})
	}
}

// TestQuiesceLines holds the lines that a program reads.
func TestQuiesceLines(t *testing.T) {
	disk := quiesce.Disk{BootID: "b", MachineID: "m", RootUUID: "u", FileSystem: "ext4", RootDevice: "/dev/nvme0n1p1"}
	for want, line := range map[string]any{
		`{"state":"Waiting","for":"dpkg holds its lock"}`:           stateLine(quiesce.State{Waiting: "dpkg holds its lock"}),
		`{"state":"Now","rootFrozen":true}`:                         stateLine(quiesce.State{Frozen: true}),
		`{"state":"Now","rootFrozen":false,"notFrozen":"no guard"}`: stateLine(quiesce.State{NotFrozen: "no guard"}),
		`{"state":"Thawed","rootFrozen":true,"frozenFor":"0.12s","inTime":true,"bootID":"b","machineID":"m","rootUUID":"u","filesystem":"ext4","rootDevice":"/dev/nvme0n1p1"}`: resultLine(
			quiesce.Result{Frozen: true, InTime: true, FrozenFor: 123456 * time.Microsecond, Disk: disk}),
		`{"state":"Thawed","rootFrozen":false,"frozenFor":"0.00s","inTime":false,"late":"the copy was not accepted","bootID":"b","machineID":"m","rootUUID":"u","filesystem":"ext4","rootDevice":"/dev/nvme0n1p1"}`: resultLine(
			quiesce.Result{Late: "the copy was not accepted", Disk: disk}),
	} {
		if got, err := json.Marshal(line); err != nil || string(got) != want {
			t.Errorf("got %s, %v\nwant %s", got, err, want)
		}
	}
}

// TestAnswers: other lines are no answer.
func TestAnswers(t *testing.T) {
	for input, want := range map[string]bool{"accepted\n": true, "refused\n": false, "hello\n\naccepted": true, "refused\naccepted\n": false} {
		if got := <-(Environment{In: strings.NewReader(input)}.answers()); got != want {
			t.Errorf("%q: %t", input, got)
		}
	}
}
