// Package nodeadm lets a sandbox machine join its cluster like an EKS node with Amazon Linux 2023. At every boot,
// nodeadm reads the instance's metadata and the cluster's data, and writes the kubelet's settings. The kubelet has no
// credential except the role of its instance (Token, Authenticator). Metadata and signatures use the SDK. The files
// and paths are those of awslabs/amazon-eks-ami. Other files of the disk do not matter here.
package nodeadm

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// Cluster is the data of the cluster in the node's configuration.
type Cluster struct {
	Name string `json:"name"`
	// Endpoint is the API server's URL.
	Endpoint string `json:"apiServerEndpoint"`
	// Authority is the certificate of the cluster's authority, as PEM.
	Authority []byte `json:"certificateAuthority"`
	CIDR      string `json:"cidr"`
}

// nodeConfig is a document of nodeadm's. Source: nodeadm/api/v1alpha1/nodeconfig_types.go.
type nodeConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Cluster Cluster `json:"cluster"`
		// Kubelet has settings beside nodeadm's own.
		Kubelet kubeletSettings `json:"kubelet,omitzero"`
	} `json:"spec"`
}

// kubeletSettings are fields of the kubelet's configuration, and flags behind nodeadm's.
type kubeletSettings struct {
	Config map[string]any `json:"config,omitempty"`
	Flags  []string       `json:"flags,omitempty"`
}

const boundary = "//"

// UserData of the cluster's nodes: a multipart document, of which cloud-init knows no part.
func (c Cluster) UserData() (string, error) {
	version, _ := strings.CutPrefix(disk.NodeConfig, "apiVersion: ")
	config := nodeConfig{APIVersion: version, Kind: "NodeConfig"}
	config.Spec.Cluster = c
	text, err := yaml.Marshal(config)
	if err != nil {
		return "", err
	}
	return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"" + boundary + "\"\n\n--" + boundary +
		"\nContent-Type: application/node.eks.aws\n\n---\n" + string(text) + "\n--" + boundary + "--\n", nil
}

// clusterIn finds the cluster's data in a user data.
func clusterIn(userData string) (Cluster, error) {
	config, err := configIn(userData)
	return config.Spec.Cluster, err
}

// configIn finds the NodeConfig in a user data.
func configIn(userData string) (nodeConfig, error) {
	for part := range strings.SplitSeq(userData, "--"+boundary) {
		_, text, found := strings.Cut(part, "Content-Type: application/node.eks.aws\n")
		if !found {
			continue
		}
		var config nodeConfig
		if err := yaml.Unmarshal([]byte(text), &config); err != nil {
			return nodeConfig{}, fmt.Errorf("the NodeConfig of the user data is no YAML: %w", err)
		}
		if c := config.Spec.Cluster; c.Name == "" || c.Endpoint == "" || len(c.Authority) == 0 {
			return nodeConfig{}, errors.New("the NodeConfig of the user data lacks the cluster's name, apiServerEndpoint or certificateAuthority")
		}
		return config, nil
	}
	return nodeConfig{}, errors.New("the user data has no NodeConfig")
}

// Present reports whether a disk has nodeadm.
func Present(root string) bool { return disk.Exists(root, "usr/bin/nodeadm") }

// instance is the metadata of a machine.
type instance struct{ id, address, name, mac, zone, region string }

// Init does nodeadm's work of a boot, and returns the kubelet's client configuration, with the role of the instance.
// A handler serves the instance's metadata. Requests to STS are only signed.
func Init(ctx context.Context, root string, metadata http.Handler, sts string) (*rest.Config, error) {
	client := imds.New(imds.Options{HTTPClient: direct{metadata}})
	data, err := client.GetUserData(ctx, &imds.GetUserDataInput{})
	if err != nil {
		return nil, fmt.Errorf("nodeadm: user data: %w", err)
	}
	defer func() { _ = data.Content.Close() }()
	text, err := io.ReadAll(data.Content)
	if err != nil {
		return nil, fmt.Errorf("nodeadm: user data: %w", err)
	}
	given, err := configIn(string(text))
	if err != nil {
		return nil, fmt.Errorf("nodeadm: %w", err)
	}
	cluster := given.Spec.Cluster
	m, err := readMetadata(ctx, client)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(network(root, m), writeFiles(root, cluster, given.Spec.Kubelet, m)); err != nil {
		return nil, fmt.Errorf("nodeadm: %w", err)
	}
	credentials := sdk.NewCredentialsCache(ec2rolecreds.New(func(o *ec2rolecreds.Options) { o.Client = client }))
	config := &rest.Config{Host: cluster.Endpoint, TLSClientConfig: rest.TLSClientConfig{CAData: cluster.Authority}, QPS: 50, Burst: 100}
	config.Wrap((&signer{cluster: cluster.Name, config: sdk.Config{Region: m.region, BaseEndpoint: sdk.String(sts), Credentials: credentials}}).wrap)
	return config, nil
}

func readMetadata(ctx context.Context, client *imds.Client) (m instance, _ error) {
	for path, field := range map[string]*string{
		"instance-id": &m.id, "local-ipv4": &m.address, "local-hostname": &m.name, "mac": &m.mac,
		"placement/availability-zone": &m.zone, "placement/region": &m.region,
	} {
		out, err := client.GetMetadata(ctx, &imds.GetMetadataInput{Path: path})
		if err != nil {
			return m, fmt.Errorf("nodeadm: %s of the instance: %w", path, err)
		}
		text, err := io.ReadAll(out.Content)
		if err = errors.Join(err, out.Content.Close()); err != nil {
			return m, fmt.Errorf("nodeadm: %s of the instance: %w", path, err)
		}
		*field = string(text)
	}
	return m, nil
}

// network writes the configuration of the network card for systemd, as some releases do in /etc. An existing file
// stays: a disk with another machine's card boots without a network.
func network(root string, m instance) error {
	path := filepath.Join(root, "etc/systemd/network/80-ec2.network.d/10-eks_primary_eni_only.conf")
	own := "[Match]\nPermanentMACAddress=" + m.mac + "\n"
	there, err := os.ReadFile(path)
	switch {
	case err == nil && string(there) != own:
		return fmt.Errorf("the machine has no network: %s names another card than %s", path, m.mac)
	case err == nil:
		return nil
	}
	return disk.WriteFile(path, []byte(own), 0o644)
}

// writeFiles replaces the files of this boot.
func writeFiles(root string, c Cluster, given kubeletSettings, m instance) error {
	provider := "aws:///" + m.zone + "/" + m.id
	settings := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "providerID": provider, "serverTLSBootstrap": true, "clusterDNS": []string{"10.0.0.10"},
		"authentication": map[string]any{"x509": map[string]any{"clientCAFile": "/etc/kubernetes/pki/ca.crt"}},
	}
	maps.Copy(settings, given.Config)
	config, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return err
	}
	kubeconfig, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "kubelet",
		"clusters": []any{map[string]any{"name": "kubernetes", "cluster": map[string]any{"certificate-authority": "/etc/kubernetes/pki/ca.crt", "server": c.Endpoint}}},
		"contexts": []any{map[string]any{"name": "kubelet", "context": map[string]any{"cluster": "kubernetes", "user": "kubelet"}}},
		"users": []any{map[string]any{"name": "kubelet", "user": map[string]any{"exec": map[string]any{
			"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws", "args": []string{"eks", "get-token", "--cluster-name", c.Name, "--region", m.region},
		}}}},
	})
	if err != nil {
		return err
	}
	var errs []error
	for path, text := range map[string]string{
		"etc/eks/kubelet/environment": "NODEADM_KUBELET_ARGS=--config=/etc/kubernetes/kubelet/config.json --kubeconfig=/var/lib/kubelet/kubeconfig --node-ip=" + m.address +
			" " + override + m.name + strings.Join(append([]string{" --cloud-provider=external"}, given.Flags...), " ") + "\n",
		"etc/kubernetes/kubelet/config.json":                 string(config) + "\n",
		"etc/kubernetes/pki/ca.crt":                          string(c.Authority),
		"var/lib/kubelet/kubeconfig":                         string(kubeconfig),
		"etc/eks/nodeadm/udev-net-manager/" + m.id + "/ens5": "io.systemd.Network\n",
	} {
		errs = append(errs, disk.WriteFile(filepath.Join(root, path), []byte(text), 0o600))
	}
	return errors.Join(errs...)
}

const override = "--hostname-override="

var named = regexp.MustCompile(override + `(\S+)`)

// NodeName is the node name in the kubelet's flags on a disk; empty without flags.
func NodeName(root string) string {
	text, err := os.ReadFile(filepath.Join(root, "etc/eks/kubelet/environment"))
	if err != nil {
		return ""
	}
	if found := named.FindSubmatch(text); found != nil {
		return string(found[1])
	}
	return ""
}

// direct is a client of a handler in the same process.
type direct struct{ handler http.Handler }

// Do implements imds.HTTPClient.
func (d direct) Do(r *http.Request) (*http.Response, error) {
	answer := &answer{header: http.Header{}, status: http.StatusOK}
	d.handler.ServeHTTP(answer, r)
	return &http.Response{
		StatusCode: answer.status, Status: http.StatusText(answer.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: answer.header,
		Body: io.NopCloser(strings.NewReader(answer.body.String())), ContentLength: int64(answer.body.Len()), Request: r,
	}, nil
}

type answer struct {
	header http.Header
	status int
	body   strings.Builder
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// encode is how a token carries an address.
var encode = base64.RawURLEncoding
