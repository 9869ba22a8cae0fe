package azure

import (
	"bytes"
	"io"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// readCachePolicy answers repeated GET requests from the cache of cloud.WithReadCache. NotFound is cached too; other failures are
// not.
type readCachePolicy struct{}

// reply is a cached response.
type reply struct {
	response http.Response
	body     []byte
}

// Do implements policy.Policy.
func (readCachePolicy) Do(request *policy.Request) (*http.Response, error) {
	raw := request.Raw()
	cache := cloud.ReadCacheOf(raw.Context())
	if cache == nil {
		return request.Next()
	}
	if raw.Method != http.MethodGet && raw.Method != http.MethodHead {
		cache.Invalidate()
		return request.Next()
	}
	key := raw.Method + " " + raw.URL.String()
	if kept, found := cache.Get(key); found {
		return kept.(reply).replay(raw), nil // the key holds only replies
	}
	response, err := request.Next()
	if err != nil || response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNotFound {
		return response, err
	}
	body, err := runtime.Payload(response)
	if err != nil {
		return response, err
	}
	kept := reply{response: *response, body: body}
	cache.Put(key, kept)
	return response, nil
}

func (a reply) replay(request *http.Request) *http.Response {
	response := a.response
	response.Request, response.Header, response.Body = request, a.response.Header.Clone(), io.NopCloser(bytes.NewReader(a.body))
	return &response
}
