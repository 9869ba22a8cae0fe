package aws

import (
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// templates is an EC2 API with one launch template, or without.
type templates struct {
	gone  bool
	reads int
}

func (s *templates) Do(*http.Request) (*http.Response, error) {
	s.reads++
	status, body := http.StatusOK, `<DescribeLaunchTemplateVersionsResponse><launchTemplateVersionSet><item><launchTemplateId>lt-1</launchTemplateId>`+
		`<versionNumber>3</versionNumber><launchTemplateData><imageId>ami-1</imageId></launchTemplateData></item></launchTemplateVersionSet></DescribeLaunchTemplateVersionsResponse>`
	if s.gone {
		status, body = http.StatusBadRequest, `<Response><Errors><Error><Code>InvalidLaunchTemplateId.NotFound</Code><Message>does not exist</Message></Error></Errors></Response>`
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"text/xml"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// TestMissingLaunchTemplate: the cache keeps a template until a fresh read finds no template. A write returns
// NotFound.
func TestMissingLaunchTemplate(t *testing.T) {
	server := &templates{}
	a := newAccount(Config{AWS: sdk.Config{HTTPClient: server, BaseEndpoint: sdk.String("http://localhost"),
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")}})
	ref := group{region: "eu-west-1", name: "workers"}
	spec := types.LaunchTemplateSpecification{LaunchTemplateId: sdk.String("lt-1"), Version: sdk.String("3")}
	look := func(fresh, found bool, reads int) {
		t.Helper()
		ctx := t.Context()
		if fresh {
			ctx = cloud.WithoutReadCache(ctx)
		}
		v, err := a.version(ctx, ref, spec)
		if err != nil || (v != nil) != found || server.reads != reads {
			t.Fatalf("%v, %v after %d reads; want found: %t after %d", v, err, server.reads, found, reads)
		}
	}
	look(false, true, 1)
	look(false, true, 1)
	server.gone = true
	look(false, true, 1)
	look(true, false, 2)
	look(false, false, 3)
	server.gone = false
	look(false, true, 4)

	err := errorOfTemplate(opRecipe, ref, recipe{spec: &spec})
	if !cloud.Is(err, cloud.NotFound) || !strings.Contains(err.Error(), "launch template lt-1 does not exist") ||
		!strings.Contains(err.Error(), "point the group at an existing version") {
		t.Errorf("a write says %v", err)
	}
	if err := errorOfTemplate(opRecipe, ref, recipe{}); !cloud.Is(err, cloud.Refused) {
		t.Errorf("of a launch configuration it says %v", err)
	}
}
