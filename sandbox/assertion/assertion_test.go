package assertion

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var now = time.Unix(1_800_000_000, 0)

func token(t *testing.T, key *ecdsa.PrivateKey, claims map[string]any) string {
	t.Helper()
	data, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	body := b64.EncodeToString([]byte(`{"alg":"ES256"}`)) + "." + b64.EncodeToString(data)
	sum := sha256.Sum256([]byte(body))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return body + "." + b64.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func keyFile(t *testing.T, keys ...crypto.PublicKey) string {
	t.Helper()
	var out []byte
	for _, key := range keys {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)
	}
	file := filepath.Join(t.TempDir(), "issuer.pem")
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCheck(t *testing.T) {
	key, stranger := newKey(t), newKey(t)
	file := keyFile(t, newKey(t).Public(), key.Public())
	claims := map[string]any{"iss": "https://issuer", "sub": "a", "aud": []string{"cloud"}, "exp": now.Unix() + 1}
	with := func(name string, value any) map[string]any {
		out := maps.Clone(claims)
		out[name] = value
		return out
	}
	accepted := []Federation{{Issuer: "https://issuer", Subject: "a", KeyFile: file},
		{Issuer: "https://issuer", Subject: "own", Audience: "mine", KeyFile: file},
		{Issuer: "https://issuer", Subject: "lost", KeyFile: file + ".gone"}}
	own := with("sub", "own")
	for name, try := range map[string]struct {
		token string
		want  Reason
	}{
		"good":                               {token(t, key, claims), ""},
		"an audience that is no list":        {token(t, key, with("aud", "cloud")), ""},
		"another's audience":                 {token(t, key, with("aud", "x")), Audience},
		"an own audience is not the cloud's": {token(t, key, own), Audience},
		"over":                               {token(t, key, with("exp", now.Unix())), Expired},
		"another subject":                    {token(t, key, with("sub", "b")), Untrusted},
		"another issuer":                     {token(t, key, with("iss", "b")), Untrusted},
		"a stranger's key":                   {token(t, stranger, claims), Signature},
		"keys that are gone":                 {token(t, key, with("sub", "lost")), Keys},
		"two parts":                          {"a.b", Malformed},
		"no JSON":                            {"a.b.c", Malformed},
		"a signature that is no base64":      {token(t, key, claims) + "!", Signature},
	} {
		_, refused := Check(try.token, accepted, "cloud", now)
		if try.want == "" && refused != nil || try.want != "" && (refused == nil || refused.Reason != try.want || refused.Text == "") {
			t.Errorf("%s: %+v, want %q", name, refused, try.want)
		}
	}
	own["aud"] = "mine"
	if got, refused := Check(token(t, key, own), accepted, "cloud", now); refused != nil || got.Subject != "own" || got.Issuer != "https://issuer" {
		t.Errorf("a token for the federation's own audience: %+v, %+v", got, refused)
	}
}
