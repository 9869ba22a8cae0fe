package memory

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	opSnapshots    = "Snapshots"
	opDropSnapshot = "DropSnapshot"
)

// Snapshots implements cloud.ImageProvider.
func (c *ImageProvider) Snapshots(ctx context.Context, _ ...cloud.ImageFamily) ([]cloud.Snapshot, error) {
	defer c.enter()()
	if err := c.admit(ctx, opSnapshots, ""); err != nil {
		return nil, err
	}
	var found []cloud.Snapshot
	for _, s := range c.snapshots {
		if s.tags[cloud.TagUID] != "" {
			view := s.view()
			view.Name = s.tags[cloud.TagPrototype]
			found = append(found, view)
		}
	}
	return found, nil
}

// DropSnapshot implements cloud.ImageProvider.
func (c *ImageProvider) DropSnapshot(ctx context.Context, id string) error {
	defer c.enter()()
	if err := c.admit(ctx, opDropSnapshot, id); err != nil {
		return err
	}
	if s := c.findSnapshot(func(s *snapshot) bool { return s.id == id }); s != nil {
		c.discard(s)
	}
	return nil
}
