package generalize

import (
	"fmt"

	"github.com/kamino-dev/kamino/internal/agent/inventory"
	"github.com/kamino-dev/kamino/internal/agent/store"
	"github.com/kamino-dev/kamino/internal/agent/tree"
	"github.com/kamino-dev/kamino/internal/contents"
	"github.com/kamino-dev/kamino/internal/rules"
)

// Contents lists what a generalized disk contains. What cannot be read becomes a note.
func (r *Runner) Contents(t *tree.Tree, m *Manifest) *contents.Contents {
	c := &contents.Contents{}
	inventory.Packages(t, c)
	r.images(t, m, c)
	if m.Scan != nil {
		c.UnknownFiles = m.Scan.Unknown.Files
		for _, d := range m.Scan.Unknown.List {
			c.Unknown = append(c.Unknown, contents.Directory{Dir: d.Dir, Files: d.Files})
		}
		if more := m.Scan.Unknown.Dirs - len(m.Scan.Unknown.List); more > 0 {
			c.Notes = append(c.Notes, fmt.Sprintf("unknown files: %d directories are not listed", more))
		}
	}
	c.Sort()
	return c
}

// images adds the container images of all stores that the profile knows.
func (r *Runner) images(t *tree.Tree, m *Manifest, c *contents.Contents) {
	for i := range r.Profile.Rules {
		rule := &r.Profile.Rules[i]
		if rule.Action != rules.Forget || !rule.AppliesTo(m.OS) {
			continue
		}
		err := search(t, rule, func(m tree.Match) error {
			images, err := store.At(t, rule.Store, m.Path, nil).Images()
			for _, image := range images {
				c.Images = append(c.Images, contents.Image(image))
			}
			return err
		})
		if err != nil {
			c.Notes = append(c.Notes, fmt.Sprintf("container images: rule %s: %v", rule.ID, err))
		}
	}
}
