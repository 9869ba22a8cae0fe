package clock

import (
	"testing"
	"time"
)

func TestWaitsCountWorkOnce(t *testing.T) {
	var w Waits
	w.Note("pull", "a", 12*time.Second)
	w.Note("boot", "", 20*time.Second)
	w.Note("pull", "a", 12*time.Second) // again after an error
	w.Note("pull", "b", 12*time.Second)
	w.Note("nothing", "", 0)
	list := w.List()
	if len(list) != 3 || list[0].Kind != "pull" || list[1].Kind != "boot" {
		t.Fatalf("the works are %v", list)
	}
	for want, kinds := range map[time.Duration][]string{44 * time.Second: nil, 24 * time.Second: {"pull"}, 20 * time.Second: {"boot", "join"}} {
		if got := Sum(list, kinds...); got != want {
			t.Errorf("%v took %s, want %s", kinds, got, want)
		}
	}
}
