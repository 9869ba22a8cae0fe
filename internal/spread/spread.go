// Package spread counts from how many different images a pool's instances were built, and says when that is close to
// what their cloud allows: a pool whose next instance would be of one more cannot grow.
//
// It decides nothing about versions. Deleting one lowers no count, because an instance keeps what it was built from;
// only rebuilding or removing the instances of an image does.
package spread

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imageversion"
)

// TooManyImages is the reason of a refusal: a capture would add one image to a pool that has nearly all it may have.
const TooManyImages = "TooManyImages"

// Somebody is warned when three images more are at the limit, and a capture is refused when one is: what else is
// changed in a recipe may count as well.
const (
	warnBefore   = 3
	refuseBefore = 1
)

// Spread is from how many images a pool's instances were built.
type Spread struct {
	// Limit is how many may be; 0 if the cloud has none.
	Limit int `json:"limit"`
	// Images that instances were built from, the oldest first, and what the recipe names.
	Images []Image `json:"images"`
}

// Image is one of them.
type Image struct {
	// Name as the cloud writes it, and Version if it is one of the pool's own.
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	// Instances that were built from it; after Brief a few of them, and Count how many there are.
	Instances []cloud.InstanceID `json:"instances,omitempty"`
	Count     int                `json:"count,omitempty"`
}

// Possible tells whether a pool of that many instances can be close to the limit at all, so that small pools need not
// be counted.
func Possible(instances int64, limit int) bool {
	return limit > 0 && instances+1 >= int64(limit-warnBefore)
}

// Of counts. Images that are not the pool's own are taken for older than all that are.
func Of(recipe cloud.Recipe, instances []cloud.Instance, limit int) Spread {
	s := Spread{Limit: limit}
	s.add(recipe.Image, recipe.Version)
	for _, instance := range instances {
		i := s.add(instance.Image, instance.BuiltFrom)
		if i >= 0 {
			s.Images[i].Instances = append(s.Images[i].Instances, instance.ID)
			s.Images[i].Count++
		}
	}
	slices.SortStableFunc(s.Images, func(a, b Image) int {
		return cmp.Or(compareVersions(a.Version, b.Version), cmp.Compare(a.Name, b.Name))
	})
	return s
}

func compareVersions(a, b string) int {
	if a == "" || b == "" {
		return cmp.Compare(min(len(a), 1), min(len(b), 1))
	}
	return imageversion.Compare(a, b)
}

// add makes an image known, and tells where it stands; -1 for one without a name.
func (s *Spread) add(name, version string) int {
	if name == "" {
		return -1
	}
	i := slices.IndexFunc(s.Images, func(image Image) bool { return strings.EqualFold(image.Name, name) })
	if i < 0 {
		s.Images = append(s.Images, Image{Name: name, Version: version})
		return len(s.Images) - 1
	}
	return i
}

// With is the spread once the recipe names one image more.
func (s Spread) With(image string) Spread {
	s.Images = slices.Clone(s.Images)
	s.add(image, "")
	return s
}

// Brief keeps of the instances as many as are ever named, so that a count of a large pool can be remembered.
func (s Spread) Brief() Spread {
	s.Images = slices.Clone(s.Images)
	for i := range s.Images {
		if all := s.Images[i].Instances; len(all) > named {
			s.Images[i].Instances = slices.Clone(all[:named])
		}
	}
	return s
}

// Near tells that somebody should rebuild instances of old images.
func (s Spread) Near() bool { return s.Limit > 0 && len(s.Images) >= s.Limit-warnBefore }

// Full tells that no image may be added.
func (s Spread) Full() bool { return s.Limit > 0 && len(s.Images) >= s.Limit-refuseBefore }

// Oldest is the image to begin with: the oldest that instances were built from and the recipe does not name. It is the
// zero Image if there is none.
func (s Spread) Oldest(recipe cloud.Recipe) Image {
	for _, image := range s.Images {
		if len(image.Instances) > 0 && !strings.EqualFold(image.Name, recipe.Image) {
			return image
		}
	}
	return Image{}
}

// named is how many nodes a sentence names.
const named = 3

// Says is what is the matter with a pool that is near its limit, and what to do. name finds an instance's node.
func (s Spread) Says(pool string, recipe cloud.Recipe, name func(cloud.InstanceID) string) string {
	return s.Told(pool, recipe, name).Message
}

// Told is what Says says, as data: the refusal of a pool that is full.
func (s Spread) Told(pool string, recipe cloud.Recipe, name func(cloud.InstanceID) string) cloud.Refusal {
	oldest := s.Oldest(recipe)
	var nodes []string
	for _, id := range oldest.Instances[:min(named, len(oldest.Instances))] {
		nodes = append(nodes, name(id))
	}
	if oldest.Count > named {
		nodes = append(nodes, fmt.Sprintf("%d more", oldest.Count-named))
	}
	of := "version " + oldest.Version
	if oldest.Version == "" {
		of = "image " + oldest.Name
	}
	return cloud.Refuse(TooManyImages, fmt.Sprintf("the nodes of pool %s and its recipe name %d different images; with more than %d the cloud does not let the pool grow. "+
		"The oldest is %s, on %s", pool, len(s.Images), s.Limit, of, strings.Join(nodes, ", ")),
		fmt.Sprintf("build these nodes anew with `kamino rebuild %s`, or delete them; where Cluster API made them, delete their Machines", pool))
}

// Refusal is why a capture would be one image too much; nil if it would not.
func (s Spread) Refusal(pool string, recipe cloud.Recipe, name func(cloud.InstanceID) string) *cloud.Refusal {
	if !s.Full() {
		return nil
	}
	told := s.Told(pool, recipe, name)
	return &told
}
