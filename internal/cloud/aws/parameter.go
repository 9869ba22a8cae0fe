package aws

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// parameterPrefix begins the names of the parameters that Kamino writes. The policies allow no others.
const parameterPrefix = "/kamino/"

// imageParameter is a parameter of Systems Manager by which another tool finds the image of a pool. A person creates it: its existence is
// the consent that Kamino writes it.
type imageParameter struct {
	name string
	// ami is the value; empty without a parameter.
	ami string
	// obstacle is why Kamino cannot use a parameter that exists, or may exist; empty if it can.
	obstacle string
}

// usable reports whether Kamino can promote by the parameter.
func (p imageParameter) usable() bool { return p.ami != "" && p.obstacle == "" }

// readParameter reads a parameter. A missing one is no error.
func readParameter(ctx context.Context, a *account, region, name string) (imageParameter, error) {
	out, err := a.ssm(region).GetParameter(ctx, &ssm.GetParameterInput{Name: sdk.String(name)})
	found := imageParameter{name: name}
	if isCode(err, "ParameterNotFound") {
		return found, nil
	}
	switch err = fail("read", text("parameter "+name), err); {
	case cloud.Is(err, cloud.Denied):
		found.obstacle = "the credential may not do ssm:GetParameter on it"
		return found, nil
	case err != nil:
		return found, err
	}
	found.ami = sdk.ToString(out.Parameter.Value)
	switch {
	case out.Parameter.Type != ssmtypes.ParameterTypeString:
		found.obstacle = fmt.Sprintf("its type is %s, not String", out.Parameter.Type)
	case !strings.HasPrefix(found.ami, "ami-"):
		found.obstacle = fmt.Sprintf("its value %q is not the ID of an AMI", found.ami)
	}
	return found, nil
}

// writeParameter changes the value of a parameter. Without a type, Systems Manager refuses to create one: a person has deleted it.
func writeParameter(ctx context.Context, a *account, region, name, ami string) error {
	_, err := a.ssm(region).PutParameter(ctx, &ssm.PutParameterInput{Name: sdk.String(name), Value: sdk.String(ami), Overwrite: sdk.Bool(true)})
	return fail("write", text("parameter "+name), err)
}

func (a *account) ssm(region string) *ssm.Client {
	return client(a, "ssm", region, func() *ssm.Client {
		return ssm.NewFromConfig(a.config.AWS, func(o *ssm.Options) {
			o.Region, o.Retryer, o.APIOptions = region, sdk.NopRetryer{}, a.requestLayers(o.APIOptions, region)
		})
	})
}
