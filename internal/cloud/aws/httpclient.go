package aws

import (
	"io"
	"net/http"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
)

// plainBodyClient sends bodies with Read and Close only. The SDK's body has WriteTo, which returns io.EOF after Close. If the
// answer comes before the end of the request, net/http sees a failure. Source: smithy-go v1.28.8, safeWriteToReadCloser.
type plainBodyClient struct{ under sdk.HTTPClient }

// WithPlainBodies returns an SDK client that sends requests completely, even after an early answer.
func WithPlainBodies(under sdk.HTTPClient) sdk.HTTPClient { return plainBodyClient{under} }

// Do implements aws.HTTPClient.
func (w plainBodyClient) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r = r.WithContext(r.Context()) // a copy
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return w.under.Do(r)
}
