package aws

import (
	"context"
	"encoding/base64"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const opConsole = "read the serial console of"

// ConsoleOutput implements cloud.ImageProvider. Only instances on Nitro have the latest output; other instances have the
// output of their boot. Source: EC2 API Reference, GetConsoleOutput.
func (p *ImageProvider) ConsoleOutput(ctx context.Context, id cloud.InstanceID) (string, error) {
	// Not verified on AWS, trials: instances that are not on Nitro refuse `GetConsoleOutput` with `Latest`.
	ref, err := parseInstance(id)
	if err != nil {
		return "", err
	}
	client := p.ec2(ref.region)
	out, err := client.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: sdk.String(ref.id), Latest: sdk.Bool(true)})
	if isCode(err, "UnsupportedOperation") {
		out, err = client.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: sdk.String(ref.id)})
	}
	if err != nil {
		return "", fail(opConsole, ref, err)
	}
	text, err := base64.StdEncoding.DecodeString(sdk.ToString(out.Output))
	if err != nil {
		return "", &cloud.Error{Kind: cloud.Unavailable, Op: opConsole, Resource: ref.String(), Message: "the answer is not in base64", Err: err}
	}
	return string(text[max(0, len(text)-cloud.ConsoleSize):]), nil
}
