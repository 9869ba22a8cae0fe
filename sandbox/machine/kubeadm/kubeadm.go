// Package kubeadm lets a sandbox machine join its cluster like a real machine with `kubeadm join` in its recipe. The
// join checks the disk, finds the cluster with a bootstrap token, and requests a signed certificate. The discovery is
// kubeadm's own code, and the certificate request the kubelet's. So API server, controller manager and authorizers
// see the requests of a real node. Other files of the disk do not matter here.
package kubeadm

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme"
	"k8s.io/kubernetes/cmd/kubeadm/app/discovery/token"
	"k8s.io/kubernetes/cmd/kubeadm/app/preflight"
	"k8s.io/kubernetes/pkg/kubelet/certificate/bootstrap"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// Order holds the arguments of `kubeadm join`.
type Order struct {
	// Server is the API server's host and port.
	Server string
	// Token is a bootstrap token, "id.secret".
	Token string
	// CAHash pins the key of the cluster's authority: "sha256:" and 64 hexadecimal digits.
	CAHash string
	// Taints of the new Node, in the format of the kubelet's flag; empty for none.
	Taints string
}

// Command is the command line in a recipe.
func (o Order) Command() string {
	return fmt.Sprintf("kubeadm join %s --token %s --discovery-token-ca-cert-hash %s", o.Server, o.Token, o.CAHash)
}

var command = regexp.MustCompile(`kubeadm join (\S+) --token (\S+) --discovery-token-ca-cert-hash (\S+)`)

// Find returns the order in a recipe's commands.
func Find(commands string) (Order, error) {
	found := command.FindStringSubmatch(commands)
	if found == nil {
		return Order{}, errors.New("no `kubeadm join SERVER --token TOKEN --discovery-token-ca-cert-hash HASH` is in the recipe's commands")
	}
	return Order{Server: found[1], Token: found[2], CAHash: found[3]}, nil
}

var fileCommand = regexp.MustCompile(`kubeadm join --config (\S+)`)

// Read returns the order in a recipe's commands, for a disk at root. If the commands name a configuration file, as
// Cluster API's do, Read reads the file.
func Read(root, commands string) (Order, error) {
	found := fileCommand.FindStringSubmatch(commands)
	if found == nil {
		return Find(commands)
	}
	text, err := os.ReadFile(filepath.Join(root, filepath.Clean("/"+found[1])))
	if err != nil {
		return Order{}, fmt.Errorf("the configuration of `kubeadm join`: %w", err)
	}
	var config kubeadmapi.JoinConfiguration
	if err := runtime.DecodeInto(scheme.Codecs.UniversalDecoder(), text, &config); err != nil {
		return Order{}, fmt.Errorf("the configuration of `kubeadm join`: %s: %w", found[1], err)
	}
	by := config.Discovery.BootstrapToken
	if by == nil || len(by.CACertHashes) != 1 {
		return Order{}, fmt.Errorf("the configuration of `kubeadm join`: %s: no bootstrap token with one pinned authority", found[1])
	}
	var taints []string
	for _, t := range config.NodeRegistration.Taints {
		taints = append(taints, t.ToString())
	}
	return Order{Server: by.APIServerEndpoint, Token: by.Token, CAHash: by.CACertHashes[0], Taints: strings.Join(taints, ",")}, nil
}

// Hash pins a certificate authority, from its certificate as PEM. Source: kubeadm's reference, token-based discovery
// with CA pinning.
func Hash(certificate []byte) (string, error) {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return "", errors.New("the authority's certificate is no PEM")
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Paths of the node's credential.
const (
	kubeconfigPath = "etc/kubernetes/kubelet.conf"
	bootstrapPath  = "etc/kubernetes/bootstrap-kubelet.conf"
	authorityPath  = "etc/kubernetes/pki/ca.crt"
	pkiDir         = "var/lib/kubelet/pki"
)

// Preflight reports files of an earlier join, in kubeadm's words: such a disk must not join. The checks are those of
// kubeadm for the join of a worker, as far as they read the disk.
func Preflight(root string) error {
	checks, err := preflight.JoinNodeChecks(nil, &kubeadmapi.JoinConfiguration{CACertPath: "/" + authorityPath}, nil)
	if err != nil {
		return err
	}
	var found []string
	for _, check := range checks {
		name := check.Name()
		switch of := check.(type) {
		case preflight.FileAvailableCheck:
			of.Path = filepath.Join(root, of.Path)
			check = of
		case preflight.DirAvailableCheck:
			of.Path = filepath.Join(root, of.Path)
			check = of
		default:
			continue // It would look at the host of the sandbox.
		}
		_, problems := check.Check()
		for _, problem := range problems {
			found = append(found, fmt.Sprintf("[ERROR %s]: %s", name, strings.TrimPrefix(problem.Error(), root)))
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("[preflight] some fatal errors occurred: %s", strings.Join(found, "; "))
	}
	return nil
}

// Patience is how long kubeadm looks for the cluster, of simulated time. Source: timeouts.discovery of kubeadm's
// configuration.
const Patience = 5 * time.Minute

// Join gives the disk at root the credential of a node with this name. Join searches for the cluster for the given
// real time. On an error the disk has no credential.
func Join(ctx context.Context, root, name string, order Order, patience time.Duration) error {
	if err := Preflight(root); err != nil {
		return err
	}
	cluster, err := discover(ctx, order, patience)
	if err != nil {
		return err
	}
	if err := disk.WriteFile(filepath.Join(root, authorityPath), cluster.CertificateAuthorityData, 0o644); err != nil {
		return err
	}
	// The kubelet's code stores the paths of files, so the files get paths on the host here, and paths on the node
	// later.
	err = errors.Join(request(ctx, root, name, order, cluster), os.Remove(filepath.Join(root, bootstrapPath)))
	if err != nil {
		return errors.Join(err, os.RemoveAll(filepath.Join(root, authorityPath)))
	}
	return nil
}

// discover finds the cluster with kubeadm's code. The code takes no context, so after a loss of power, the search
// runs to its end in the background.
func discover(ctx context.Context, order Order, patience time.Duration) (*clientcmdapi.Cluster, error) {
	type answer struct {
		config *clientcmdapi.Config
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		config, err := token.RetrieveValidatedConfigInfo(nil, &kubeadmapi.Discovery{BootstrapToken: &kubeadmapi.BootstrapTokenDiscovery{
			Token: order.Token, APIServerEndpoint: order.Server, CACertHashes: []string{order.CAHash},
		}}, patience)
		done <- answer{config, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case a := <-done:
		if a.err != nil {
			return nil, fmt.Errorf("kubeadm's discovery: %w", a.err)
		}
		for _, cluster := range a.config.Clusters {
			return cluster, nil
		}
		return nil, errors.New("kubeadm's discovery: the cluster's information names no cluster")
	}
}

// request requests a certificate with the kubelet's code, which stores the certificate as on a real node.
func request(ctx context.Context, root, name string, order Order, cluster *clientcmdapi.Cluster) error {
	bootstrapFile, kubeconfig, pki := filepath.Join(root, bootstrapPath), filepath.Join(root, kubeconfigPath), filepath.Join(root, pkiDir)
	if err := os.MkdirAll(pki, 0o755); err != nil {
		return err
	}
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"kubernetes": {
			Server: "https://" + order.Server, CertificateAuthorityData: cluster.CertificateAuthorityData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"tls-bootstrap-token-user": {Token: order.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"tls-bootstrap-token-user@kubernetes": {Cluster: "kubernetes", AuthInfo: "tls-bootstrap-token-user"}},
		CurrentContext: "tls-bootstrap-token-user@kubernetes",
	}, bootstrapFile); err != nil {
		return err
	}
	if err := bootstrap.LoadClientCert(ctx, kubeconfig, bootstrapFile, pki, types.NodeName(name)); err != nil {
		return fmt.Errorf("the kubelet's certificate: %w", err)
	}
	return errors.Join(relink(pki), rename(root, kubeconfig))
}

// relink makes the link to the current certificate relative to the disk.
func relink(pki string) error {
	link := filepath.Join(pki, "kubelet-client-current.pem")
	target, err := os.Readlink(link)
	if err != nil {
		return err
	}
	return errors.Join(os.Remove(link), os.Symlink(filepath.Base(target), link))
}

// rename converts the paths in a kubeconfig to paths on the node.
func rename(root, kubeconfig string) error {
	content, err := os.ReadFile(kubeconfig)
	if err != nil {
		return err
	}
	return disk.WriteFile(kubeconfig, []byte(strings.ReplaceAll(string(content), root+"/", "/")), 0o600)
}

// Config is the client configuration of the kubelet on a joined machine.
func Config(root string) (*rest.Config, error) {
	loaded, err := clientcmd.LoadFromFile(filepath.Join(root, kubeconfigPath))
	if err != nil {
		return nil, err
	}
	for _, user := range loaded.AuthInfos {
		for _, path := range []*string{&user.ClientCertificate, &user.ClientKey} {
			if *path != "" {
				*path = filepath.Join(root, *path)
			}
		}
	}
	for _, cluster := range loaded.Clusters {
		if path := cluster.CertificateAuthority; path != "" {
			cluster.CertificateAuthority = filepath.Join(root, path)
		}
	}
	config, err := clientcmd.NewDefaultClientConfig(*loaded, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	// As the kubelet's own defaults.
	config.QPS, config.Burst = 50, 100
	return config, nil
}
