package site

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

// Servers are where a running sandbox answers, and what a client trusts it by.
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

// Names of the files that clients read.
const (
	KubeconfigFile = "kubeconfig"
	CAFile         = "ca.crt"
	EnvFile        = "env"
	ValuesFile     = "values.yaml"
)

// CloudSecret is the name that the chart's values know the credential's Secret by.
const CloudSecret = "kamino-cloud"

// sharedPorts are the chart's values for pods that are processes of one machine, where no two replicas could listen.
const sharedPorts = `# Replicas share the ports of this machine, so that none may listen. A single one may: --set controller.replicas=1
# --set-json 'extraArgs=[]'
extraArgs: [--health-probe-bind-address=0, --metrics-bind-address=0]
`

// Variable is one environment variable. One without a value is not to be set.
type Variable struct{ Name, Value string }

// file is one that clients read.
type file struct {
	name, content string
	mode          os.FileMode
}

// WriteClientFiles writes everything that a client needs to use the sandbox as it would use a cluster in its cloud. Files that
// hold a secret can be read by their owner only.
func (s *Site) WriteClientFiles(v Servers) error {
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
func (s *Site) LinkPrograms(binary string, names ...string) error {
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

// Environment is what kubectl, Kamino and the cloud's SDK read.
func (s *Site) Environment(v Servers) []Variable {
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
		// A build that was published nowhere names none; whatever is behind the colon, the machines run that very build.
		{"KAMINO_IMAGE", KaminoImage + ":sandbox"},
	}, own...)
}

// KaminoImage is the prefix of the names of Kamino's own image.
const KaminoImage = "ghcr.io/kamino-dev/kamino"

func (s *Site) envFile(v Servers) string {
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

// quote makes any text one word of a POSIX shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// SocketFile names the file that says where a running sandbox listens for orders: the socket itself lies
// elsewhere, since its path must be short.
func SocketFile(dir string) string { return filepath.Join(dir, "control") }

// Client is an HTTP client that trusts the sandbox's servers and nobody else.
func (v Servers) Client() (*http.Client, error) {
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(v.CA) {
		return nil, errors.New("the sandbox's certificate authority has no certificate")
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}}, nil
}
