package tree

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMount(t *testing.T) {
	line := `36 35 98:0 /mnt1 /mnt\0402/x\134y rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
	got, ok := ParseMount(line)
	if want := (MountPoint{Device: "98:0", Dir: `/mnt 2/x\y`, Kind: "ext3", Source: "/dev/root"}); !ok || got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, broken := range []string{"", "36 35 98:0 / /", "1 2 3 - x y"} {
		if got, ok := ParseMount(broken); ok {
			t.Errorf("%q was read as %+v", broken, got)
		}
	}
	if diff := cmp.Diff(`a\9`, Unescape(`a\9`)); diff != "" {
		t.Error(diff)
	}
}
