package trialnode

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestBrief keeps the begin and the end of a long message: the end of a wrapped error is the cause.
func TestBrief(t *testing.T) {
	long := `failed to pull image "registry.example/app:1":` + strings.Repeat(" failed to do request: é", 20) +
		"\n x509: certificate signed by unknown authority"
	got := brief(long)
	if n := utf8.RuneCountInString(got); n != maxMessage {
		t.Errorf("%d characters, want %d", n, maxMessage)
	}
	if !strings.HasPrefix(got, `failed to pull image "registry.example/app:1"`) ||
		!strings.HasSuffix(got, " x509: certificate signed by unknown authority") || !strings.Contains(got, " … ") {
		t.Error(got)
	}
	if got := brief(" a\n\tb \xff "); got != "a b ?" {
		t.Errorf("%q", got)
	}
}
