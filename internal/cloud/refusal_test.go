package cloud

import (
	"encoding/json"
	"testing"
)

func TestRefuse(t *testing.T) {
	for _, test := range []struct{ obstacle, remedy, message string }{
		{"pool1 is too small", "grow it", "pool1 is too small: grow it"},
		{"pool1 rolls: it would replace its nodes", "set it to Manual", "pool1 rolls: it would replace its nodes; set it to Manual"},
		{"no remedy", "", "no remedy"},
	} {
		r := Refuse("Reason", test.obstacle, test.remedy)
		if r.Message != test.message || r.Remedy != test.remedy || r.What() != test.obstacle || r.Reason != "Reason" {
			t.Errorf("%+v", r)
		}
	}
	if whole := (Refusal{Message: "one sentence: of two"}); whole.What() != "one sentence: of two" {
		t.Errorf("it was taken apart: %q", whole.What())
	}
	text, err := json.Marshal(Refuse("TooSmall", "pool1 is too small", "grow it"))
	if want := `{"reason":"TooSmall","message":"pool1 is too small: grow it","remedy":"grow it"}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}
