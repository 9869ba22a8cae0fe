package cloudtest

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

var holdCases = []testCase{
	{"a protection is shown, and removed as its token says", protectionIsReturned},
	{"an earlier protection stays", heldBefore},
	{"holding and giving back may be repeated", holdRepeated},
	{"a look at a protection changes nothing", holdLook},
	{"a protection outlives a stop", holdOutlivesStop},
	{"a protection leaves the instance running, and other instances alone", holdIsItsOwn},
	{"without a token nothing is protected or released", noToken},
	{"a foreign token is invalid, and changes nothing", strangeToken},
	{"the protection of a missing instance is not found", holdNotFound},
}

func (s suite) hold(t *testing.T, id cloud.InstanceID) cloud.Protection {
	t.Helper()
	return got(s.p.Protection(t.Context(), id))(t)
}

// wantHold requires that the protection of an instance matches the token.
func (s suite) wantHold(t *testing.T, id cloud.InstanceID, token string, held bool) {
	t.Helper()
	if have := s.hold(t, id); token != "" && (have.Token != token || have.Protected != held) {
		t.Errorf("%s is held %t by %q, want %t by %q", id, have.Protected, have.Token, held, token)
	} else if token == "" && have.Token != "" {
		t.Errorf("%s has the hold %q, and had nothing to hold", id, have.Token)
	}
}

func (s suite) wantHeld(t *testing.T, id cloud.InstanceID, token string) {
	t.Helper()
	if have := s.hold(t, id); token != "" && !have.Protected {
		t.Errorf("%s is not held: %+v", id, have)
	}
}

func protectionIsReturned(t *testing.T, s suite) {
	before := s.hold(t, s.a)
	if len(before.Token) > cloud.MaxToken || before.Token != "" && before.Token != cloud.TokenUnprotected || before.Protected {
		t.Errorf("nothing holds it, and its hold is %+v", before)
	}
	for range 2 {
		must(t, s.p.ProtectFromScaleIn(t.Context(), s.a, before.Token))
		s.wantHeld(t, s.a, before.Token)
		must(t, s.p.Unprotect(t.Context(), s.a, before.Token))
		s.wantHold(t, s.a, before.Token, false)
	}
}

func heldBefore(t *testing.T, s suite) {
	free := s.hold(t, s.a).Token
	must(t, s.p.ProtectFromScaleIn(t.Context(), s.a, free))
	before := s.hold(t, s.a)
	if free != "" && before.Token == free || len(before.Token) > cloud.MaxToken {
		t.Errorf("held, its token is %q, and free %q", before.Token, free)
	}
	must(t, s.p.ProtectFromScaleIn(t.Context(), s.a, before.Token))
	s.wantHold(t, s.a, before.Token, true)
	must(t, s.p.Unprotect(t.Context(), s.a, before.Token))
	s.wantHold(t, s.a, before.Token, true)
	// The protection was removed meanwhile; Unprotect restores the recorded state.
	must(t, s.p.Unprotect(t.Context(), s.a, free))
	s.wantHold(t, s.a, free, false)
	must(t, s.p.Unprotect(t.Context(), s.a, before.Token))
	s.wantHold(t, s.a, before.Token, true)
}

func holdRepeated(t *testing.T, s suite) {
	token := s.hold(t, s.a).Token
	for range 3 {
		must(t, s.p.ProtectFromScaleIn(t.Context(), s.a, token))
		s.wantHeld(t, s.a, token)
	}
	for range 3 {
		must(t, s.p.Unprotect(t.Context(), s.a, token))
		s.wantHold(t, s.a, token, false)
	}
}

func holdLook(t *testing.T, s suite) {
	before := s.instances(t)
	first := s.hold(t, s.a)
	must(t, s.p.ProtectFromScaleIn(t.Context(), s.a, first.Token))
	held := s.hold(t, s.a)
	for range 3 {
		s.Advance(t)
		wantSame(t, "looked at again (-first +now)", held, s.hold(t, s.a))
	}
	must(t, s.p.Unprotect(t.Context(), s.a, first.Token))
	wantSame(t, "protected and released (-before +after)", before, s.instances(t))
}

func holdOutlivesStop(t *testing.T, s suite) {
	token := s.hold(t, s.a).Token
	must(t, s.p.ProtectFromScaleIn(t.Context(), s.a, token))
	s.stop(t, s.a)
	s.wantHeld(t, s.a, token)
	s.start(t, s.a)
	s.wantHeld(t, s.a, token)
	must(t, s.p.Unprotect(t.Context(), s.a, token))
	s.wantHold(t, s.a, token, false)
}

func holdIsItsOwn(t *testing.T, s suite) {
	token, other := s.hold(t, s.a).Token, s.hold(t, s.b)
	must(t, s.p.ProtectFromScaleIn(t.Context(), s.a, token))
	s.wantPower(t, s.a, cloud.PowerRunning)
	wantSame(t, "the hold of another instance (-before +after)", other, s.hold(t, s.b))
	must(t, s.p.Unprotect(t.Context(), s.a, token))
	s.wantPower(t, s.a, cloud.PowerRunning)
}

func noToken(t *testing.T, s suite) {
	token := s.hold(t, s.a).Token
	must(t, s.p.ProtectFromScaleIn(t.Context(), s.a, ""))
	s.wantHold(t, s.a, token, false)
	must(t, s.p.ProtectFromScaleIn(t.Context(), s.a, token))
	must(t, s.p.Unprotect(t.Context(), s.a, ""))
	s.wantHeld(t, s.a, token)
}

func strangeToken(t *testing.T, s suite) {
	before := s.hold(t, s.a)
	must(t, s.p.ProtectFromScaleIn(t.Context(), s.a, before.Token))
	for _, strange := range []string{"?", "unprotected-not", strings.Repeat("x", 2*cloud.MaxToken)} {
		wantError(t, s.p.Unprotect(t.Context(), s.a, strange), cloud.Invalid)
		s.wantHeld(t, s.a, before.Token)
	}
	must(t, s.p.Unprotect(t.Context(), s.a, cloud.TokenUnprotected)) // every provider accepts Unheld
	wantError(t, s.p.ProtectFromScaleIn(t.Context(), s.a, "?"), cloud.Invalid)
	s.wantHold(t, s.a, before.Token, false)
}

func holdNotFound(t *testing.T, s suite) {
	fails(s.p.Protection(t.Context(), s.Missing))(t, cloud.NotFound)
	wantError(t, s.p.ProtectFromScaleIn(t.Context(), s.Missing, cloud.TokenUnprotected), cloud.NotFound)
	wantError(t, s.p.Unprotect(t.Context(), s.Missing, cloud.TokenUnprotected), cloud.NotFound)
}
