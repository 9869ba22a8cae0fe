package aws

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// hasty is a body that was closed while it was sent, as the SDK's is when the answer is there: it has given all that it had.
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

// TestAnAnswerMayBeFasterThanItsRequest: the connection lives on, and so does the answer.
func TestAnAnswerMayBeFasterThanItsRequest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(server.Close)
	send := func(client interface {
		Do(*http.Request) (*http.Response, error)
	}) error {
		const text = "Action=DescribeInstances"
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, hasty{strings.NewReader(text)})
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = int64(len(text))
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		_, err = io.ReadAll(answer.Body)
		return err
	}
	if err := send(server.Client()); err == nil {
		t.Error("net/http does without this now: delete it")
	}
	if err := send(wire{server.Client()}); err != nil {
		t.Error(err)
	}
}
