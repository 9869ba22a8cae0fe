package aws

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// closedBody is a body that the SDK closes during the send, because the response has arrived.
type closedBody struct{ io.Reader }

func (closedBody) Close() error { return nil }

// WriteTo writes the content, and returns the error of a closed body of the SDK.
func (h closedBody) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, h.Reader)
	if err == nil && n == 0 {
		err = io.EOF
	}
	return n, err
}

const sent = "Action=DescribeInstances"

func request(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, closedBody{strings.NewReader(sent)})
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = int64(len(sent))
	return r
}

// httpClient implements aws.HTTPClient.
type httpClient func(*http.Request) (*http.Response, error)

func (f httpClient) Do(r *http.Request) (*http.Response, error) { return f(r) }

// TestRequestBodyWithoutWriteTo: the sent body has the full content and no WriteTo. The caller's request does not
// change.
func TestRequestBodyWithoutWriteTo(t *testing.T) {
	given := request(t, "http://localhost/")
	body := given.Body
	_, err := plainBodyClient{httpClient(func(r *http.Request) (*http.Response, error) {
		if _, writes := r.Body.(io.WriterTo); writes {
			t.Error("it writes itself")
		}
		text, err := io.ReadAll(r.Body)
		if string(text) != sent || r.ContentLength != int64(len(sent)) {
			t.Errorf("it is %q of %d", text, r.ContentLength)
		}
		return nil, err
	})}.Do(given)
	if err != nil || given.Body != body {
		t.Errorf("%v, %v", err, given.Body)
	}
	_, err = plainBodyClient{httpClient(func(r *http.Request) (*http.Response, error) {
		if r.Body != http.NoBody {
			t.Error("no body is one now")
		}
		return nil, nil
	})}.Do(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	if err != nil {
		t.Error(err)
	}
}

// TestWriteToBreaksConnection: net/http closes a connection if a request body returns io.EOF, although the response
// is on the way.
func TestWriteToBreaksConnection(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // broken off
	}))
	t.Cleanup(server.Close)
	answer, err := server.Client().Do(request(t, server.URL))
	if err == nil {
		_, err = io.ReadAll(answer.Body)
		_ = answer.Body.Close()
	}
	if err == nil {
		t.Error("net/http does without this now: delete it")
	}
}
