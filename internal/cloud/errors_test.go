package cloud

import "testing"

// TestErrorText: a code that only repeats the kind is left out.
func TestErrorText(t *testing.T) {
	for want, e := range map[string]Error{
		"grow pool p: Unavailable (InternalError): try later": {Op: "grow pool", Resource: "p", Kind: Unavailable, Code: "InternalError", Message: "try later"},
		"grow pool p: NotFound":                               {Op: "grow pool", Resource: "p", Kind: NotFound, Code: string(NotFound)},
	} {
		if got := e.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
