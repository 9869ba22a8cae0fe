package azure

import (
	"context"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// NativeImage implements cloud.ImageNames. On Azure that is the resource ID; a version is looked at, for nobody else does before it is
// needed.
func (p *ImageProvider) NativeImage(ctx context.Context, _, image string) (string, error) {
	const op = "name"
	rid, err := arm.ParseResourceID(image)
	if err != nil || !strings.EqualFold(rid.ResourceType.String(), typeVersion) {
		return image, nil //nolint:nilerr // an image of others, which is named as it is
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
		return "", &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: "image version " + rid.Name, Message: fmt.Sprintf("it is %s: name one that is complete", state)}
	}
	return image, nil
}

// typeVersion is the resource type of an image version.
const typeVersion = "microsoft.compute/galleries/images/versions"

// ImageText implements cloud.ImageNames.
func (p *ImageProvider) ImageText(_ context.Context, _, native string) (string, error) {
	return native, nil
}
