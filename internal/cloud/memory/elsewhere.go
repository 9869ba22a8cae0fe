package memory

import (
	"context"
	"fmt"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Recipes that are elsewhere, such as Cluster API's, have somebody else make their machines here, and name images by this cloud's own
// words, which are their IDs.

var _ cloud.ImageNames = (*Disks)(nil)

// Build makes a machine that runs, from an image as NativeImage names it, unless there is one of that name. Whose it is only whoever
// asked for it knows.
func (c *Disks) Build(name, image string) cloud.InstanceID {
	defer c.enter()()
	id := cloud.InstanceID(machinePrefix + strings.ToLower(name))
	if _, there := c.lookup(id); !there {
		c.setPower(c.make(&instance{id: id, stray: true, diskGB: 30, image: image}), cloud.PowerRunning)
	}
	return id
}

// Discard removes a machine that was made by Build. It tells whether there was one.
func (c *Disks) Discard(id cloud.InstanceID) bool {
	defer c.enter()()
	m, ok := c.lookup(id)
	if ok {
		c.remove(m)
	}
	return ok
}

// NativeImage implements cloud.ImageNames. What names no version of a line is taken for an image that was there before.
func (c *Disks) NativeImage(ctx context.Context, place, image string) (string, error) {
	defer c.enter()()
	if err := c.admit(ctx, opImage, image); err != nil {
		return "", err
	}
	switch v := c.imageByID(image); {
	case v == nil && strings.HasPrefix(image, place) && strings.Contains(image, versionsPart):
		return "", refused(cloud.NotFound, opImage, image, "ImageNotFound", "the version does not exist")
	case v != nil && v.state != cloud.Complete:
		return "", refused(cloud.Conflict, opImage, image, "ImageNotReady", fmt.Sprintf("the version is %s, not Complete", v.state))
	}
	return image, nil
}

// ImageText implements cloud.ImageNames.
func (c *Disks) ImageText(_ context.Context, _, native string) (string, error) { return native, nil }
