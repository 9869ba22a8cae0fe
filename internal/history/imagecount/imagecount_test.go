package imagecount

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// built returns one instance per image. An image of digits and dots is a version of the pool.
func built(images ...string) (instances []cloud.Instance) {
	for i, image := range images {
		instance := cloud.Instance{ID: cloud.InstanceID(fmt.Sprintf("i%d", i)), Image: image}
		if strings.HasPrefix(image, "2026.") {
			instance.BuiltFrom = image
		}
		instances = append(instances, instance)
	}
	return instances
}

// versions returns the first n days of March 2026 as versions.
func versions(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("2026.03.%02d", i+1))
	}
	return all
}

// TestLevels: the limit is ten images; the recipe counts once.
func TestLevels(t *testing.T) {
	for images := 1; images <= 11; images++ {
		nodes := built(versions(images)...)
		for name, s := range map[string]Count{
			"the newest in the recipe": Of(cloud.Recipe{Image: nodes[images-1].Image, Version: nodes[images-1].Image}, nodes, 10),
			"a new one in the recipe":  Of(cloud.Recipe{Image: nodes[images-1].Image}, nodes[:images-1], 10),
			"each twice":               Of(cloud.Recipe{Image: strings.ToUpper(nodes[0].Image)}, append(nodes, nodes...), 10),
			"remembered":               Of(cloud.Recipe{}, nodes[:images-1], 10).Brief().With(nodes[images-1].Image),
		} {
			if len(s.Images) != images || s.IsNearLimit() != (images >= 7) || s.IsAtLimit() != (images >= 9) {
				t.Errorf("%d images, %s: %d, near %t, full %t", images, name, len(s.Images), s.IsNearLimit(), s.IsAtLimit())
			}
			if refused := s.Refusal("pool1", cloud.Recipe{}, id) != nil; refused != (images >= 9) {
				t.Errorf("%d images, %s: refused %t", images, name, refused)
			}
		}
		if s := Of(cloud.Recipe{}, nodes, 0); s.IsNearLimit() || s.IsAtLimit() {
			t.Errorf("%d images without a limit: %+v", images, s)
		}
	}
}

func id(i cloud.InstanceID) string { return string(i) }

// TestPossible compares Possible with the worst case of a pool of that size.
func TestPossible(t *testing.T) {
	for n := range 12 {
		worst := Of(cloud.Recipe{Image: "of no package"}, built(versions(n)...), 10)
		if Possible(int64(n), 10) != worst.IsNearLimit() {
			t.Errorf("%d nodes: possible %t, near at worst %t", n, Possible(int64(n), 10), worst.IsNearLimit())
		}
	}
	if Possible(1000, 0) {
		t.Error("there is no limit")
	}
}

// TestTheOldestIsNamed: foreign images come first, then versions by day. The image of the recipe and images without
// instances are never named.
func TestTheOldestIsNamed(t *testing.T) {
	recipe := cloud.Recipe{Image: "2026.02.01", Version: "2026.02.01"}
	for want, nodes := range map[string][]cloud.Instance{
		"ubuntu":     built("2026.03.02", "ubuntu", "2026.2.9", "2026.02.01"),
		"2026.02.9":  built("2026.03.02", "2026.02.9", "2026.02.10", "2026.02.01"),
		"2026.03.02": built("2026.02.01", "2026.03.02"),
		"":           built("2026.02.01", "2026.02.01"),
	} {
		if got := Of(recipe, nodes, 10).Oldest(recipe).Name; got != want {
			t.Errorf("%q is the oldest of %v, want %q", got, nodes, want)
		}
	}
	five := append(built(versions(7)...), built("ubuntu", "ubuntu", "ubuntu", "ubuntu", "ubuntu")...)
	for _, s := range []Count{Of(recipe, five, 10), Of(recipe, five, 10).Brief()} {
		says := s.Message("pool1", recipe, func(i cloud.InstanceID) string { return "node-" + string(i) })
		for _, part := range []string{"have 9 different images", "more than 10", "image ubuntu, on node-i0, node-i1, node-i2, 2 more", "kamino rebuild pool1"} {
			if !strings.Contains(says, part) {
				t.Errorf("%q is not in: %s", part, says)
			}
		}
	}
}
