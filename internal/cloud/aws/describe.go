package aws

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/wording/page"
)

// Classes of requests. EC2 and Auto Scaling have separate limits for reads and writes. Source: "Request throttling for
// the Amazon EC2 API".
const (
	classRead  = "read"
	classWrite = "write"
)

// docs is the address of the page about the provider.
const docs = page.Root + "reference/aws.md"

// Describe returns the provider's description for the registry.
func Describe() cloud.Description {
	return cloud.Description{
		Name:        "aws",
		Schemes:     []string{strings.TrimSuffix(providerPrefix, "://")},
		Docs:        docs,
		ConfigFile:  "config",
		Environment: "the AWS SDK's default chain",
		New: func(ctx context.Context, c cloud.Config) (cloud.Provider, string, error) {
			disks, recipes, source, err := load(ctx, c)
			if err != nil {
				return cloud.Provider{}, "", err
			}
			return cloud.New(disks, recipes), source, nil
		},
		NewDisks: func(ctx context.Context, c cloud.Config) (cloud.ImageProvider, string, error) {
			disks, _, source, err := load(ctx, c)
			return disks, source, err
		},
		NewHalves: load,
		Reasons:   refusalReasons,
		Grant:     Policy,
		Uses:      uses,
		Classes:   []string{classRead, classWrite},
		Remedies: cloud.Remedies{
			Credential:  "use a role for the service account (IRSA or Pod Identity), an instance profile, or AWS_… variables: see " + docs + "#credentials",
			Permissions: "give the credential the IAM policy of `kamino manifests --iam --cloud aws`: see " + docs + "#permissions",
			Action:      "allow the action in the credential's IAM policy",
			Audit:       "allow " + simulateAction + " on the credential's own role",
			Pool:        "check that the Auto Scaling group exists and that the account is right",
			NoPool:      "check spec.providerID of a node: the ID must name an instance of an Auto Scaling group",
			History:     "see " + docs + "#resources",
			OldDisks:    "move the volumes to the CSI driver ebs.csi.aws.com; until then, a drained donor has no such volumes",
		},
		OldDriver: "kubernetes.io/aws-ebs/",
	}
}

// load makes both halves from a configuration.
func load(ctx context.Context, c cloud.Config) (cloud.ImageProvider, cloud.PoolProvider, string, error) {
	config, err := Load(ctx, c.File)
	if err != nil {
		return cloud.ImageProvider{}, cloud.PoolProvider{}, "", err
	}
	config.OnRequest = c.OnRequest
	source := "the AWS SDK's default chain"
	if c.File != "" {
		source = c.File + " and " + source
	}
	disks, recipes := New(config)
	return cloud.DisksOf(disks), cloud.RecipesOf(recipes), source, nil
}

// countRequests reports each request after the answer.
func (a *account) countRequests(stack *middleware.Stack) error {
	report := a.config.OnRequest
	if report == nil {
		return nil
	}
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("kaminoCounting",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			out, meta, err := next.HandleInitialize(ctx, in)
			class := classWrite
			if isRead(in.Parameters) {
				class = classRead
			}
			status, throttled := answer(err)
			report(class, status, throttled)
			return out, meta, err
		}), middleware.After) // after the read cache, so that cached answers are not counted
}

// answer returns the HTTP status, 0 without an answer, and whether AWS throttled the request.
func answer(err error) (status int, throttled bool) {
	if err == nil {
		return 200, false
	}
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	var apiError smithy.APIError
	return status, errors.As(err, &apiError) && kindOf(apiError.ErrorCode(), status) == cloud.Throttled
}
