package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"github.com/kamino-dev/kamino/sandbox/machine/chroot"
)

// accountMount is where every client library looks for the service account of its pod.
const accountMount = "/var/run/secrets/kubernetes.io/serviceaccount"

// program is the local program for containers of an image; empty for simulated containers. The longest prefix wins.
func (s *Service) program(image string) string {
	best, program := "", ""
	for prefix, path := range s.Binaries {
		if strings.HasPrefix(image, prefix) && len(prefix) >= len(best) {
			best, program = prefix, path
		}
	}
	return program
}

// order builds the start of a container's process. The entrypoint is the program. The first word of a command stands
// for the entrypoint; the rest are arguments.
func (v *volumes) order(ctx context.Context, pod *corev1.Pod, c *container, program string) (order, error) {
	mounts := v.mounts(c.spec)
	home := filepath.Join(v.dir, "containers", c.spec.Name)
	err := os.MkdirAll(home, 0o700)
	if err != nil {
		return order{}, err
	}
	name := fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID)
	o := order{
		isolated: v.kubelet.node.Isolated && !pod.Spec.HostNetwork, openFiles: v.kubelet.node.Config.OpenFiles,
		program: program, dir: home, message: filepath.Join(home, "termination-log"),
		log: filepath.Join(v.kubelet.service.Dir, "logs", name, fmt.Sprintf("%s-%d.log", c.spec.Name, c.restarts)),
	}
	if path := c.spec.TerminationMessagePath; path != "" {
		mounts[path] = o.message
	}
	if mounts[resolverMount], err = v.resolver(pod); err != nil {
		return order{}, err
	}
	variables, err := v.variables(ctx, pod, c.spec, mounts)
	if err != nil {
		return order{}, err
	}
	if of := v.kubelet.service.OfCopies; len(of) > 0 && isOfCopy(c.spec.Args) {
		o.program, o.arguments = of[0], slices.Clone(of[1:])
	}
	expand := expansion.MappingFuncFor(variables)
	for _, argument := range slices.Concat(c.spec.Command[min(1, len(c.spec.Command)):], c.spec.Args) {
		o.arguments = append(o.arguments, mounts.translate(expansion.Expand(argument, expand)))
	}
	for key, value := range map[string]string{"PATH": os.Getenv("PATH"), "HOME": home, "TMPDIR": home, "HOSTNAME": pod.Name} {
		if _, set := variables[key]; !set {
			variables[key] = value
		}
	}
	for key, value := range variables {
		o.env = append(o.env, key+"="+value)
	}
	// Only this command runs programs of the machine. Other pods must not see the mounts, which no disk has.
	if root := v.kubelet.node.Root; len(c.spec.Args) > 0 && c.spec.Args[0] == "patch" && chroot.Linked(root) {
		command := chroot.Command(root, slices.Concat([]string{o.program}, o.arguments)...)
		o.program, o.arguments = command[0], command[1:]
	}
	return o, nil
}

// isOfCopy reports whether a command of kamino-node needs the kernel of its machine.
func isOfCopy(args []string) bool {
	return len(args) > 0 && (args[0] == "quiesce" || args[0] == "generalize" && slices.Contains(args, "--serial"))
}

// variables are the container's environment, paths translated.
func (v *volumes) variables(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, mounts mounts) (map[string]string, error) {
	variables, err := v.clusterVariables(mounts)
	if err != nil {
		return nil, err
	}
	for _, source := range spec.EnvFrom {
		if err := v.addAll(ctx, pod, source, variables); err != nil {
			return nil, err
		}
	}
	for _, variable := range spec.Env {
		value := variable.Value
		if variable.ValueFrom != nil {
			value, err = v.valueFrom(ctx, pod, variable.ValueFrom)
			if err != nil {
				return nil, fmt.Errorf("environment variable %s: %w", variable.Name, err)
			}
		} else {
			value = expansion.Expand(value, expansion.MappingFuncFor(variables))
		}
		variables[variable.Name] = mounts.translate(value)
	}
	return variables, nil
}

// clusterVariables name the API server. Client libraries read the service account from a fixed path, which a process
// of the sandbox does not have. A kubeconfig with the same content replaces the files.
func (v *volumes) clusterVariables(mounts mounts) (map[string]string, error) {
	config := v.kubelet.service.REST
	if config == nil {
		return nil, errors.New("the sandbox's kubelet does not know where the API server is")
	}
	address, err := url.Parse(config.Host)
	if err != nil || address.Host == "" {
		return nil, fmt.Errorf("the API server's address %q is no URL", config.Host)
	}
	port := address.Port()
	if port == "" {
		port = "443"
	}
	variables := map[string]string{"KUBERNETES_SERVICE_HOST": address.Hostname(), "KUBERNETES_SERVICE_PORT": port}
	account, found := mounts[accountMount]
	if !found {
		return variables, nil
	}
	path := filepath.Join(v.dir, "kubeconfig")
	variables["KUBECONFIG"] = path
	return variables, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"sandbox": {
			Server: "https://" + net.JoinHostPort(address.Hostname(), port), CertificateAuthority: filepath.Join(account, "ca.crt"),
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"pod": {TokenFile: filepath.Join(account, "token")}},
		Contexts:       map[string]*clientcmdapi.Context{"sandbox": {Cluster: "sandbox", AuthInfo: "pod"}},
		CurrentContext: "sandbox",
	}, path)
}

func (v *volumes) addAll(ctx context.Context, pod *corev1.Pod, source corev1.EnvFromSource, variables map[string]string) error {
	core := v.kubelet.client.CoreV1()
	if ref := source.SecretRef; ref != nil {
		secret, err := core.Secrets(pod.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return missing(err, ref.Optional)
		}
		for key, value := range secret.Data {
			variables[source.Prefix+key] = string(value)
		}
	}
	if ref := source.ConfigMapRef; ref != nil {
		config, err := core.ConfigMaps(pod.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return missing(err, ref.Optional)
		}
		for key, value := range config.Data {
			variables[source.Prefix+key] = value
		}
	}
	return nil
}

func (v *volumes) valueFrom(ctx context.Context, pod *corev1.Pod, source *corev1.EnvVarSource) (string, error) {
	core := v.kubelet.client.CoreV1()
	switch {
	case source.FieldRef != nil:
		return v.field(pod, source.FieldRef.FieldPath)
	case source.SecretKeyRef != nil:
		ref := source.SecretKeyRef
		secret, err := core.Secrets(pod.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return "", missing(err, ref.Optional)
		}
		return string(secret.Data[ref.Key]), nil
	case source.ConfigMapKeyRef != nil:
		ref := source.ConfigMapKeyRef
		config, err := core.ConfigMaps(pod.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return "", missing(err, ref.Optional)
		}
		return config.Data[ref.Key], nil
	default:
		return "", errors.New("the sandbox's kubelet has no sources of this kind")
	}
}

// field reads a field of the downward API.
func (v *volumes) field(pod *corev1.Pod, path string) (string, error) {
	switch path {
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return accountOf(pod), nil
	case "status.hostIP", "status.hostIPs":
		return v.kubelet.node.IP, nil
	case "status.podIP", "status.podIPs":
		return v.ip, nil
	default:
		return fieldpath.ExtractFieldPathAsString(pod, path)
	}
}
