package sandboxdir

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/pool"
)

// Servers are the addresses of a running sandbox, and its certificate authority.
type Servers struct {
	// Cloud is the address of the simulated cloud, such as "https://127.0.0.1:41000".
	Cloud string
	// Identity is where managed identities get their tokens, without TLS as on a real machine.
	Identity string
	// CA is the PEM text of the authority that vouches for all servers.
	CA []byte
	// Kubeconfig of the administrator.
	Kubeconfig []byte
}

// Names of the files for clients.
const (
	KubeconfigFile = "kubeconfig"
	CAFile         = "ca.crt"
	EnvFile        = "env"
	ValuesFile     = "values.yaml"
)

// CloudSecret is the name that the chart's values know the credential's Secret by.
const CloudSecret = "kamino-cloud"

// sharedPorts are the chart's values for pods that are processes on one machine: two replicas cannot listen on the
// same port.
const sharedPorts = `# Replicas share the ports of this machine, so that none may listen. A single one may: --set controller.replicas=1
# --set-json 'extraArgs=[]'
extraArgs: [--health-probe-bind-address=0, --metrics-bind-address=0]
`

// Variable is an environment variable. An empty value means unset.
type Variable struct{ Name, Value string }

// file is a file for clients.
type file struct {
	name, content string
	mode          os.FileMode
}

// WriteClientFiles writes all files that a client needs to use the sandbox like a cluster in its cloud. Only the
// owner can read files with secrets.
func (s *Directory) WriteClientFiles(v Servers) error {
	files := []file{
		{KubeconfigFile, string(v.Kubeconfig), 0o600},
		{CAFile, string(v.CA), 0o644},
		{EnvFile, s.envFile(v), 0o600},
	}
	if s.Cloud == pool.Azure {
		more, err := s.azureFiles(v)
		if err != nil {
			return err
		}
		files = append(files, more...)
	}
	if s.Cloud == pool.AWS {
		files = append(files, s.awsFiles(v)...)
	}
	for _, f := range files {
		if err := s.write(f.name, f.content, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// LinkPrograms makes the binary callable as kubectl, and under its own name, from the directory's bin.
func (s *Directory) LinkPrograms(binary string, names ...string) error {
	if err := os.MkdirAll(s.Path("bin"), 0o755); err != nil {
		return err
	}
	for _, name := range names {
		link := s.Path("bin", name)
		if now, err := os.Readlink(link); err == nil && now == binary {
			continue
		}
		if err := os.RemoveAll(link); err != nil {
			return err
		}
		if err := os.Symlink(binary, link); err != nil {
			return err
		}
	}
	return nil
}

// Environment holds the variables for kubectl, Kamino and the cloud's SDK.
func (s *Directory) Environment(v Servers) []Variable {
	own := s.azureEnvironment(v)
	if s.Cloud == pool.AWS {
		own = s.awsEnvironment(v)
	}
	if s.ClusterAPI {
		own = append(own, Variable{"KAMINO_MANAGEMENT_KUBECONFIG", s.Path(KubeconfigFile)})
	}
	return append([]Variable{
		{"KUBECONFIG", s.Path(KubeconfigFile)},
		{"KAMINO_SANDBOX_DIR", s.Dir},
		// An unpublished build names no image. The tag does not matter: machines run this build.
		{"KAMINO_IMAGE", NodeImage + ":sandbox"},
	}, own...)
}

// Prefixes of the names of Kamino's own images: KaminoImage of the control plane, and NodeImage of the pods on nodes.
const (
	KaminoImage = "ghcr.io/kamino-dev/kamino"
	NodeImage   = "ghcr.io/kamino-dev/kamino-node"
)

func (s *Directory) envFile(v Servers) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Variables for kamino, kubectl and the cloud's SDK:  . %s\n", quote(s.Path(EnvFile)))
	for _, e := range s.Environment(v) {
		if e.Value == "" {
			fmt.Fprintf(&b, "unset %s\n", e.Name)
			continue
		}
		fmt.Fprintf(&b, "export %s=%s\n", e.Name, quote(e.Value))
	}
	fmt.Fprintf(&b, "case \":$PATH:\" in *:%s:*) ;; *) export PATH=%s:\"$PATH\" ;; esac\n", quote(s.Path("bin")), quote(s.Path("bin")))
	return b.String()
}

func document(value any) (string, error) {
	raw, err := json.MarshalIndent(value, "", "  ")
	return string(raw) + "\n", err
}

// quote makes a text a single word of a POSIX shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// SocketFile is the file with the path of the control socket. The socket is elsewhere, because its path must be
// short.
func SocketFile(dir string) string { return filepath.Join(dir, "control") }

// Client is an HTTP client that trusts only the sandbox's servers.
func (v Servers) Client() (*http.Client, error) {
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(v.CA) {
		return nil, errors.New("the sandbox's certificate authority has no certificate")
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}}, nil
}
