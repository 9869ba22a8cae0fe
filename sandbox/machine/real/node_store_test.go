//go:build machines

package real

import (
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/generalize"
)

// A profile without these rules keeps containerd's database as the donor left it, and containerd's own ID: what
// they are for is asked for as soon as they are there.
const (
	recordsRule  = "containerd-records"
	identityRule = "runtime-identity"
)

func hasRule(t *testing.T, id string) bool {
	t.Helper()
	profile, err := generalize.LoadWith(v1alpha1.ProfileBootstrap, "")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(profile.Rules, func(r generalize.Rule) bool { return r.ID == id })
}

// inDatabase are needles that containerd's database keeps: what it knows of each container.
var inDatabase = []string{"annotation", "argument", "label", "variable from a Secret", "variable of a pod that is gone"}

// unexpected leaves out of what was found, places or "place: file", what the profile has no rule for.
func unexpected(t *testing.T, found []string) []string {
	t.Helper()
	if hasRule(t, recordsRule) {
		return found
	}
	return slices.DeleteFunc(found, func(f string) bool {
		place, file, inFile := strings.Cut(f, ": ")
		return slices.Contains(inDatabase, place) && (!inFile || strings.HasSuffix(file, "/meta.db"))
	})
}
