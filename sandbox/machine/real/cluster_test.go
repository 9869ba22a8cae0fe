//go:build machines

package real

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Paths of the API that kubeadm's kubelets use.
const (
	csrPath   = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	leasePath = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"
)

// member is the API server's record of a node name.
type member struct {
	// Keys are hashes of the public keys in issued certificates, one per join.
	Keys []string
	// Renewed counts heartbeats under this name with the node's own credential.
	Renewed int
	// Foreign are the names on refused credentials, which belong to other nodes.
	Foreign []string
}

// joinToken creates a bootstrap token, as Cluster API does for each machine.
func (s *apiServer) joinToken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	token := strings.ToLower(rand.Text()[:6] + "." + rand.Text()[:16])
	s.joinTokens = append(s.joinTokens, token)
	return token
}

// member returns the record of a node.
func (s *apiServer) member(name string) member {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members[name]; m != nil {
		return *m
	}
	return member{}
}

// known returns the entry of a node; the lock is held.
func (s *apiServer) known(name string) *member {
	if s.members[name] == nil {
		s.members[name] = &member{}
	}
	return s.members[name]
}

// sign issues a node's certificate for a bootstrap token. The caller holds the lock. Requests and responses are PEM
// instead of objects, because only the ownership of credentials matters here.
func (s *apiServer) sign(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	valid := false
	for _, given := range s.joinTokens {
		valid = valid || token == given
	}
	if !valid {
		http.Error(w, "no such bootstrap token", http.StatusUnauthorized)
		return
	}
	certificate, name, err := s.certify(io.LimitReader(r.Body, 1<<16))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.known(name.node).Keys = append(s.known(name.node).Keys, name.key)
	_, _ = w.Write(certificate) // A disconnected node repeats its request.
}

type certified struct{ node, key string }

func (s *apiServer) certify(body io.Reader) ([]byte, certified, error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, certified{}, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, certified{}, fmt.Errorf("no certificate request")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, certified{}, err
	}
	node, found := strings.CutPrefix(request.Subject.CommonName, "system:node:")
	if !found || request.CheckSignature() != nil {
		return nil, certified{}, fmt.Errorf("%s is no node's name", request.Subject.CommonName)
	}
	s.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(s.serial), Subject: request.Subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, s.authority, request.PublicKey, s.key)
	sum := sha256.Sum256(request.RawSubjectPublicKeyInfo)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), certified{node, hex.EncodeToString(sum[:])}, err
}

// renew accepts a heartbeat like the node authorizer: each node renews only the Lease of its own name. The caller
// holds the lock.
func (s *apiServer) renew(w http.ResponseWriter, r *http.Request) {
	node := strings.TrimPrefix(r.URL.Path, leasePath)
	if len(r.TLS.PeerCertificates) == 0 {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	owner := strings.TrimPrefix(r.TLS.PeerCertificates[0].Subject.CommonName, "system:node:")
	if owner != node {
		s.known(node).Foreign = append(s.known(node).Foreign, owner)
		http.Error(w, fmt.Sprintf("node %q must not renew the lease of %q", owner, node), http.StatusForbidden)
		return
	}
	s.known(node).Renewed++
}

// awaitMember waits until a node has joined and lives.
func (l *lab) awaitMember(t *testing.T, name string) member {
	t.Helper()
	await(t, name+" to join and to send heartbeats of its own", func() bool { return l.api.member(name).Renewed > 1 })
	return l.api.member(name)
}

// awaitHeartbeat waits until a kubelet has sent a heartbeat under a node's name, with any credential. For systemd the kubelet runs
// before its first one.
func (l *lab) awaitHeartbeat(t *testing.T, name string) {
	t.Helper()
	await(t, "the kubelet of "+name+" to send a heartbeat", func() bool {
		m := l.api.member(name)
		return m.Renewed > 0 || len(m.Foreign) > 0
	})
}
