// Package sigv4 verifies requests with AWS Signature Version 4, by the published algorithm ("Signature Version 4
// signing process"): canonical request, string to sign, derived key. The caller knows principals and passes the
// secret of a key ID.
package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	algorithm = "AWS4-HMAC-SHA256"
	stampForm = "20060102T150405Z"
	// Skew is how far a request's stamp may be from the server's clock.
	Skew = 15 * time.Minute
)

// Scope holds the fields of a signature before verification.
type Scope struct {
	KeyID, Day, Region, Service string
	// Headers that are signed, in lower case, in the given order.
	Headers []string
	// Token of a session that came along; empty for a user's own key.
	Token     string
	Stamp     time.Time
	signature string
	// presigned: the signature is in the query, so every holder of the address can send the request.
	presigned bool
}

// Reason is why a request is not accepted.
type Reason string

const (
	Missing   Reason = "Missing"   // no signature
	Malformed Reason = "Malformed" // unreadable, or without a required header
	Expired   Reason = "Expired"   // the timestamp is too far from the clock
	Mismatch  Reason = "Mismatch"  // another secret, or another request
)

// Error says why a request is not accepted.
type Error struct {
	Reason Reason
	Text   string
}

func (e *Error) Error() string { return e.Text }

func refuse(reason Reason, format string, args ...any) error {
	return &Error{reason, fmt.Sprintf(format, args...)}
}

// Read reads the fields of a signature from the Authorization header or from the query.
func Read(r *http.Request) (Scope, error) {
	if query := r.URL.Query(); query.Has(inQuery + "Signature") {
		s, err := parseScope(query.Get, func(field string) string { return query.Get(inQuery + field) })
		s.presigned = true
		if err == nil && query.Get(inQuery+"Algorithm") != algorithm {
			err = refuse(Malformed, "Unsupported AWS 'algorithm' in the query: %q.", query.Get(inQuery+"Algorithm"))
		}
		if err != nil {
			return s, err
		}
		return s, s.covers(r)
	}
	header := r.Header.Get("Authorization")
	if header == "" {
		return Scope{}, refuse(Missing, "Request is missing Authentication Token")
	}
	rest, ok := strings.CutPrefix(header, algorithm+" ")
	if !ok {
		return Scope{}, refuse(Malformed, "Unsupported AWS 'algorithm' in the Authorization header: %q.", strings.SplitN(header, " ", 2)[0])
	}
	fields := map[string]string{}
	for field := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[name] = value
	}
	s, err := parseScope(r.Header.Get, func(field string) string { return fields[field] })
	if err != nil {
		return s, err
	}
	return s, s.covers(r)
}

// inQuery is the prefix of the parameters of a presigned request.
const inQuery = "X-Amz-"

// parseScope reads a signature from its fields, with the timestamp and the token next to the fields.
func parseScope(beside, fields func(string) string) (Scope, error) {
	parts := strings.Split(fields("Credential"), "/")
	if len(parts) != 5 || parts[4] != "aws4_request" || fields("Signature") == "" || fields("SignedHeaders") == "" {
		return Scope{}, refuse(Malformed, "Authorization header requires 'Credential', 'Signature' and 'SignedHeaders' parameters.")
	}
	stamp, err := time.Parse(stampForm, beside("X-Amz-Date"))
	if err != nil {
		return Scope{}, refuse(Malformed, "Authorization header requires existence of a 'X-Amz-Date' header of the form %s.", stampForm)
	}
	s := Scope{KeyID: parts[0], Day: parts[1], Region: parts[2], Service: parts[3], Headers: strings.Split(fields("SignedHeaders"), ";"),
		Token: beside("X-Amz-Security-Token"), Stamp: stamp, signature: fields("Signature")}
	if s.Day != stamp.Format("20060102") {
		return Scope{}, refuse(Malformed, "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '%s' != '%s'.",
			s.Day, stamp.Format("20060102"))
	}
	return s, nil
}

// covers checks that the signature covers the essential headers of the request.
func (s Scope) covers(r *http.Request) error {
	must := []string{"host"}
	if !s.presigned {
		must = append(must, "x-amz-date")
	}
	for name := range r.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-amz-") {
			must = append(must, lower)
		}
	}
	for _, name := range must {
		if !slices.Contains(s.Headers, name) {
			return refuse(Malformed, "'%s' must be a 'SignedHeader' in the AWS Authorization.", name)
		}
	}
	return nil
}

// Verify checks the signature of a request with this body, for the secret of its key and the given time.
func (s Scope) Verify(r *http.Request, body []byte, secret string, now time.Time) error {
	if d := now.Sub(s.Stamp); d > Skew || d < -Skew {
		return refuse(Expired, "Signature expired: %s is now %s from %s (%s).",
			s.Stamp.Format(stampForm), d.Round(time.Second), now.UTC().Format(stampForm), Skew)
	}
	text := strings.Join([]string{algorithm, s.Stamp.Format(stampForm), s.scope(), digest([]byte(s.canonical(r, body)))}, "\n")
	want := hex.EncodeToString(mac(s.key(secret), text))
	if !hmac.Equal([]byte(want), []byte(s.signature)) {
		return refuse(Mismatch,
			"The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. "+
				"Consult the service documentation for details.")
	}
	return nil
}

func (s Scope) scope() string {
	return strings.Join([]string{s.Day, s.Region, s.Service, "aws4_request"}, "/")
}

// key is the derived secret for a day, a region and a service.
func (s Scope) key(secret string) []byte {
	key := []byte("AWS4" + secret)
	for _, part := range []string{s.Day, s.Region, s.Service, "aws4_request"} {
		key = mac(key, part)
	}
	return key
}

// canonical is the canonical request, which both sides sign.
func (s Scope) canonical(r *http.Request, body []byte) string {
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	lines := []string{r.Method, escape(path, true), canonicalQuery(s.signed(r.URL.Query()))}
	for _, name := range s.Headers {
		lines = append(lines, name+":"+headerValue(r, name))
	}
	return strings.Join(append(lines, "", strings.Join(s.Headers, ";"), digest(body)), "\n")
}

// signed is the query without the signature.
func (s Scope) signed(query url.Values) url.Values {
	if s.presigned {
		query.Del(inQuery + "Signature")
	}
	return query
}

func headerValue(r *http.Request, name string) string {
	switch name {
	case "host":
		return r.Host
	case "content-length":
		return fmt.Sprint(r.ContentLength)
	}
	var values []string
	for _, v := range r.Header.Values(name) {
		values = append(values, strings.Join(strings.Fields(v), " "))
	}
	return strings.Join(values, ",")
}

func canonicalQuery(query url.Values) string {
	var pairs []string
	for name, values := range query {
		for _, value := range values {
			pairs = append(pairs, escape(name, false)+"="+escape(value, false))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// escape encodes all but RFC 3986's unreserved characters.
func escape(text string, keepSlash bool) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		if 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z' || '0' <= b && b <= '9' || strings.IndexByte("-._~", b) >= 0 || b == '/' && keepSlash {
			out.WriteByte(b)
		} else {
			fmt.Fprintf(&out, "%%%02X", b)
		}
	}
	return out.String()
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
