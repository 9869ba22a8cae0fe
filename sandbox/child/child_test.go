package child

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

func programs() Programs {
	return Programs{Env: With([]sandboxdir.Variable{{Name: "WORD", Value: "hello"}})}
}

func TestOutput(t *testing.T) {
	out, err := programs().Output(t.Context(), strings.NewReader("and goodbye"), "sh", "-c", `echo "$WORD"; cat`)
	if err != nil || string(out) != "hello\nand goodbye" {
		t.Errorf("%q, %v", out, err)
	}
	_, err = programs().Output(t.Context(), nil, "sh", "-c", "echo trouble >&2; exit 3")
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 3\ntrouble") {
		t.Errorf("the error is %v", err)
	}
}

// TestProcess: the exit code of an ended program is no error of Stop.
func TestProcess(t *testing.T) {
	for name, script := range map[string]string{
		"runs":  `trap 'exit 7' INT; echo "$WORD"; kill -INT $$; sleep 60`,
		"ended": "echo hello; exit 7",
	} {
		log := filepath.Join(t.TempDir(), "log")
		p, err := Start(programs().Command(t.Context(), "sh", "-c", script), log)
		if err != nil {
			t.Fatal(err)
		}
		<-p.Ended()
		if err := p.Stop(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.Trouble(errors.New("late")); err.Error() != "late; end of "+log+":\nhello\n" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoProgram(t *testing.T) {
	if _, err := Start(programs().Command(t.Context(), "/nonexistent"), filepath.Join(t.TempDir(), "log")); err == nil {
		t.Error("a program that does not exist has started")
	}
}
