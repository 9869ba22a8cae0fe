package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// story is what the demo told.
type story struct {
	*testing.T
	said string
	code int
}

// tell has the demo told with a kamino, in a temporary directory that is looked at afterwards.
func tell(t *testing.T, kamino string, flags ...string) story {
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
	return story{T: t, said: got.Stdout + got.Stderr, code: got.Code}
}

// meddled has it told with a kamino that is a shell script around the real one.
func meddled(t *testing.T, script string, flags ...string) story {
	t.Helper()
	kamino := filepath.Join(t.TempDir(), "kamino")
	if err := os.WriteFile(kamino, []byte(strings.ReplaceAll(script, "$REAL_KAMINO", sandbox.Kamino)), 0o755); err != nil {
		t.Fatal(err)
	}
	return tell(t, kamino, flags...)
}

// testTrue demands that all of it is, and that it says these things.
func (s story) testTrue(says ...string) {
	s.Helper()
	if s.code != 0 {
		s.Fatalf("exit code %d\n%s", s.code, s.said)
	}
	if strings.Contains(s.said, "NO  ") {
		s.Error("not all is true")
	}
	s.testSays(says...)
}

// testUntrue demands that the story ends with an error, and says these things.
func (s story) testUntrue(says ...string) {
	s.Helper()
	if s.code != 1 {
		s.Errorf("exit code %d, want 1", s.code)
	}
	s.testSays(says...)
}

func (s story) testSays(says ...string) {
	s.Helper()
	for _, want := range says {
		if !strings.Contains(s.said, want) {
			s.Errorf("the story does not say %q", want)
		}
	}
	if strings.Contains(s.said, "\x1b[") {
		s.Error("escape sequences without a terminal")
	}
	if s.Failed() {
		s.Log(s.said)
	}
}
