package logging

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
)

// The framework's errors are logged. The normal end of a controller that releases the Lease is no error.
func TestErrorsOfTheFramework(t *testing.T) {
	failed := `level=ERROR msg="error received after stop sequence was engaged" err="connection refused"`
	for level, want := range map[string][]string{
		"info":  {failed},
		"debug": {"level=DEBUG+3 msg=Starting", `level=DEBUG+3 msg="error received after stop sequence was engaged"`, failed},
	} {
		var out bytes.Buffer
		log, err := New(&out, level, "text")
		if err != nil {
			t.Fatal(err)
		}
		framework := logr.New(quiet{log.GetSink()})
		framework.Info("Starting")
		for _, err := range []error{errors.New("leader election lost"), errors.New("connection refused")} {
			framework.Error(err, "error received after stop sequence was engaged")
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			_, line, _ = strings.Cut(strings.TrimSpace(line), " ") // without the time
			got = append(got, line)
		}
		if !slices.Equal(got, want) {
			t.Errorf("level %s: %q, want %q", level, got, want)
		}
	}
}
