package disk

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"text/template"
	"time"

	"golang.org/x/crypto/ssh"
)

// keyPair is a key with a certificate by the disk's authority ("ca").
type keyPair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	ssh         crypto.Signer
}

// functions are the functions for a layout's templates. All randomness of a disk comes from functions.
func (r *renderer) functions() template.FuncMap {
	return template.FuncMap{
		"secret":  randomText,
		"hex":     randomHex,
		"uuid":    randomUUID,
		"raw":     func(n int) string { return string(randomBytes(n)) },
		"base64":  func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"cert":    func(name string) (string, error) { return r.certificate(name) },
		"key":     func(name string) (string, error) { return r.privateKey(name) },
		"sshKey":  func(kind string) (string, error) { return r.sshPrivate(kind) },
		"sshPub":  func(kind string) (string, error) { return r.sshPublic(kind) },
		"rfc3339": func(t time.Time) string { return t.Format(time.RFC3339) },
		"syslog":  func(t time.Time) string { return t.Format(time.Stamp) },
		"dhcp":    func(t time.Time) string { return t.Format("2 2006/01/02 15:04:05") },
	}
}

// pair creates the key pair of a name once per write of a table, so that certificate and key match.
func (r *renderer) pair(name string) (*keyPair, error) {
	if pair := r.keys[name]; pair != nil {
		return pair, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(randomBytes(12)),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             r.facts.Now.Add(-time.Hour),
		NotAfter:              r.facts.Now.AddDate(10, 0, 0),
		IsCA:                  name == "ca",
		BasicConstraintsValid: true,
	}
	parent, signer := template, key
	if name != "ca" {
		ca, err := r.pair("ca")
		if err != nil {
			return nil, err
		}
		parent, signer = ca.certificate, ca.key
	}
	if template.IsCA {
		// A cluster is older than its nodes.
		template.NotBefore = r.facts.Now.AddDate(-1, 0, 0)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	r.keys[name] = &keyPair{certificate: certificate, key: key}
	return r.keys[name], nil
}

func (r *renderer) certificate(name string) (string, error) {
	pair, err := r.pair(name)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.certificate.Raw})), nil
}

func (r *renderer) privateKey(name string) (string, error) {
	pair, err := r.pair(name)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalECPrivateKey(pair.key)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})), nil
}

// sshPair makes an SSH key. RSA is left out, here and in the image's cloud.cfg: it would cost each boot a
// good part of a second of a real processor.
func (r *renderer) sshPair(kind string) (crypto.Signer, error) {
	name := "ssh " + kind
	if pair := r.keys[name]; pair != nil {
		return pair.ssh, nil
	}
	var signer crypto.Signer
	var err error
	switch kind {
	case "ecdsa":
		signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ed25519":
		_, signer, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("no SSH keys of kind %q here", kind)
	}
	if err != nil {
		return nil, err
	}
	r.keys[name] = &keyPair{ssh: signer}
	return signer, nil
}

func (r *renderer) sshPrivate(kind string) (string, error) {
	signer, err := r.sshPair(kind)
	if err != nil {
		return "", err
	}
	block, err := ssh.MarshalPrivateKey(signer, "root@"+r.facts.Hostname)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(block)), nil
}

func (r *renderer) sshPublic(kind string) (string, error) {
	signer, err := r.sshPair(kind)
	if err != nil {
		return "", err
	}
	public, err := ssh.NewPublicKey(signer.Public())
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
	return line + " root@" + r.facts.Hostname + "\n", nil
}

// randomBytes cannot fail: crypto/rand ends the program rather than give bad randomness.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func randomHex(n int) string { return hex.EncodeToString(randomBytes(n)) }

func randomText(n int) string { return base64.RawURLEncoding.EncodeToString(randomBytes(n)) }

func randomUUID() string {
	b := randomBytes(16)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// spaced writes three bytes in hexadecimal as the end of a MAC address.
func spaced(s string) string { return s[:2] + ":" + s[2:4] + ":" + s[4:6] }
