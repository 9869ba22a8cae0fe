package admission

import "testing"

func TestAllows(t *testing.T) {
	for _, c := range []struct {
		entry, image string
		want         bool
	}{
		{"ghcr.io/us/kamino:v1", "ghcr.io/us/kamino:v1", true},
		{"ghcr.io/us/kamino:v1", "ghcr.io/us/kamino:v10", false},
		{"ghcr.io/us/kamino", "ghcr.io/us/kamino:v1", true},
		{"ghcr.io/us/kamino", "ghcr.io/us/kamino@sha256:0", true},
		{"ghcr.io/us/kamino", "ghcr.io/us/kamino-evil:v1", false},
		{"ghcr.io/us/kamino", "ghcr.io/us/kamino/evil:v1", false},
		{"ghcr.io", "ghcr.io:5000/evil", false},
		{"ghcr.io/us/", "ghcr.io/us/kamino:v1", true},
		{"ghcr.io/us/", "ghcr.io/usurper/kamino:v1", false},
		{"", "anything", false},
	} {
		if got := allows(c.entry, c.image); got != c.want {
			t.Errorf("%q allows %q: %t", c.entry, c.image, got)
		}
	}
}
