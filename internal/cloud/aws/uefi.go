package aws

import (
	"context"
	"fmt"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// hasUEFI reports whether an instance booted with UEFI.
func hasUEFI(m types.Instance) bool {
	return m.CurrentInstanceBootMode == types.InstanceBootModeValuesUefi
}

// uefiData returns the UEFI variables of an instance, as text for RegisterImage. They are read once, because a donor may be gone
// when its image is registered. Instances without a variable store have no text.
func uefiData(ctx context.Context, a *account, ref instance) (string, error) {
	// Not verified on AWS, images: `RegisterImage` accepts the UEFI variables of a running instance unchanged.
	key := ref.region + "/" + ref.id
	a.mu.Lock()
	known, found := a.uefi[key]
	a.mu.Unlock()
	if found && a.config.Now().Sub(known.at) < uefiLife {
		return known.data, nil
	}
	out, err := a.ec2(ref.region).GetInstanceUefiData(ctx, &ec2.GetInstanceUefiDataInput{InstanceId: sdk.String(ref.id)})
	data := ""
	switch {
	case isCode(err, "UnsupportedOperation"):
	case err != nil:
		return "", fail("read the UEFI variables of", ref, err)
	default:
		data = sdk.ToString(out.UefiData)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for other, u := range a.uefi {
		if a.config.Now().Sub(u.at) >= uefiLife {
			delete(a.uefi, other)
		}
	}
	a.uefi[key] = uefiVariables{data, a.config.Now()}
	return data, nil
}

// uefiLife is longer than a capture takes from its preflight to the image.
const uefiLife = 12 * time.Hour

// uefiVariables are the UEFI variables of an instance, with the time of the read.
type uefiVariables struct {
	data string
	at   time.Time
}

// deniedUEFI returns the refusal of a donor whose UEFI variables the credential may not read; nil otherwise.
func deniedUEFI(ctx context.Context, a *account, ref instance, m types.Instance) (*cloud.Refusal, error) {
	if !hasUEFI(m) {
		return nil, nil
	}
	_, err := uefiData(ctx, a, ref)
	if !cloud.Is(err, cloud.Denied) {
		return nil, err
	}
	refusal := permissionMissing(uefiAction, ref)
	return &refusal, nil
}

// lostUEFI is the error of an image whose donor is gone before its UEFI variables were read.
func lostUEFI(of versionRef, ref instance) error {
	return &cloud.Error{Kind: cloud.Invalid, Op: "make", Resource: of.String(),
		Message: fmt.Sprintf("%s is gone, and the image would lack the UEFI variables of the donor: capture again", ref)}
}
