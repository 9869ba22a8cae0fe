//go:build machines

package real

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// prototype is the Prototype of the donor's order.
const (
	prototype    = "machines-2026.11.21"
	prototypeUID = types.UID("5b1f0a44-0000-4000-8000-00000000c10e")

	orderName = "generalize-machines-2026-11-21"
	orderUID  = types.UID("5b1f0a44-0000-4000-8000-0000000c0de4")
	podUID    = "5b1f0a44-0000-4000-8000-0000000c0ded"
)

// apiServer is the part of an API server for kamino-node generalize and for kubelets with a bootstrap token.
// The pod reads one order over HTTPS with its token.
type apiServer struct {
	token, port string
	ca          []byte
	authority   *x509.Certificate
	key         *ecdsa.PrivateKey

	mu     sync.Mutex
	object *v1alpha1.NodeOrder
	signer []byte // the private half of the order's key
	// Tokens of nodes, and joined nodes; see cluster_test.go.
	joinTokens []string
	members    map[string]*member
	serial     int64
}

func serveAPI(t *testing.T, address string) *apiServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, IPAddresses: []net.IP{net.ParseIP(address)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &apiServer{
		token: rand.Text(), port: port(t, listener.Addr().String()),
		ca:        pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		authority: authority, key: key, members: map[string]*member{},
	}
	nodes := x509.NewCertPool()
	nodes.AddCert(authority)
	server := httptest.NewUnstartedServer(s)
	server.Listener.Close()
	server.Listener = listener
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: nodes}
	server.StartTLS()
	t.Cleanup(server.Close)
	return s
}

// order creates an order for a donor in this boot, with a profile.
func (s *apiServer) order(t *testing.T, node string, profile v1alpha1.Profile, bootID string) {
	t.Helper()
	private, public, err := v1alpha1.NewOrderKey()
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signer = private
	s.object = &v1alpha1.NodeOrder{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeOrder"},
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.DefaultNamespace, Name: orderName, UID: orderUID},
		Spec: v1alpha1.NodeOrderSpec{
			Holder: v1alpha1.Holder{Name: prototype, UID: prototypeUID}, NodeName: node, Method: v1alpha1.InPlace, Token: bootID, PodName: orderName,
			Generalize: v1alpha1.GeneralizeSettings{Profile: profile}, Key: public,
		},
	}
}

// proof returns the reported proof, or nil.
func (s *apiServer) proof(t *testing.T) *v1alpha1.Proof {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	report, err := v1alpha1.ReportOf(s.object, v1alpha1.OrderRecord{UID: orderUID, Key: s.object.Spec.Key, Pod: podUID})
	if err != nil {
		t.Fatal(err)
	}
	if report == nil {
		return nil
	}
	return report.Proof
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.URL.Path == csrPath:
		s.sign(w, r)
	case strings.HasPrefix(r.URL.Path, leasePath):
		s.renew(w, r)
	default:
		s.serveOrder(w, r)
	}
}

// serveOrder reads the order and patches its status. The caller holds the lock.
func (s *apiServer) serveOrder(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+s.token {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	path := "/apis/kamino.dev/v1alpha1/namespaces/" + v1alpha1.DefaultNamespace + "/nodeorders/" + orderName
	if r.Method == http.MethodPatch {
		path += "/status"
	}
	if s.object == nil || r.URL.Path != path {
		http.Error(w, "no such object", http.StatusNotFound)
		return
	}
	if r.Method == http.MethodPatch {
		var patch struct {
			Metadata metav1.ObjectMeta
			Status   v1alpha1.NodeOrderStatus
		}
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil || patch.Metadata.UID != s.object.UID {
			http.Error(w, "no patch for this object", http.StatusBadRequest)
			return
		}
		s.object.Status = patch.Status
	}
	w.Header().Set("Content-Type", "application/json")
	// A disconnected client repeats its request.
	_ = json.NewEncoder(w).Encode(s.object)
}
