package doctor

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/scrub"
)

// Limits of a bundle. A large cluster has more nodes than a reader of the bundle.
const (
	maxNodes = 200
	maxLines = 20_000
)

// Bundle is for a report of a bug: what Kamino and the cluster say about each other, without secrets. It reads no Secret and no
// ConfigMap.
type Bundle struct {
	Client client.Client
	Kube   kubernetes.Interface
	// Namespaces are those of Kamino.
	Namespaces []string
	Now        time.Time
	// Verbs are outputs of other commands, by file name.
	Verbs map[string]func(context.Context) string
}

// bundled is a file of a bundle.
type bundled struct{ name, text string }

// Write writes the bundle. What cannot be read is in problems.txt, and the bundle has the rest.
func (s Bundle) Write(ctx context.Context, to io.Writer) (problems []string, _ error) {
	var files []bundled
	note := func(what string, err error) {
		if err != nil {
			problems = append(problems, scrub.Text(fmt.Sprintf("%s: %v", what, err)))
		}
	}
	for name, run := range s.Verbs {
		files = append(files, bundled{name, scrub.Text(run(ctx))})
	}
	for kind, name := range map[string]string{"Prototype": "prototypes", "PrototypePolicy": "policies", "NodeOrder": "nodeorders"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
		err := s.Client.List(ctx, list)
		note(kind, err)
		if err == nil {
			files = append(files, bundledObjects(name+".yaml", list.Items, note))
		}
	}
	nodes, err := s.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: maxNodes})
	if note("nodes", err); err == nil {
		files = append(files, bundledKinds("nodes.yaml", nodes.Items, note))
	}
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(s.Namespaces))) {
		files = append(files, s.namespace(ctx, namespace, note)...)
	}
	if len(problems) > 0 {
		files = append(files, bundled{"problems.txt", strings.Join(problems, "\n") + "\n"})
	}
	return problems, writeArchive(to, files, s.Now)
}

// namespace are the objects of Kamino's namespace that are no configuration: events, pods with their logs, Deployments, Leases.
func (s Bundle) namespace(ctx context.Context, namespace string, note func(string, error)) (files []bundled) {
	events, err := s.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if note("events of "+namespace, err); err == nil {
		files = append(files, bundledKinds(namespace+"/events.yaml", events.Items, note))
	}
	deployments, err := s.Kube.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if note("deployments of "+namespace, err); err == nil {
		files = append(files, bundledKinds(namespace+"/deployments.yaml", deployments.Items, note))
	}
	leases, err := s.Kube.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
	if note("leases of "+namespace, err); err == nil {
		files = append(files, bundledKinds(namespace+"/leases.yaml", leases.Items, note))
	}
	pods, err := s.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if note("pods of "+namespace, err); err != nil {
		return files
	}
	files = append(files, bundledKinds(namespace+"/pods.yaml", pods.Items, note))
	for _, pod := range pods.Items {
		for _, status := range pod.Status.ContainerStatuses {
			for _, previous := range []bool{false, true} {
				if previous && status.RestartCount == 0 {
					continue
				}
				name := fmt.Sprintf("%s/logs/%s-%s.log", namespace, pod.Name, status.Name)
				if previous {
					name = strings.TrimSuffix(name, ".log") + "-previous.log"
				}
				lines := int64(maxLines)
				text, err := s.Kube.CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
					Container: status.Name, Previous: previous, TailLines: &lines, Timestamps: true}).DoRaw(ctx)
				if note("log of "+namespace+"/"+pod.Name, err); err == nil {
					files = append(files, bundled{name, scrub.Text(string(text))})
				}
			}
		}
	}
	return files
}

// bundledKinds is a file with objects of Kubernetes' own kinds.
func bundledKinds[T any](name string, items []T, note func(string, error)) bundled {
	var all []unstructured.Unstructured
	for i := range items {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&items[i])
		note(name, err)
		all = append(all, unstructured.Unstructured{Object: object})
	}
	return bundledObjects(name, all, note)
}

func bundledObjects(name string, items []unstructured.Unstructured, note func(string, error)) bundled {
	var b strings.Builder
	for _, item := range items {
		text, err := yaml.Marshal(scrub.Object(item.Object))
		note(name, err)
		b.WriteString("---\n" + string(text))
	}
	return bundled{name, b.String()}
}

// writeArchive writes the files as an archive, with one folder.
func writeArchive(to io.Writer, files []bundled, now time.Time) error {
	slices.SortFunc(files, func(a, b bundled) int { return cmp.Compare(a.name, b.name) })
	zip := gzip.NewWriter(to)
	archive := tar.NewWriter(zip)
	for _, f := range files {
		header := &tar.Header{Name: "kamino-support/" + f.name, Mode: 0o600, Size: int64(len(f.text)), ModTime: now}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.WriteString(archive, f.text); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zip.Close()
}
