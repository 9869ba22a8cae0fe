package cloud

import (
	"strings"
	"testing"
)

// TestProtectionIsReadBack: each token is parsed to the same hold, and an invalid token is an error.
func TestProtectionIsReadBack(t *testing.T) {
	for _, protected := range []bool{false, true} {
		hold := ProtectionOf(protected)
		if back, err := ParseProtection("x", "i", hold.Token); err != nil || back != protected || hold.Protected != protected || hold.Token == "" ||
			len(hold.Token) > MaxToken {
			t.Errorf("%+v reads %t, %v", hold, back, err)
		}
	}
	for _, strange := range []string{"", "?", "Protected", "unheld ", strings.Repeat("x", 10*MaxToken)} {
		_, err := ParseProtection("x", "i", strange)
		if !Is(err, Invalid) || len(err.Error()) > 2*MaxToken {
			t.Errorf("%.20q: %v", strange, err)
		}
	}
}
