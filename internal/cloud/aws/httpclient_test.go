package aws

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// hasty is a body that is closed while it is sent, as the SDK's is when the answer is there.
type hasty struct{ io.Reader }

func (hasty) Close() error { return nil }

// WriteTo gives what there is, and then says what a body of the SDK's says once it is closed.
func (h hasty) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, h.Reader)
	if err == nil && n == 0 {
		err = io.EOF
	}
	return n, err
}

const sent = "Action=DescribeInstances"

func request(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, hasty{strings.NewReader(sent)})
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = int64(len(sent))
	return r
}

// answering is an HTTP client as aws.HTTPClient wants it.
type answering func(*http.Request) (*http.Response, error)

func (f answering) Do(r *http.Request) (*http.Response, error) { return f(r) }

// TestABodyIsOnlyRead: it has all that it had, and does not write itself. The request that was given is not changed.
func TestABodyIsOnlyRead(t *testing.T) {
	given := request(t, "http://localhost/")
	body := given.Body
	_, err := plainBodyClient{answering(func(r *http.Request) (*http.Response, error) {
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
	_, err = plainBodyClient{answering(func(r *http.Request) (*http.Response, error) {
		if r.Body != http.NoBody {
			t.Error("no body is one now")
		}
		return nil, nil
	})}.Do(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	if err != nil {
		t.Error(err)
	}
}

// TestWhyABodyIsOnlyRead: net/http breaks a connection off whose request's body says io.EOF, although the answer is on its way.
func TestWhyABodyIsOnlyRead(t *testing.T) {
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
