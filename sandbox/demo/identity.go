package demo

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// identity holds the values that must differ between machines, read from the disk.
type identity struct {
	machineID, hostname string
	// hostKey is the fingerprint of the ssh host key, in the format of `ssh-keygen -l`.
	hostKey string
	// serving is a digest of the kubelet's serving certificate.
	serving string
	// credential is a digest of the kubelet's client certificate, if the node has one.
	credential string
	// vmID is cloud-init's instance ID.
	vmID string
}

// credential is the client certificate of a node that joined with a certificate of its own.
const credential = "var/lib/kubelet/pki/kubelet-client-current.pem"

// identify reads a disk. Everything must be there: two machines without an identity are no better than two
// with the same.
func identify(root string) (identity, error) {
	var id identity
	fields := map[string]*string{
		"etc/machine-id":                   &id.machineID,
		"etc/hostname":                     &id.hostname,
		"etc/ssh/ssh_host_ed25519_key.pub": &id.hostKey,
		"var/lib/cloud/data/instance-id":   &id.vmID,
	}
	switch profile, _ := disk.Joined(root); profile {
	case disk.Bootstrap:
		fields[credential], fields["var/lib/kubelet/pki/kubelet.crt"] = &id.credential, &id.serving
	case disk.EKS:
		fields["var/lib/kubelet/pki/kubelet-server-current.pem"] = &id.serving
	case disk.Static:
		fields["etc/kubernetes/certs/kubeletserver.crt"] = &id.serving
	}
	for path, field := range fields {
		raw, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return identity{}, err
		}
		if *field = strings.TrimSpace(string(raw)); *field == "" {
			return identity{}, fmt.Errorf("%s of %s is empty", path, root)
		}
	}
	for _, field := range []*string{&id.serving, &id.credential} {
		if *field != "" {
			sum := sha256.Sum256([]byte(*field))
			*field = hex.EncodeToString(sum[:8])
		}
	}
	var err error
	id.hostKey, err = fingerprint(id.hostKey)
	return id, err
}

// fingerprint of a public key in the form of OpenSSH.
func fingerprint(line string) (string, error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return "", fmt.Errorf("not an OpenSSH public key: %q", line)
	}
	key, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil {
		return "", fmt.Errorf("not an OpenSSH public key: %w", err)
	}
	sum := sha256.Sum256(key)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:]), nil
}

// shared lists the equal values of two identities; nil if all values differ.
func (id identity) shared(other identity) []string {
	var out []string
	for _, pair := range []struct{ what, a, b string }{
		{"machine-id", id.machineID, other.machineID},
		{"host name", id.hostname, other.hostname},
		{"ssh host key", id.hostKey, other.hostKey},
		{"kubelet's serving certificate", id.serving, other.serving},
		{"credential", id.credential, other.credential},
		{"instance ID of cloud-init", id.vmID, other.vmID},
	} {
		if pair.a == pair.b && pair.a != "" {
			out = append(out, pair.what)
		}
	}
	return out
}
