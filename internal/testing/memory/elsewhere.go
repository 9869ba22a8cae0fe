package memory

import (
	"context"
	"fmt"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// PoolProvider elsewhere, for example of Cluster API, build machines here and name images by this cloud's IDs.

// Build makes a running machine from an image in the form of NativeImage, unless a machine of the name exists. The
// machine has no owner here.
func (c *ImageProvider) Build(name, image string) cloud.InstanceID {
	defer c.enter()()
	id := cloud.InstanceID(machinePrefix + strings.ToLower(name))
	if _, there := c.lookup(id); !there {
		c.setPower(c.make(&instance{id: id, stray: true, diskGB: 30, image: image}), cloud.PowerRunning)
	}
	return id
}

// Discard removes a machine made by Build, and reports whether it existed.
func (c *ImageProvider) Discard(id cloud.InstanceID) bool {
	defer c.enter()()
	m, ok := c.lookup(id)
	if ok {
		c.remove(m)
	}
	return ok
}

// NativeImage implements cloud.ImageProvider. Any other text is treated as an existing image.
func (c *ImageProvider) NativeImage(ctx context.Context, place, image string) (string, error) {
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

// ImageText implements cloud.ImageProvider.
func (c *ImageProvider) ImageText(_ context.Context, _, native string) (string, error) {
	return native, nil
}

// Groups returns nil: no controller builds its nodes in the pools here.
func (c *ImageProvider) Groups() cloud.PoolProvider { return cloud.PoolProvider{} }

// InstancesOf implements cloud.PoolSupport.
func (c *ImageProvider) InstancesOf(ctx context.Context, ids []cloud.InstanceID) (map[cloud.InstanceID]cloud.Instance, error) {
	found := map[cloud.InstanceID]cloud.Instance{}
	for _, id := range ids {
		switch m, err := c.Instance(ctx, id); {
		case cloud.Is(err, cloud.NotFound):
		case err != nil:
			return nil, err
		default:
			found[id] = m
		}
	}
	return found, nil
}

// MaxModels implements cloud.PoolSupport.
func (c *ImageProvider) MaxModels() int { return 0 }
