package cli

import "testing"

// TestTheImageIsThatOfTheBuild: what was published nowhere names none, and never another version's.
func TestTheImageIsThatOfTheBuild(t *testing.T) {
	version, image := Version, Image
	t.Cleanup(func() { Version, Image = version, image })
	for _, c := range []struct{ version, image, want string }{
		{"v1.2.3", "", imageRepository + ":v1.2.3"},
		{"v1.2.3", "registry.example.com/kamino@sha256:00", "registry.example.com/kamino@sha256:00"},
		{"devel-0123456789ab-dirty", "", ""},
		{"", "", ""},
		{"devel", "registry.example.com/kamino:mine", "registry.example.com/kamino:mine"},
	} {
		if Version, Image = c.version, c.image; releaseImage() != c.want || buildInfo().Image != c.want {
			t.Errorf("%+v: %q", c, releaseImage())
		}
	}
}
