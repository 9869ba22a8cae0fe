package azure

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// storage is a transport that answers requests for the log of a serial console, and passes other requests to fakeARM.
type storage struct {
	*fakeARM
	log  string
	code int
	err  error
	// asked has the headers of the requests.
	asked []http.Header
}

const logAddress = "https://store.example/serialconsole.log?se=1&sig=topsecret"

func (s *storage) Do(request *http.Request) (*http.Response, error) {
	if request.URL.Host != "store.example" {
		return s.fakeARM.Do(request)
	}
	s.asked = append(s.asked, request.Header)
	if s.err != nil {
		return nil, &url.Error{Op: "Get", URL: request.URL.String(), Err: s.err}
	}
	return &http.Response{StatusCode: s.code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(s.log)), Request: request}, nil
}

// TestConsoleOutput: the storage gets no token, and errors do not have the address, which has a signature.
func TestConsoleOutput(t *testing.T) {
	const action = string(testPool) + "/virtualMachines/0/retrieveBootDiagnosticsData"
	long := strings.Repeat("x", 3*cloud.ConsoleSize) + "the end"
	for name, c := range map[string]struct {
		code     int
		log      string
		err      error
		disabled bool
		want     string
		kind     cloud.Kind
	}{
		"short":         {code: http.StatusOK, log: "the end", want: "the end"},
		"long":          {code: http.StatusOK, log: long, want: long[len(long)-cloud.ConsoleSize:]},
		"no log yet":    {code: http.StatusNotFound, log: "<Error/>"},
		"forbidden":     {code: http.StatusForbidden, log: "<Error/>", kind: cloud.Unavailable},
		"not reachable": {err: errors.New("no route to host"), kind: cloud.Unavailable},
		"disabled":      {disabled: true, kind: cloud.Unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			a := newARM(t)
			a.next("POST", action, answer{http.StatusOK, nil, map[string]any{"serialConsoleLogBlobUri": logAddress}})
			if c.disabled {
				a.scripted["POST "+fold(action)] = []answer{armError(http.StatusConflict, "OperationNotAllowed", "boot diagnostics are off")}
			}
			store := &storage{fakeARM: a, log: c.log, code: c.code, err: c.err}
			p, err := New(t.Context(), Config{Credential: token{}, Transport: store})
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.ConsoleOutput(t.Context(), testInstance)
			if got != c.want || cloud.KindOf(err) != c.kind {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if err != nil && strings.Contains(err.Error(), "topsecret") {
				t.Errorf("the error has the signature: %v", err)
			}
			for _, header := range store.asked {
				if header.Get("Authorization") != "" {
					t.Error("the storage gets the token of Azure Resource Manager")
				}
			}
		})
	}
}
