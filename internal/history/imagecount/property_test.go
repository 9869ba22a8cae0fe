package imagecount

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// pools draws instances of the pool's own versions and of foreign images. Some names differ in case; some are unknown.
var pools = rapid.Custom(func(t *rapid.T) []cloud.Instance {
	images := []string{"", "ubuntu", "Ubuntu", "debian", "2026.03.01", "2026.03.02", "2026.03.10", "2026.3.9"}
	return built(rapid.SliceOfN(rapid.SampledFrom(images), 0, 40).Draw(t, "images")...)
})

// TestEveryInstanceIsCountedOnce, under the image of the instance.
func TestEveryInstanceIsCountedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := pools.Draw(t, "pool")
		recipe := cloud.Recipe{Image: rapid.SampledFrom([]string{"", "ubuntu", "2026.03.02", "new"}).Draw(t, "recipe")}
		s := Of(recipe, nodes, 10)
		of := map[cloud.InstanceID]string{}
		for _, image := range s.Images {
			if image.Count != len(image.Instances) {
				t.Fatalf("%s: %d are counted, %d named", image.Name, image.Count, len(image.Instances))
			}
			if image.Count == 0 && !strings.EqualFold(image.Name, recipe.Image) {
				t.Fatalf("%s is of no package", image.Name)
			}
			for _, id := range image.Instances {
				if of[id] != "" {
					t.Fatalf("%s is counted twice", id)
				}
				of[id] = image.Name
			}
		}
		for _, node := range nodes {
			if !strings.EqualFold(of[node.ID], node.Image) {
				t.Fatalf("%s is counted as of %q, and is of %q", node.ID, of[node.ID], node.Image)
			}
		}
		distinct := map[string]bool{}
		for _, image := range s.Images {
			distinct[strings.ToLower(image.Name)] = true
		}
		if len(distinct) != len(s.Images) {
			t.Fatalf("an image is there twice: %+v", s.Images)
		}
		for _, same := range []Count{s.With(recipe.Image), s.With("")} {
			if len(same.Images) != len(s.Images) {
				t.Fatalf("an image that is there already makes %d of %d", len(same.Images), len(s.Images))
			}
		}
		if more := s.With("never seen"); len(more.Images) != len(s.Images)+1 {
			t.Fatalf("one image more makes %d of %d", len(more.Images), len(s.Images))
		}
	})
}

// TestBriefKeepsMessage: Brief has the same content and does not change the Spread.
func TestBriefKeepsMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recipe := cloud.Recipe{Image: "2026.03.10", Version: "2026.03.10"}
		s := Of(recipe, pools.Draw(t, "pool"), rapid.IntRange(0, 12).Draw(t, "limit"))
		before := fmt.Sprint(s)
		brief := s.Brief()
		if fmt.Sprint(s) != before {
			t.Fatal("the whole was shortened")
		}
		if brief.IsNearLimit() != s.IsNearLimit() || brief.IsAtLimit() != s.IsAtLimit() || brief.Oldest(recipe).Name != s.Oldest(recipe).Name {
			t.Fatalf("brief it is near %t, full %t, and whole %t, %t", brief.IsNearLimit(), brief.IsAtLimit(), s.IsNearLimit(), s.IsAtLimit())
		}
		if a, b := s.Message("p", recipe, id), brief.Message("p", recipe, id); a != b {
			t.Fatalf("it says\n%s\nand whole\n%s", b, a)
		}
		for _, image := range brief.Images {
			if len(image.Instances) > named {
				t.Fatalf("%d instances are remembered", len(image.Instances))
			}
		}
		if s.IsAtLimit() && !s.IsNearLimit() {
			t.Fatal("a full pool is not near its limit")
		}
	})
}

// TestImagesStandInTheirOrder: foreign images first, then the pool's versions by number, each once.
func TestImagesStandInTheirOrder(t *testing.T) {
	s := Of(cloud.Recipe{Image: "2026.03.10", Version: "2026.03.10"}, built("2026.03.02", "ubuntu", "2026.3.9", "debian", "2026.03.01", "UBUNTU"), 10)
	var names []string
	for _, image := range s.Images {
		names = append(names, fmt.Sprintf("%s×%d", image.Name, image.Count))
	}
	want := []string{"debian×1", "ubuntu×2", "2026.03.01×1", "2026.03.02×1", "2026.3.9×1", "2026.03.10×0"}
	if !slices.Equal(names, want) {
		t.Errorf("the images are %v, want %v", names, want)
	}
}

func TestRefusalNamesObstacle(t *testing.T) {
	recipe := cloud.Recipe{Image: "2026.03.09"}
	s := Of(recipe, built(versions(9)...), 10)
	refusal := s.Refusal("pool1", recipe, id)
	if refusal == nil || refusal.Reason != TooManyImages || refusal.Message != s.Message("pool1", recipe, id) {
		t.Fatalf("refused as %+v", refusal)
	}
	if !strings.Contains(refusal.Message, "version 2026.03.01, on i0: rebuild") {
		t.Errorf("the oldest is not named: %s", refusal.Message)
	}
}
