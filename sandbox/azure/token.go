package azure

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/simulator"
)

// principal is the caller of a request.
type principal struct {
	ClientID string
	ObjectID string
}

// signer makes and checks access tokens. Its key outlives a restart, and so do the tokens.
type signer struct{ key []byte }

func openSigner(dir string) (*signer, error) {
	name := filepath.Join(dir, "azure-token.key")
	key, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		err = simulator.ReplaceFile(name, key)
	}
	if err != nil {
		return nil, fmt.Errorf("azure simulator: key of the tokens: %w", err)
	}
	return &signer{key}, nil
}

// claims are the checked claims of an access token.
type claims struct {
	Audience string `json:"aud"`
	Issuer   string `json:"iss"`
	Issued   int64  `json:"iat"`
	NotFrom  int64  `json:"nbf"`
	Expires  int64  `json:"exp"`
	ClientID string `json:"appid"`
	ObjectID string `json:"oid"`
	Subject  string `json:"sub"`
	Tenant   string `json:"tid"`
	Version  string `json:"ver"`
}

var b64 = base64.RawURLEncoding

func (s *signer) sign(c claims) string {
	head := b64.EncodeToString([]byte(`{"typ":"JWT","alg":"HS256"}`))
	data, _ := json.Marshal(c) // strings and numbers only
	body := head + "." + b64.EncodeToString(data)
	return body + "." + b64.EncodeToString(s.mac(body))
}

func (s *signer) mac(body string) []byte {
	m := hmac.New(sha256.New, s.key)
	m.Write([]byte(body))
	return m.Sum(nil)
}

// verify reads the claims of a token from this signer.
func (s *signer) verify(token string) (claims, bool) {
	var c claims
	end := strings.LastIndex(token, ".")
	if end < 0 {
		return c, false
	}
	mac, err := b64.DecodeString(token[end+1:])
	if err != nil || !hmac.Equal(mac, s.mac(token[:end])) {
		return c, false
	}
	_, payload, _ := strings.Cut(token[:end], ".")
	data, err := b64.DecodeString(payload)
	if err != nil || json.Unmarshal(data, &c) != nil {
		return c, false
	}
	return c, true
}

// issue makes an access token for a principal.
func (s logins) issue(clientID, audience, host string) (token string, expires time.Time) {
	now := time.Now()
	expires = now.Add(s.config.TokenLifetime)
	who := principalOf(clientID)
	return s.signer.sign(claims{Audience: audience, Issuer: "https://" + host + "/" + s.config.TenantID + "/", Issued: now.Unix(),
		NotFrom: now.Unix(), Expires: expires.Unix(), ClientID: who.ClientID, ObjectID: who.ObjectID, Subject: who.ObjectID,
		Tenant: s.config.TenantID, Version: "1.0"}), expires
}

func principalOf(clientID string) principal {
	return principal{ClientID: clientID, ObjectID: uuidOf("object " + clientID)}
}

// authenticate checks the bearer token of an ARM request.
func (s logins) authenticate(r *http.Request) (principal, *problem) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return principal{}, unauthorized("AuthenticationFailed", "Authentication failed. The 'Authorization' header is missing.")
	}
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return principal{}, unauthorized("AuthenticationFailedInvalidHeader",
			"Authentication failed. The 'Authorization' header is provided in an invalid format.")
	}
	c, valid := s.signer.verify(strings.TrimSpace(token))
	if !valid {
		return principal{}, unauthorized("InvalidAuthenticationToken", "The access token is invalid.")
	}
	if now := time.Now(); now.Unix() >= c.Expires {
		return principal{}, unauthorized("ExpiredAuthenticationToken", fmt.Sprintf(
			"The access token expiry UTC time '%s' is earlier than current UTC time '%s'.",
			time.Unix(c.Expires, 0).UTC().Format(time.DateTime), now.UTC().Format(time.DateTime)))
	}
	return principal{ClientID: c.ClientID, ObjectID: c.ObjectID}, nil
}

func unauthorized(code, message string) *problem {
	p := refuse(http.StatusUnauthorized, code, "%s", message)
	p.header = http.Header{"Www-Authenticate": {fmt.Sprintf(`Bearer error="invalid_token", error_description="%s"`, message)}}
	return p
}
