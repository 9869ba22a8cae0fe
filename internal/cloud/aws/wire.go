package aws

import (
	"io"
	"net/http"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
)

// wire sends requests whose bodies can be read and closed, and no more. A body of the SDK's also writes itself, and says io.EOF when it
// is asked to after it was closed, which it is as soon as an answer begins. Where the answer was faster than the end of the
// sending, net/http took that for a failure and broke the connection off, with the answer half read.
// Source: smithy-go v1.28.8, transport/http/internal/io, safeWriteToReadCloser.
type wire struct{ under sdk.HTTPClient }

// OnWire is a client of the SDK's whose requests can be sent whole, whenever the answer comes.
func OnWire(under sdk.HTTPClient) sdk.HTTPClient { return wire{under} }

// Do implements aws.HTTPClient.
func (w wire) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r = r.WithContext(r.Context()) // a copy
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return w.under.Do(r)
}
