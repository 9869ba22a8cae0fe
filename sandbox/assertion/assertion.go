// Package assertion checks foreign tokens that a simulated cloud accepts in place of a secret: JSON Web Tokens of a
// known issuer and subject, such as a cluster's service accounts. The package issues no tokens.
package assertion

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash"
	"math/big"
	"os"
	"slices"
	"strings"
	"time"
)

// Federation names the accepted issuer and subject.
type Federation struct {
	Issuer  string
	Subject string
	// Audience of the token; empty means the cloud's default.
	Audience string
	// KeyFile holds the issuer's public keys (PEM, RSA or ECDSA). It is read at every use, since issuers
	// rotate keys.
	KeyFile string
}

// Claims are the checked claims of a token.
type Claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience any    `json:"aud"`
	Expires  int64  `json:"exp"`
}

// Reason is why a token is not accepted.
type Reason string

const (
	Malformed Reason = "Malformed"
	Untrusted Reason = "Untrusted" // another issuer or subject
	Audience  Reason = "Audience"
	Expired   Reason = "Expired"
	Signature Reason = "Signature"
	Keys      Reason = "Keys" // the issuer's keys could not be read
)

// Refusal says why a token is not accepted.
type Refusal struct {
	Reason Reason
	Text   string
}

var b64 = base64.RawURLEncoding

// Check accepts a signed token of one of these issuers and subjects. The audience of the federation overrides the
// argument. Check also returns the readable claims of a refused token.
func Check(token string, accepted []Federation, audience string, now time.Time) (Claims, *Refusal) {
	parts := strings.Split(token, ".")
	var c Claims
	var head struct {
		Alg string `json:"alg"`
	}
	if len(parts) != 3 || decode(parts[0], &head) != nil || decode(parts[1], &c) != nil {
		return Claims{}, &Refusal{Malformed, "JWT token is invalid or malformed."}
	}
	for _, f := range accepted {
		if f.Issuer != c.Issuer || f.Subject != c.Subject {
			continue
		}
		if f.Audience != "" {
			audience = f.Audience
		}
		switch {
		case !names(c.Audience, audience):
			return c, &Refusal{Audience, fmt.Sprintf("The token's audience is '%v', not '%s'.", c.Audience, audience)}
		case now.Unix() >= c.Expires:
			return c, &Refusal{Expired, "The token has expired."}
		}
		return c, checkSignature(f.KeyFile, head.Alg, parts)
	}
	return c, &Refusal{Untrusted, fmt.Sprintf("No token of issuer '%s' for subject '%s' is accepted.", c.Issuer, c.Subject)}
}
func decode(part string, into any) error {
	data, err := b64.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// names: an audience claim, a text or a list, contains the wanted audience.
func names(claim any, wanted string) bool {
	if l, isList := claim.([]any); isList {
		return slices.Contains(l, any(wanted))
	}
	return claim == wanted
}

// checkSignature tries all keys of the file.
func checkSignature(file, alg string, parts []string) *Refusal {
	bad := &Refusal{Signature, "The token's signature is invalid."}
	signature, err := b64.DecodeString(parts[2])
	if err != nil {
		return bad
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return &Refusal{Keys, "The issuer's keys could not be read: " + err.Error()}
	}
	h, sum := digest(alg, parts[0]+"."+parts[1])
	for len(data) > 0 {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if verifies(publicKey(block), h, sum, signature) {
			return nil
		}
	}
	return bad
}

func digest(alg, text string) (crypto.Hash, []byte) {
	var h hash.Hash
	kind := crypto.SHA256
	switch strings.TrimLeft(alg, "RES") {
	case "384":
		kind, h = crypto.SHA384, sha512.New384()
	case "512":
		kind, h = crypto.SHA512, sha512.New()
	default:
		h = sha256.New()
	}
	h.Write([]byte(text))
	return kind, h.Sum(nil)
}

func publicKey(block *pem.Block) any {
	if key, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
		return key
	}
	if key, err := x509.ParsePKCS1PublicKey(block.Bytes); err == nil {
		return key
	}
	if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
		return cert.PublicKey
	}
	return nil
}

func verifies(key any, h crypto.Hash, sum, signature []byte) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, h, sum, signature) == nil
	case *ecdsa.PublicKey:
		half := len(signature) / 2
		return ecdsa.Verify(k, sum, new(big.Int).SetBytes(signature[:half]), new(big.Int).SetBytes(signature[half:]))
	default:
		return false
	}
}
