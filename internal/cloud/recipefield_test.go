package cloud

import (
	"slices"
	"testing"
)

func TestParts(t *testing.T) {
	data := RecipeField{Kind: "customData", Unreadable: true, Note: "on a node"}
	script, other := RecipeField{Kind: "extension", Name: "vmssCSE"}, RecipeField{Kind: "extension", Name: "billing"}
	all := []RecipeField{data, script}
	for _, test := range []struct {
		part        RecipeField
		name, words string
		among       bool
	}{
		{data, "customData", "customData (on a node)", true},
		{RecipeField{Kind: "customData"}, "customData", "customData", true}, // for any known properties
		{script, "extension vmssCSE", "extension vmssCSE", true},
		{other, "extension billing", "extension billing", false},
		{RecipeField{Kind: "extension"}, "extension", "extension", false},
	} {
		if test.part.String() != test.name || test.part.Describe() != test.words || HasField(all, test.part) != test.among {
			t.Errorf("%+v is %q, says %q, is among them: %t", test.part, test.part, test.part.Describe(), HasField(all, test.part))
		}
	}
	if lost := Unreadable(all); !slices.Equal(lost, []RecipeField{data}) || len(all) != 2 {
		t.Errorf("unreadable are %v of %v", lost, all)
	}
	if !SameFields(all, []RecipeField{script, {Kind: "customData"}}) || SameFields(all, all[:1]) || SameFields(all, []RecipeField{script, other}) {
		t.Error("equal lists differ from others by something else")
	}
	if says := DescribeFields(all); !slices.Equal(says, []string{"customData (on a node)", "extension vmssCSE"}) || DescribeFields(nil) != nil {
		t.Errorf("they say %q", says)
	}
}
