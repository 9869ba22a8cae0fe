// Package imagecount counts the different images of a pool's instances, and warns near the cloud's limit. A pool at the
// limit cannot grow with an instance of one more image.
//
// Deleting a version does not lower the count, because an instance keeps its image. Only rebuilding or removing the
// instances of an image does. The package decides nothing about versions.
package imagecount

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// TooManyImages refuses a capture that would add an image to a pool near the cloud's limit.
const TooManyImages = "TooManyImages"

// Kamino warns three images before the limit, and refuses captures one image before. Other changes of a recipe may also
// add an image.
const (
	warnBefore   = 3
	refuseBefore = 1
)

// Count lists the images of a pool's instances.
type Count struct {
	// Limit is the largest allowed number of images; 0 without a limit.
	Limit int `json:"limit"`
	// Images are the images of the instances and of the recipe, oldest first.
	Images []Image `json:"images"`
}

// Image is one image of a pool.
type Image struct {
	// Name is the cloud's name of the image. Version is set if the image is a version of the pool.
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	// Instances were built from the image. After Brief there are only a few, and Count has the full number.
	Instances []cloud.InstanceID `json:"instances,omitempty"`
	Count     int                `json:"count,omitempty"`
}

// Possible reports whether a pool with so many instances can be near the limit. Smaller pools need no count.
func Possible(instances int64, limit int) bool {
	return limit > 0 && instances+1 >= int64(limit-warnBefore)
}

// Of counts the images. Images from elsewhere sort before the pool's versions, as if older.
func Of(recipe cloud.Recipe, instances []cloud.Instance, limit int) Count {
	s := Count{Limit: limit}
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

// add adds an image and returns its index; -1 without a name.
func (s *Count) add(name, version string) int {
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

// With returns the spread after the recipe names one more image.
func (s Count) With(image string) Count {
	s.Images = slices.Clone(s.Images)
	s.add(image, "")
	return s
}

// Brief keeps only as many instances of each image as messages name, so that the spread of a large pool stays small.
func (s Count) Brief() Count {
	s.Images = slices.Clone(s.Images)
	for i := range s.Images {
		if all := s.Images[i].Instances; len(all) > named {
			s.Images[i].Instances = slices.Clone(all[:named])
		}
	}
	return s
}

// IsNearLimit reports whether instances of old images should be rebuilt soon.
func (s Count) IsNearLimit() bool { return s.Limit > 0 && len(s.Images) >= s.Limit-warnBefore }

// IsAtLimit reports whether no image may be added.
func (s Count) IsAtLimit() bool { return s.Limit > 0 && len(s.Images) >= s.Limit-refuseBefore }

// Oldest returns the oldest image with instances that the recipe does not name; the zero Image if there is none.
func (s Count) Oldest(recipe cloud.Recipe) Image {
	for _, image := range s.Images {
		if len(image.Instances) > 0 && !strings.EqualFold(image.Name, recipe.Image) {
			return image
		}
	}
	return Image{}
}

// named is the number of nodes in a message.
const named = 3

// Sentence is the beginning of the message about a pool.
func Sentence(pool string, images int) string {
	return fmt.Sprintf("the nodes and the recipe of pool %s have %d different images", pool, images)
}

// Message returns the message for a pool near the limit, with the remedy. name returns the node's name of an instance.
func (s Count) Message(pool string, recipe cloud.Recipe, name func(cloud.InstanceID) string) string {
	return s.Warning(pool, recipe, name).Message
}

// Warning returns the same message as a refusal.
func (s Count) Warning(pool string, recipe cloud.Recipe, name func(cloud.InstanceID) string) cloud.Refusal {
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
	return cloud.Refuse(TooManyImages,
		fmt.Sprintf("%s; the pool cannot grow with more than %d images. The oldest image is %s, on %s", Sentence(pool, len(s.Images)), s.Limit, of,
			strings.Join(nodes, ", ")),
		fmt.Sprintf("rebuild these nodes with `kamino rebuild %s`, or delete the nodes; with Cluster API, delete the Machines", pool))
}

// Refusal returns the refusal of a capture that would exceed the limit; nil below the limit.
func (s Count) Refusal(pool string, recipe cloud.Recipe, name func(cloud.InstanceID) string) *cloud.Refusal {
	if !s.IsAtLimit() {
		return nil
	}
	warning := s.Warning(pool, recipe, name)
	return &warning
}
