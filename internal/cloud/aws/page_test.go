package aws

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestPagesOfProxies checks errors without a code of AWS, such as the HTML page of a proxy.
func TestPagesOfProxies(t *testing.T) {
	for status, want := range map[int]cloud.Kind{
		http.StatusForbidden: cloud.Denied, http.StatusNotFound: cloud.Unavailable, http.StatusTooManyRequests: cloud.Throttled,
		http.StatusBadGateway: cloud.Unavailable, http.StatusServiceUnavailable: cloud.Unavailable,
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte("<html><body><p>no<br></body></html>"))
		}))
		defer web.Close()
		client := ec2.New(ec2.Options{Region: "eu-central-1", BaseEndpoint: sdk.String(web.URL), Retryer: sdk.NopRetryer{},
			Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")})
		_, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
		err = fail("read", text("i-1"), err)
		if !cloud.Is(err, want) || strings.Contains(err.Error(), "cannot be reached") || !strings.Contains(err.Error(), http.StatusText(status)) {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// TestWindowsPlatform checks the value of the API, which is in lower case. The constant of the SDK is not.
func TestWindowsPlatform(t *testing.T) {
	if got := reasons(refusalsOf(instance{id: "i-1"}, types.Instance{Platform: "windows"})); len(got) != 1 || got[0] != cloud.SystemUnsupported {
		t.Errorf("%v", got)
	}
}
