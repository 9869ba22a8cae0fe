// Package authority is the sandbox's certificate authority. The authority signs the certificates of all servers (API
// server, simulated cloud) and of the API server's clients. The directory keeps certificates, so that clients trust a
// restarted sandbox. The package grants no rights.
package authority

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// lifetime of all certificates. An older sandbox needs a new directory.
const lifetime = 10 * 365 * 24 * time.Hour

// renewBefore is how much of its life a kept certificate must still have to be used again.
const renewBefore = 30 * 24 * time.Hour

// Authority issues certificates, and stores them with its key in a directory (0700, files 0600).
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair names the files of a certificate and its key.
type Pair struct {
	CertFile, KeyFile string
}

// Subject is the subject of a certificate.
type Subject struct {
	// Name is the common name: a user's name to the API server.
	Name string
	// Groups are the organizations: a user's groups to the API server.
	Groups []string
	// Hosts are the DNS names and addresses that a server answers under; a client has none.
	Hosts []string
}

// Open reads the authority in dir, or creates a new authority there.
func Open(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	a := &Authority{dir: dir}
	cert, key, err := a.readPair(a.pair("ca"))
	switch {
	case err == nil:
		a.cert, a.key = cert, key
		return a, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("cannot read the certificate authority in %s: use another directory, or delete the directory: %w", dir, err)
	}
	return a, a.found()
}

func (a *Authority) found() error {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "kamino-sandbox"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign,
	}
	cert, key, err := a.sign(a.pair("ca"), template, nil, nil)
	a.cert, a.key = cert, key
	return err
}

// CertFile is the authority's own certificate, for clients that want a file (SSL_CERT_FILE).
func (a *Authority) CertFile() string { return a.pair("ca").CertFile }

// KeyFile is the authority's private key, for the controller that signs kubelets' requests.
func (a *Authority) KeyFile() string { return a.pair("ca").KeyFile }

// CertPEM is the authority's own certificate.
func (a *Authority) CertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Issue returns the stored certificate of a file name. Issue creates a new certificate if none exists, or if the
// stored one has another authority or subject, or expires soon.
func (a *Authority) Issue(file string, s Subject) (Pair, error) {
	pair := a.pair(file)
	if cert, _, err := a.readPair(pair); err == nil && a.stillGood(cert, s) {
		return pair, nil
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: s.Name, Organization: s.Groups},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(s.Hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, host := range s.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if _, _, err := a.sign(pair, template, a.cert, a.key); err != nil {
		return Pair{}, fmt.Errorf("certificate %s: %w", file, err)
	}
	return pair, nil
}

// SigningKey returns the file of a private key without a certificate, made on the first call: the key that
// signs service account tokens.
func (a *Authority) SigningKey(file string) (string, error) {
	path := a.pair(file).KeyFile
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	return path, writeKey(path, key)
}

func (a *Authority) stillGood(cert *x509.Certificate, s Subject) bool {
	hosts := append([]string{}, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	want := slices.Clone(s.Hosts)
	slices.Sort(hosts)
	slices.Sort(want)
	return cert.CheckSignatureFrom(a.cert) == nil &&
		cert.Subject.CommonName == s.Name &&
		slices.Equal(cert.Subject.Organization, s.Groups) &&
		slices.Equal(hosts, want) &&
		time.Until(cert.NotAfter) > renewBefore
}

func (a *Authority) pair(file string) Pair {
	return Pair{CertFile: filepath.Join(a.dir, file+".crt"), KeyFile: filepath.Join(a.dir, file+".key")}
}

// sign creates a key, signs a certificate with the parent (self-signed if nil) and writes both files, the key first.
// A certificate without a key would stop the next start. A key without a certificate is replaced.
func (a *Authority) sign(pair Pair, template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial
	// Allow an hour for clients with slow clocks.
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(lifetime)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	if err := writeKey(pair.KeyFile, key); err != nil {
		return nil, nil, err
	}
	return cert, key, write(pair.CertFile, "CERTIFICATE", der)
}

func (a *Authority) readPair(pair Pair) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certDER, err := readPEM(pair.CertFile)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := readPEM(pair.KeyFile)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", pair.CertFile, err)
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", pair.KeyFile, err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, nil, fmt.Errorf("%s is not the key of %s", pair.KeyFile, pair.CertFile)
	}
	return cert, key, nil
}

func readPEM(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", path)
	}
	return block.Bytes, nil
}

// writeKey writes SEC 1 instead of PKCS 8: the API server derives the public half of a service account key only from
// SEC 1.
func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return write(path, "EC PRIVATE KEY", der)
}

// write replaces a file atomically: a killed start leaves the old file or the new file.
func write(path, kind string, der []byte) error {
	var content bytes.Buffer
	if err := pem.Encode(&content, &pem.Block{Type: kind, Bytes: der}); err != nil {
		return err
	}
	fresh := path + ".new"
	if err := os.WriteFile(fresh, content.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}
