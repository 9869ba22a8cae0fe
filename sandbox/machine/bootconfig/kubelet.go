package bootconfig

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/util/codec"
)

// kubelet reads flags and configuration like the kubelet. Source: NewKubeletCommand in cmd/kubelet/app/server.go.
// Global flags and drop-in files of --config-dir are not read.
func (f files) kubelet() (*options.KubeletServer, error) {
	arguments, err := f.arguments(KubeletUnit)
	if err != nil {
		return nil, err
	}
	server, err := options.NewKubeletServer()
	if err != nil {
		return nil, err
	}
	if err := parse(server, arguments); err != nil {
		return nil, failed(KubeletUnit, "command failed: failed to parse kubelet flag: %w", err)
	}
	if err := options.ValidateKubeletFlags(&server.KubeletFlags); err != nil {
		return nil, failed(KubeletUnit, "command failed: failed to validate kubelet flags: %w", err)
	}
	if path := server.KubeletConfigFile; path != "" {
		config, err := f.configuration(path)
		if err != nil {
			return nil, failed(KubeletUnit, "command failed: failed to load kubelet config file, path: %s, error: %w", path, err)
		}
		// Flags win over the file, so the flags are parsed again.
		server.KubeletConfiguration = *config
		if err := parse(server, arguments); err != nil {
			return nil, failed(KubeletUnit, "command failed: failed to precedence kubeletConfigFlag: %w", err)
		}
	}
	if len(server.EvictionHard) == 0 {
		server.EvictionHard = defaultEvictions
	}
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	if err := gates.SetFromMap(server.FeatureGates); err != nil {
		return nil, failed(KubeletUnit, "command failed: failed to set feature gates from initial flags-based config: %w", err)
	}
	// The validation would look at the control groups of the host.
	checked := server.KubeletConfiguration
	checked.FailCgroupV1 = false
	if err := validation.ValidateKubeletConfiguration(&checked, gates); err != nil {
		return nil, failed(KubeletUnit, "command failed: failed to validate kubelet configuration, error: %w", err)
	}
	return server, nil
}

// defaultEvictions are the hard thresholds without a setting. Source: pkg/kubelet/eviction/defaults_linux.go.
var defaultEvictions = map[string]string{
	"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%",
}

func parse(server *options.KubeletServer, arguments []string) error {
	set := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	set.SetOutput(io.Discard)
	server.AddFlags(set)
	if err := set.Parse(arguments); err != nil {
		return err
	}
	if rest := set.Args(); len(rest) > 0 {
		return fmt.Errorf("unknown command %s", rest[0])
	}
	return nil
}

// configuration decodes a file. An unknown feature gate is a panic in the kubelet, too.
func (f files) configuration(path string) (config *kubeletconfig.KubeletConfiguration, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	text, err := f.read(path)
	if err != nil {
		return nil, fmt.Errorf("failed to read kubelet config file %q, error: %w", path, err)
	}
	if len(text) == 0 {
		return nil, fmt.Errorf("kubelet config file %q was empty", path)
	}
	_, codecs, err := scheme.NewSchemeAndCodecs(serializer.EnableStrict)
	if err != nil {
		return nil, err
	}
	return codec.DecodeKubeletConfiguration(context.Background(), codecs, text)
}

// node fills what the kubelet says of its Node.
func (c *Config) node(server *options.KubeletServer, m Machine) error {
	c.NodeName = strings.ToLower(strings.TrimSpace(m.Hostname))
	if override := server.HostnameOverride; override != "" {
		c.NodeName = strings.ToLower(strings.TrimSpace(override))
	}
	c.ProviderID, c.ExternalCloud = server.ProviderID, server.CloudProvider == "external"
	c.Labels, c.Taints = maps.Clone(server.NodeLabels), server.RegisterWithTaints
	// "node IP not found in the host's network interfaces": the addresses are missing. Source: nodestatus.NodeAddress.
	if ip := server.NodeIP; ip == "" || ip == m.IP || ip == "0.0.0.0" || ip == "::" {
		c.Address = m.IP
	}
	c.Capacity = Capacity(m.Type)
	pods := int64(server.MaxPods)
	if perCore := int64(server.PodsPerCore); perCore > 0 {
		pods = min(pods, perCore*c.Capacity.Cpu().Value())
	}
	c.Capacity[corev1.ResourcePods] = *resource.NewQuantity(pods, resource.DecimalSI)
	var err error
	c.Allocatable, err = allocatable(c.Capacity, &server.KubeletConfiguration)
	return err
}

// allocatable is the capacity without the reservations for Kubernetes, the system and hard evictions. Source:
// GetNodeAllocatableReservation in pkg/kubelet/cm/node_container_manager_linux.go.
func allocatable(capacity corev1.ResourceList, config *kubeletconfig.KubeletConfiguration) (corev1.ResourceList, error) {
	left := capacity.DeepCopy()
	evictions := map[corev1.ResourceName]string{
		corev1.ResourceMemory: config.EvictionHard["memory.available"], corev1.ResourceEphemeralStorage: config.EvictionHard["nodefs.available"],
	}
	for name, total := range capacity {
		reserved := resource.Quantity{Format: total.Format}
		for _, reservation := range []string{config.KubeReserved[string(name)], config.SystemReserved[string(name)]} {
			if reservation == "" {
				continue
			}
			quantity, err := resource.ParseQuantity(reservation)
			if err != nil {
				return nil, failed(KubeletUnit, "failed to run Kubelet: failed to parse quantity %q for %q resource: %w", reservation, name, err)
			}
			reserved.Add(quantity)
		}
		if threshold := evictions[name]; threshold != "" {
			quantity, err := share(threshold, total)
			if err != nil {
				return nil, err
			}
			reserved.Add(quantity)
		}
		if reserved.Cmp(total) > 0 {
			return nil, failed(KubeletUnit, "Failed to start ContainerManager: invalid Node Allocatable configuration. Resource %q has a reservation of %s "+
				"but capacity of %s. Expected capacity >= reservation.", name, reserved.String(), total.String())
		}
		rest := total.DeepCopy()
		rest.Sub(reserved)
		left[name] = rest
	}
	return left, nil
}

// share is an eviction threshold: a quantity, or a percentage of the total.
func share(threshold string, total resource.Quantity) (resource.Quantity, error) {
	if percent, is := strings.CutSuffix(threshold, "%"); is {
		value, err := strconv.ParseFloat(percent, 64)
		if err != nil {
			return resource.Quantity{}, failed(KubeletUnit, "failed to run Kubelet: failed to create kubelet: %w", err)
		}
		return *resource.NewQuantity(int64(float64(total.Value())*value/100), total.Format), nil
	}
	quantity, err := resource.ParseQuantity(threshold)
	if err != nil {
		return quantity, failed(KubeletUnit, "failed to run Kubelet: failed to create kubelet: %w", err)
	}
	return quantity, nil
}

// credential checks kubeconfig, authority and certificate, at the time of the system's clock. Source of the texts:
// client-go's clientcmd and the kubelet's certificate/bootstrap.
func (f files) credential(flags options.KubeletFlags, m Machine, now time.Time) error {
	text, err := f.read(flags.KubeConfig)
	if flags.KubeConfig == "" || err != nil {
		return failed(KubeletUnit, "failed to run Kubelet: invalid kubeconfig: stat %s: no such file or directory", flags.KubeConfig)
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return failed(KubeletUnit, "failed to run Kubelet: invalid kubeconfig: error loading config file %q: %w", flags.KubeConfig, err)
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil || config.Clusters[current.Cluster] == nil || config.AuthInfos[current.AuthInfo] == nil {
		return failed(KubeletUnit, "failed to run Kubelet: invalid kubeconfig: invalid configuration: context %q is incomplete", config.CurrentContext)
	}
	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	if err := f.authority(current.Cluster, cluster, now); err != nil {
		return err
	}
	if server, err := url.Parse(cluster.Server); m.Server != "" && (err != nil || server.Hostname() != m.Server) {
		return failed(KubeletUnit, "Unable to register node with API server: Post %q: dial tcp: i/o timeout", cluster.Server+"/api/v1/nodes")
	}
	return f.clientCertificate(flags.KubeConfig, user, now)
}

func (f files) authority(name string, cluster *clientcmdapi.Cluster, now time.Time) error {
	text := cluster.CertificateAuthorityData
	if path := cluster.CertificateAuthority; path != "" {
		var err error
		if text, err = f.read(path); err != nil {
			return failed(KubeletUnit, "failed to run Kubelet: invalid kubeconfig: invalid configuration: unable to read certificate-authority %s for %s due to %w", path, name, err)
		}
	}
	all := certificates(text)
	if len(all) == 0 {
		return failed(KubeletUnit, "failed to run Kubelet: unable to load root certificates: unable to parse bytes as PEM block")
	}
	if err := expired(all, now); err != nil {
		return failed(KubeletUnit, "Unable to register node with API server: Post %q: tls: failed to verify certificate: %w", cluster.Server+"/api/v1/nodes", err)
	}
	return nil
}

func (f files) clientCertificate(kubeconfig string, user *clientcmdapi.AuthInfo, now time.Time) error {
	if user.ClientCertificate == "" {
		return nil
	}
	for _, path := range []string{user.ClientCertificate, user.ClientKey} {
		if _, err := f.read(path); err != nil {
			return failed(KubeletUnit, "failed to run Kubelet: invalid kubeconfig: invalid configuration: unable to read client certificate or key: %w", err)
		}
	}
	text, _ := f.read(user.ClientCertificate)
	for _, certificate := range certificates(text) {
		if now.After(certificate.NotAfter) {
			return failed(KubeletUnit, "part of the existing bootstrap client certificate in %s is expired: %s", kubeconfig, certificate.NotAfter.UTC())
		}
	}
	return nil
}

// certificates are the readable certificates in a PEM file.
func certificates(text []byte) (all []*x509.Certificate) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			all = append(all, certificate)
		}
	}
	return all
}

var errUnknownAuthority = errors.New("x509: certificate signed by unknown authority")

// expired is the error of crypto/x509 if no certificate is valid at the time.
func expired(all []*x509.Certificate, now time.Time) error {
	var problems []error
	for _, certificate := range all {
		switch {
		case now.Before(certificate.NotBefore):
			problems = append(problems, fmt.Errorf("x509: certificate has expired or is not yet valid: current time %s is before %s",
				now.UTC().Format(time.RFC3339), certificate.NotBefore.UTC().Format(time.RFC3339)))
		case now.After(certificate.NotAfter):
			problems = append(problems, fmt.Errorf("x509: certificate has expired or is not yet valid: current time %s is after %s",
				now.UTC().Format(time.RFC3339), certificate.NotAfter.UTC().Format(time.RFC3339)))
		}
	}
	if len(problems) < len(all) {
		return nil
	}
	return append(problems, errUnknownAuthority)[0]
}

// NodeName is the name of the Node by the kubelet's flags; the host name if the flags name none or are not valid.
func NodeName(root, hostname string) string {
	arguments, err := files{root}.arguments(KubeletUnit)
	if err != nil {
		return strings.ToLower(hostname)
	}
	for i, argument := range arguments {
		name, is := strings.CutPrefix(argument, "--hostname-override=")
		if argument == "--hostname-override" && i+1 < len(arguments) {
			name, is = arguments[i+1], true
		}
		if is && name != "" {
			return strings.ToLower(name)
		}
	}
	return strings.ToLower(hostname)
}
