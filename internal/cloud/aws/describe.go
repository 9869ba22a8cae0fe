package aws

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Classes of requests: the limits of EC2 and Auto Scaling count what looks and what changes apart. Source: "Request throttling for the
// Amazon EC2 API".
const (
	classRead  = "read"
	classWrite = "write"
)

// Describe is what the provider says of itself.
func Describe() cloud.Description {
	return cloud.Description{
		Name:        "aws",
		Schemes:     []string{strings.TrimSuffix(providerPrefix, "://")},
		Docs:        "docs/aws.md",
		ConfigFile:  "config",
		Environment: "the AWS SDK's default chain",
		New: func(ctx context.Context, c cloud.Config) (cloud.Provider, string, error) {
			disks, recipes, source, err := load(ctx, c)
			if err != nil {
				return nil, "", err
			}
			return cloud.New(disks, recipes), source, nil
		},
		NewDisks: func(ctx context.Context, c cloud.Config) (cloud.ImageProvider, string, error) {
			disks, _, source, err := load(ctx, c)
			return disks, source, err
		},
		Reasons: refusalReasons,
		Grant:   policy,
		Classes: []string{classRead, classWrite},
		Remedies: cloud.Remedies{
			Credential:  "see docs/aws.md, section Credentials: a role for the service account (IRSA or Pod Identity), an instance profile, or AWS_… variables",
			Permissions: "give the credential the IAM policy of docs/aws.md, section Permissions",
			Audit:       "let it do iam:SimulatePrincipalPolicy on itself",
			Pool:        "see whether the Auto Scaling group still exists, and whether this is the right account",
			NoPool:      "see spec.providerID of a node: it must name an instance of an Auto Scaling group",
			History:     "see docs/aws.md, section What it makes",
			OldDisks:    "move the volumes to the CSI driver ebs.csi.aws.com; until then, a drained donor has none left",
		},
		OldDriver: "kubernetes.io/aws-ebs/",
	}
}

// load makes both halves of what a configuration says.
func load(ctx context.Context, c cloud.Config) (*ImageProvider, *PoolProvider, string, error) {
	config, err := Load(ctx, c.File)
	if err != nil {
		return nil, nil, "", err
	}
	config.OnRequest = c.OnRequest
	source := "the AWS SDK's default chain"
	if c.File != "" {
		source = c.File + " and " + source
	}
	disks, recipes := New(config)
	return disks, recipes, source, nil
}

// counting tells of each request once it was answered.
func (a *account) counting(stack *middleware.Stack) error {
	tell := a.config.OnRequest
	if tell == nil {
		return nil
	}
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("kaminoCounting", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		out, meta, err := next.HandleInitialize(ctx, in)
		class := classWrite
		if asks(in.Parameters) {
			class = classRead
		}
		status, throttled := answer(err)
		tell(class, status, throttled)
		return out, meta, err
	}), middleware.After) // behind what answers from an earlier look
}

// answer is the status that a request was answered with, 0 if nobody did, and whether AWS throttled it.
func answer(err error) (status int, throttled bool) {
	if err == nil {
		return 200, false
	}
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	var said smithy.APIError
	return status, errors.As(err, &said) && kindOf(said.ErrorCode(), status) == cloud.Throttled
}
