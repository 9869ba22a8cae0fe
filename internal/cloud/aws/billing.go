package aws

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// billing is what AWS charges for an instance besides its type. AWS derives the billing of a registered image from the
// snapshot, and advises to discard an image with another billing. Source: RegisterImage, "Register a snapshot".
type billing struct {
	// Details are the platform, for example "Red Hat Enterprise Linux". Operation is the usage operation.
	Details   string `json:"d,omitempty"`
	Operation string `json:"u,omitempty"`
	// Codes are the product codes of the Marketplace, sorted.
	Codes []string `json:"c,omitempty"`
}

func (b billing) String() string {
	text, _ := json.Marshal(b) // plain values
	return string(text)
}

// describe returns the billing as text for people.
func (b billing) describe() string {
	text := fmt.Sprintf("%q (usage operation %q", b.Details, b.Operation)
	if len(b.Codes) > 0 {
		text += ", product codes " + strings.Join(b.Codes, ", ")
	}
	return text + ")"
}

// billingOf returns the billing of an instance or an image.
func billingOf(details, operation *string, codes []types.ProductCode) billing {
	b := billing{Details: sdk.ToString(details), Operation: sdk.ToString(operation)}
	for _, code := range codes {
		if code.ProductCodeType == types.ProductCodeValuesMarketplace {
			b.Codes = append(b.Codes, sdk.ToString(code.ProductCodeId))
		}
	}
	slices.Sort(b.Codes)
	return b
}

// billingFault returns why AWS would bill instances of the image otherwise than the donor; empty if the billing is equal, or
// if the donor's billing is unknown.
func billingFault(im types.Image) string {
	// Not verified on AWS, images: AWS derives the billing of RHEL, SUSE and Marketplace disks from the snapshot.
	var donor billing
	if err := json.Unmarshal([]byte(tagOf(im.Tags, tagBilling)), &donor); err != nil || donor.Details == "" {
		return ""
	}
	own := billingOf(im.PlatformDetails, im.UsageOperation, im.ProductCodes)
	if own.Details == donor.Details && own.Operation == donor.Operation && slices.Equal(own.Codes, donor.Codes) {
		return ""
	}
	return fmt.Sprintf("AWS bills instances of %s as %s, but the donor as %s: do not use the image; build images for this platform with `aws ec2 create-image`",
		sdk.ToString(im.ImageId), own.describe(), donor.describe())
}
