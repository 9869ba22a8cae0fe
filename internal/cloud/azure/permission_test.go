package azure

import (
	"slices"
	"testing"
)

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, action string
		want            bool
	}{
		{"*", "microsoft.compute/disks/read", true},
		{"*/read", "microsoft.compute/galleries/images/read", true},
		{"*/read", "microsoft.compute/galleries/images/write", false},
		{"microsoft.compute/*", "microsoft.compute/disks/beginGetAccess/action", true},
		{"microsoft.compute/*/read", "microsoft.compute/disks/read", true},
		{"microsoft.compute/disks/read", "microsoft.compute/disks/read", true},
		{"microsoft.compute/disks", "microsoft.compute/disks/read", false},
		{"a*b*c", "aXbYc", true},
		{"a*b", "ab", true},
		{"ab*b", "ab", false},
		{"", "a", false},
	} {
		if got := matches(test.pattern, test.action); got != test.want {
			t.Errorf("%q matches %q: %v, want %v", test.pattern, test.action, got, test.want)
		}
	}
}

func TestMissingActions(t *testing.T) {
	requiredActions := actionsFor("", "pool", "instance", "image")
	for _, test := range []struct {
		name   string
		grants []grant
		want   []string
	}{
		{"owner", []grant{{actions: []string{"*"}}}, nil},
		{"case", []grant{{actions: []string{"MICROSOFT.COMPUTE/*"}}}, nil},
		{"nothing", nil, requiredActions},
		{"no snapshots", []grant{{actions: []string{"*"}, notActions: []string{"Microsoft.Compute/snapshots/*"}}},
			[]string{"Microsoft.Compute/snapshots/read", "Microsoft.Compute/snapshots/write", "Microsoft.Compute/snapshots/delete"}},
		{"two roles add up", []grant{{actions: []string{"*"}, notActions: []string{"*/delete"}}, {actions: []string{"Microsoft.Compute/snapshots/delete"}}},
			[]string{"Microsoft.Compute/galleries/images/versions/delete"}},
		{"the actions as they are listed", []grant{{actions: requiredActions}}, nil},
	} {
		if got := missingActions(test.grants, requiredActions); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
