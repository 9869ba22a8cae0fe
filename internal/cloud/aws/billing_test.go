package aws

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// TestBillingOfImage checks that an image with another billing than the donor's is no usable image.
func TestBillingOfImage(t *testing.T) {
	code := func(ids ...string) (codes []types.ProductCode) {
		for _, id := range ids {
			codes = append(codes, types.ProductCode{ProductCodeId: sdk.String(id), ProductCodeType: types.ProductCodeValuesMarketplace})
		}
		return codes
	}
	const rhel, linux = "Red Hat Enterprise Linux", "Linux/UNIX"
	donor := billingOf(sdk.String(rhel), sdk.String("RunInstances:0010"), code("b", "a")).String()
	if len(donor) > maxTagValue {
		t.Errorf("%d characters", len(donor))
	}
	for name, test := range map[string]struct {
		donor, details, operation string
		codes                     []types.ProductCode
		fault                     string
	}{
		"same":                {donor, rhel, "RunInstances:0010", code("a", "b"), ""},
		"other platform":      {donor, linux, "RunInstances:0010", code("a", "b"), linux},
		"other operation":     {donor, rhel, "RunInstances", code("a", "b"), `"RunInstances"`},
		"lost code":           {donor, rhel, "RunInstances:0010", code("a"), "product codes a, b"},
		"empty platform":      {donor, "", "", nil, rhel},
		"unknown donor":       {"", linux, "RunInstances", nil, ""},
		"unreadable donor":    {"{", linux, "RunInstances", nil, ""},
		"donor without codes": {billingOf(sdk.String(linux), sdk.String("RunInstances"), nil).String(), linux, "RunInstances", nil, ""},
	} {
		im := types.Image{ImageId: sdk.String("ami-1"), PlatformDetails: sdk.String(test.details), UsageOperation: sdk.String(test.operation),
			ProductCodes: test.codes,
			Tags:         toTags(nil, map[string]string{tagBilling: test.donor})}
		if got := billingFault(im); (got == "") != (test.fault == "") || !strings.Contains(got, test.fault) {
			t.Errorf("%s: %q, want %q", name, got, test.fault)
		}
	}
}
