package azure

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
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

// assertion is the part of a federated token that is looked at.
type assertion struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience any    `json:"aud"`
	Expires  int64  `json:"exp"`
}

// badAssertion is why an assertion is not accepted, in Entra's words.
type badAssertion struct {
	code int
	text string
}

func (b *badAssertion) description() string { return fmt.Sprintf("AADSTS%d: %s", b.code, b.text) }

// checkAssertion accepts a token of a registered issuer and subject with a good signature: nil.
func (s logins) checkAssertion(token string) *badAssertion {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return &badAssertion{50027, "JWT token is invalid or malformed."}
	}
	var a assertion
	var head struct {
		Alg string `json:"alg"`
	}
	if decode(parts[0], &head) != nil || decode(parts[1], &a) != nil {
		return &badAssertion{50027, "JWT token is invalid or malformed."}
	}
	for _, f := range s.config.Federated {
		if f.Issuer != a.Issuer || f.Subject != a.Subject {
			continue
		}
		audience := f.Audience
		if audience == "" {
			audience = "api://AzureADTokenExchange"
		}
		switch {
		case !names(a.Audience, audience):
			return &badAssertion{700212, fmt.Sprintf("No matching federated identity record found for presented assertion audience '%v'.", a.Audience)}
		case time.Now().Unix() >= a.Expires:
			return &badAssertion{700024, "Client assertion is not within its valid time range."}
		}
		return checkSignature(f.KeyFile, head.Alg, parts)
	}
	return &badAssertion{700211, fmt.Sprintf("No matching federated identity record found for presented assertion issuer '%s' and subject '%s'.", a.Issuer, a.Subject)}
}

func decode(part string, into any) error {
	data, err := b64.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// names tells whether an audience claim, a text or a list, holds the wanted one.
func names(claim any, wanted string) bool {
	if l, isList := claim.([]any); isList {
		return slices.Contains(l, any(wanted))
	}
	return claim == wanted
}

// checkSignature tries all keys of the file.
func checkSignature(file, alg string, parts []string) *badAssertion {
	bad := &badAssertion{700027, "The certificate or key used to sign the client assertion is not registered, or the signature is invalid."}
	signature, err := b64.DecodeString(parts[2])
	if err != nil {
		return bad
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return &badAssertion{50166, "The issuer's keys could not be read: " + err.Error()}
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
