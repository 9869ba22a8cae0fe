package build

import "testing"

// TestImageOfBuild: an unpublished build names no image, and never another version's image.
func TestImageOfBuild(t *testing.T) {
	version, image := Version, Image
	t.Cleanup(func() { Version, Image = version, image })
	for _, c := range []struct{ version, image, named, want string }{
		{"v1.2.3", "", "v1.2.3", NodeRepository + ":v1.2.3"},
		{"v1.2.3", "registry.example.com/kamino-node@sha256:00", "v1.2.3", "registry.example.com/kamino-node@sha256:00"},
		{"v1.2.3-rc.1", "", "v1.2.3-rc.1", NodeRepository + ":v1.2.3-rc.1"},
		{"v1.2.3-rc.1-4-g0123456", "", "v1.2.3-rc.1-4-g0123456", ""},
		{"v1.2.3-4-g0123456", "", "v1.2.3-4-g0123456", ""},
		{"devel-0123456789ab-dirty", "", "devel-0123456789ab-dirty", ""},
		{"", "", "devel", ""},
		{"devel", "registry.example.com/kamino-node:mine", "devel", "registry.example.com/kamino-node:mine"},
	} {
		Version, Image = c.version, c.image
		if b := Read(); b.Image != c.want || b.Version != c.named || b.Go == "" || b.Platform == "" {
			t.Errorf("%+v: %+v", c, b)
		} else if (b.ControllerImage == Repository+":"+c.version) != released.MatchString(c.version) {
			t.Errorf("%+v: the controller's image is %q", c, b.ControllerImage)
		}
	}
}
