package cloud

import (
	"slices"
	"testing"
)

func TestParts(t *testing.T) {
	data := Part{Kind: "customData", Unreadable: true, Note: "on a node"}
	script, other := Part{Kind: "extension", Name: "vmssCSE"}, Part{Kind: "extension", Name: "billing"}
	all := []Part{data, script}
	for _, test := range []struct {
		part        Part
		name, words string
		among       bool
	}{
		{data, "customData", "customData (on a node)", true},
		{Part{Kind: "customData"}, "customData", "customData", true}, // for any known properties
		{script, "extension vmssCSE", "extension vmssCSE", true},
		{other, "extension billing", "extension billing", false},
		{Part{Kind: "extension"}, "extension", "extension", false},
	} {
		if test.part.String() != test.name || test.part.Says() != test.words || HasPart(all, test.part) != test.among {
			t.Errorf("%+v is %q, says %q, is among them: %t", test.part, test.part, test.part.Says(), HasPart(all, test.part))
		}
	}
	if lost := Unreadable(all); !slices.Equal(lost, []Part{data}) || len(all) != 2 {
		t.Errorf("unreadable are %v of %v", lost, all)
	}
	if !SameParts(all, []Part{script, {Kind: "customData"}}) || SameParts(all, all[:1]) || SameParts(all, []Part{script, other}) {
		t.Error("equal lists are told from others by something else")
	}
	if says := SayParts(all); !slices.Equal(says, []string{"customData (on a node)", "extension vmssCSE"}) || SayParts(nil) != nil {
		t.Errorf("they say %q", says)
	}
}
