package azure

import (
	"context"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// NativeImage implements cloud.ImageProvider and returns the resource ID. NativeImage checks that a version is complete,
// because no later call does.
func (p *ImageProvider) NativeImage(ctx context.Context, _, image string) (string, error) {
	const op = "name"
	rid, err := arm.ParseResourceID(image)
	if err != nil || !strings.EqualFold(rid.ResourceType.String(), typeVersion) {
		return image, nil //nolint:nilerr // a foreign image stays unchanged
	}
	clients, err := p.in(scaleSet{subscription: strings.ToLower(rid.SubscriptionID)})
	if err != nil {
		return "", err
	}
	got, err := clients.versions.Get(ctx, rid.ResourceGroupName, rid.Parent.Parent.Name, rid.Parent.Name, rid.Name, nil)
	if err != nil {
		return "", fail(op, text("image version "+rid.Name), err)
	}
	var state armcompute.GalleryProvisioningState
	if got.Properties != nil {
		state = value(got.Properties.ProvisioningState)
	}
	if state != armcompute.GalleryProvisioningStateSucceeded {
		return "", &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: "image version " + rid.Name,
			Message: fmt.Sprintf("the version is %s: name a complete version", state)}
	}
	return image, nil
}

// typeVersion is the resource type of an image version.
const typeVersion = "microsoft.compute/galleries/images/versions"

// ImageText implements cloud.ImageProvider.
func (p *ImageProvider) ImageText(_ context.Context, _, native string) (string, error) {
	return native, nil
}

// Groups returns nil: Cluster API's provider makes scale sets that Kamino handles as objects.
func (*account) Groups() cloud.PoolProvider { return cloud.PoolProvider{} }
