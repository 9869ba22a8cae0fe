package sigv4

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	keyID  = "AKIDEXAMPLE"
	secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

// signed returns a request with a signature of the SDK.
func signed(t *testing.T, method, url, body string, change func(*http.Request)) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	sum := sha256.Sum256([]byte(body))
	credentials := aws.Credentials{AccessKeyID: keyID, SecretAccessKey: secret, SessionToken: "a token"}
	if err := signer.NewSigner().SignHTTP(t.Context(), credentials, r, hex.EncodeToString(sum[:]), "ec2", "us-east-1", noon); err != nil {
		t.Fatal(err)
	}
	r.Host = r.URL.Host
	return r
}

func verify(t *testing.T, r *http.Request, secret string, now time.Time) error {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s, err := Read(r)
	if err != nil {
		return err
	}
	return s.Verify(r, body, secret, now)
}

func TestSignedRequests(t *testing.T) {
	for _, c := range []struct{ method, url, body string }{
		{http.MethodPost, "https://ec2.example/", "Action=DescribeInstances&Version=2016-11-15"},
		{http.MethodGet, "https://ec2.example:8443/?b=2&a=1&a=0&c=x%20y%2Fz&d", ""},
		{http.MethodPost, "https://ec2.example/a%20b/c~d", "x"},
		{http.MethodPut, "https://ec2.example", strings.Repeat("long ", 10000)},
	} {
		r := signed(t, c.method, c.url, c.body, func(r *http.Request) {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
			r.Header.Add("X-Amz-Meta", " two   blanks ")
		})
		if err := verify(t, r, secret, noon.Add(time.Minute)); err != nil {
			t.Errorf("%s %s: %v", c.method, c.url, err)
		}
		scope, err := Read(r)
		if err != nil || scope.KeyID != keyID || scope.Region != "us-east-1" || scope.Service != "ec2" || scope.Token != "a token" {
			t.Errorf("scope is %+v, %v", scope, err)
		}
	}
}

// TestPresignedRequests: a presigned address allows this request only, for a limited time.
func TestPresignedRequests(t *testing.T) {
	presigned := func(credentials aws.Credentials) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"https://sts.example/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=60", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-K8s-Aws-Id", "sandbox")
		sum := sha256.Sum256(nil)
		address, headers, err := signer.NewSigner().PresignHTTP(t.Context(), credentials, r, hex.EncodeToString(sum[:]), "sts", "us-east-1", noon)
		if err != nil {
			t.Fatal(err)
		}
		if r, err = http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody); err != nil {
			t.Fatal(err)
		}
		r.Header = headers
		r.Host = r.URL.Host
		return r
	}
	for name, c := range map[string]struct {
		credentials aws.Credentials
		secret      string
		change      func(*http.Request)
		at          time.Time
		want        Reason
	}{
		"as it was":         {at: noon.Add(14 * time.Minute)},
		"a session's":       {credentials: aws.Credentials{SessionToken: "a token"}, at: noon},
		"another secret":    {secret: "other", at: noon, want: Mismatch},
		"another parameter": {change: func(r *http.Request) { r.URL.RawQuery += "&DurationSeconds=900" }, at: noon, want: Mismatch},
		"another header":    {change: func(r *http.Request) { r.Header.Set("X-K8s-Aws-Id", "other") }, at: noon, want: Mismatch},
		"too late":          {at: noon.Add(16 * time.Minute), want: Expired},
		"another algorithm": {change: func(r *http.Request) {
			r.URL.RawQuery = strings.Replace(r.URL.RawQuery, algorithm, "AWS4-ECDSA-P256-SHA256", 1)
		}, at: noon, want: Malformed},
		"no stamp": {change: func(r *http.Request) { r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "X-Amz-Date", "Date", 1) }, at: noon, want: Malformed},
	} {
		c.credentials.AccessKeyID, c.credentials.SecretAccessKey = keyID, secret
		r := presigned(c.credentials)
		if c.change != nil {
			c.change(r)
		}
		if c.secret == "" {
			c.secret = secret
		}
		err := verify(t, r, c.secret, c.at)
		var refused *Error
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &refused) || refused.Reason != c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if c.want == "" {
			if scope, err := Read(r); err != nil || scope.KeyID != keyID || scope.Token != c.credentials.SessionToken || scope.Service != "sts" {
				t.Errorf("%s: scope is %+v, %v", name, scope, err)
			}
		}
	}
}

func TestTamperedRequests(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*http.Request)
		secret string
		now    time.Time
		want   Reason
	}{
		"another secret":     {want: Mismatch, secret: "guessed"},
		"body":               {want: Mismatch, change: func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("Action=TerminateInstances")) }},
		"query":              {want: Mismatch, change: func(r *http.Request) { r.URL.RawQuery = "more=1" }},
		"path":               {want: Mismatch, change: func(r *http.Request) { r.URL.Path = "/else" }},
		"method":             {want: Mismatch, change: func(r *http.Request) { r.Method = http.MethodPut }},
		"host":               {want: Mismatch, change: func(r *http.Request) { r.Host = "elsewhere" }},
		"a token put in":     {want: Mismatch, change: func(r *http.Request) { r.Header.Set("X-Amz-Security-Token", "another") }},
		"an unsigned header": {want: Malformed, change: func(r *http.Request) { r.Header.Set("X-Amz-Target", "x") }},
		"too late":           {want: Expired, now: noon.Add(Skew + time.Second)},
		"too early":          {want: Expired, now: noon.Add(-Skew - time.Second)},
		"no signature":       {want: Missing, change: func(r *http.Request) { r.Header.Del("Authorization") }},
		"a password":         {want: Malformed, change: func(r *http.Request) { r.SetBasicAuth("a", "b") }},
		"no date":            {want: Malformed, change: func(r *http.Request) { r.Header.Del("X-Amz-Date") }},
		"another day's":      {want: Malformed, change: func(r *http.Request) { r.Header.Set("X-Amz-Date", "20260302T120000Z") }},
		"half of it": {want: Malformed, change: func(r *http.Request) {
			r.Header.Set("Authorization", strings.Split(r.Header.Get("Authorization"), ", Signature=")[0])
		}},
	} {
		r := signed(t, http.MethodPost, "https://ec2.example/", "Action=DescribeInstances", nil)
		if c.change != nil {
			c.change(r)
		}
		if c.secret == "" {
			c.secret = secret
		}
		if c.now.IsZero() {
			c.now = noon
		}
		err := verify(t, r, c.secret, c.now)
		var refused *Error
		if !errors.As(err, &refused) || refused.Reason != c.want || refused.Text == "" {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
