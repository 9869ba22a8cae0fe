package region

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// Kinds of Karpenter, and of the workload that asks for nodes.
var (
	nodeClasses = schema.GroupVersionKind{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"}
	nodeClaims  = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}
	workloads   = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
)

// Karpenter is the simulated AWS with Karpenter's own controllers. A pool is an EC2NodeClass with a NodePool. It has no size: the size is
// the number of replicas of a Deployment, with a node for each pod.
type Karpenter struct {
	*AWS
	objects client.Client
	// line is the beginning of the image families' names.
	line string
}

var _ Region = (*Karpenter)(nil)

// NewKarpenter returns AWS with the pools of Karpenter. The client reads and writes the objects.
func NewKarpenter(ctx context.Context, over *AWS, objects client.Client) (*Karpenter, error) {
	system := &corev1.Namespace{}
	err := objects.Get(ctx, client.ObjectKey{Name: "kube-system"}, system)
	sum := sha256.Sum256([]byte(system.UID))
	return &Karpenter{AWS: over, objects: objects, line: "karpenter-" + hex.EncodeToString(sum[:4]) + "-"}, err
}

// Base is the cloud without Karpenter.
func (k *Karpenter) Base() Region { return k.AWS }

//go:embed karpenter.yaml
var karpenterObjects string

// MakePool implements Region. Karpenter makes the user data.
func (k *Karpenter) MakePool(ctx context.Context, spec pool.Spec, _ string) error {
	words := strings.NewReplacer("POOL", spec.Name, "IMAGE", eks, "ROLE", NodeRole, "TYPE", instanceType, "NODES", fmt.Sprint(spec.Nodes))
	text := words.Replace(karpenterObjects)
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("pool %s: %w", spec.Name, err)
		}
		if err := k.objects.Create(ctx, o); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("make %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return await(ctx, func() (bool, error) {
		p, _, err := k.Pool(ctx, spec)
		ids, wrong := k.Instances(ctx, spec)
		return int64(len(ids)) == p.Capacity, errors.Join(err, wrong)
	})
}

func (k *Karpenter) object(ctx context.Context, kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	key := client.ObjectKey{Name: name}
	if kind == workloads {
		key.Namespace = "default"
	}
	return o, k.objects.Get(ctx, key, o)
}

// Pool implements Region. The image is the only term's, else the one that Karpenter resolved.
func (k *Karpenter) Pool(ctx context.Context, spec pool.Spec) (control.Pool, bool, error) {
	class, err := k.object(ctx, nodeClasses, spec.Name)
	work, wrong := k.object(ctx, workloads, spec.Name)
	if apierrors.IsNotFound(err) || apierrors.IsNotFound(wrong) {
		return control.Pool{}, false, nil
	}
	p := control.Pool{Spec: spec, Group: spec.Name, ID: "karpenter.k8s.aws/ec2nodeclasses/" + spec.Name, Extensions: []string{}}
	p.Capacity, _, _ = unstructured.NestedInt64(work.Object, "spec", "replicas")
	for _, path := range [][]string{{"spec", "amiSelectorTerms"}, {"status", "amis"}} {
		if all, _, _ := unstructured.NestedSlice(class.Object, path...); len(all) > 0 && p.Image == "" {
			first, _ := all[0].(map[string]any)
			p.Image, _ = first["id"].(string)
		}
	}
	return p, true, errors.Join(err, wrong)
}

// claims returns the NodeClaims of a pool.
func (k *Karpenter) claims(ctx context.Context, spec pool.Spec) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(nodeClaims)
	err := k.objects.List(ctx, list, client.MatchingLabels{"karpenter.sh/nodepool": spec.Name})
	return list.Items, err
}

// instanceOf returns the instance of a NodeClaim; empty before it has one.
func instanceOf(claim unstructured.Unstructured) string {
	id, _, _ := unstructured.NestedString(claim.Object, "status", "providerID")
	return id[strings.LastIndex(id, "/")+1:]
}

// Instances implements Region.
func (k *Karpenter) Instances(ctx context.Context, spec pool.Spec) (ids []string, err error) {
	all, err := k.claims(ctx, spec)
	for _, c := range all {
		if id := instanceOf(c); id != "" {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// Protected implements Region: Karpenter protects nodes by annotations, and no instances.
func (k *Karpenter) Protected(context.Context, pool.Spec) ([]string, error) { return nil, nil }

// Owns implements Region. A Node names only its instance; the instance names its class.
func (k *Karpenter) Owns(spec pool.Spec) func(*corev1.Node) bool { return k.owns(spec.Name) }

// Versions implements Region.
func (k *Karpenter) Versions(ctx context.Context, spec pool.Spec) ([]Version, error) {
	return k.versions(ctx, k.line+spec.Name)
}

// Resize implements Region: the pods of the Deployment ask for nodes. Karpenter retries.
func (k *Karpenter) Resize(ctx context.Context, spec pool.Spec, nodes int64) (was int64, _ func(context.Context) error, err error) {
	work, err := k.object(ctx, workloads, spec.Name)
	if err != nil {
		return 0, nil, err
	}
	was, _, _ = unstructured.NestedInt64(work.Object, "spec", "replicas")
	return was, nil, k.objects.Patch(ctx, work, mergePatch(`{"spec":{"replicas":%d}}`, nodes))
}

// Remove implements Region: as a person who takes a pod away, and the node's NodeClaim.
func (k *Karpenter) Remove(ctx context.Context, m machine.Status) error {
	spec := pool.Spec{Name: m.Pool}
	all, err := k.claims(ctx, spec)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(c unstructured.Unstructured) bool { return instanceOf(c) == m.ID })
	if at < 0 {
		return fmt.Errorf("instance %s has no NodeClaim in pool %s", m.ID, m.Pool)
	}
	pods := &corev1.PodList{}
	if err := k.objects.List(ctx, pods, client.InNamespace("default"), client.MatchingLabels{"sandbox.kamino.dev/pool": spec.Name}); err != nil {
		return err
	}
	for i := range pods.Items { // the Deployment removes the cheapest pod
		if pods.Items[i].Spec.NodeName == m.Node {
			err = k.objects.Patch(ctx, &pods.Items[i], mergePatch(`{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"-1"}}}`))
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	p, _, err := k.Pool(ctx, spec)
	if err != nil {
		return err
	}
	if _, _, err := k.Resize(ctx, spec, max(0, p.Capacity-1)); err != nil {
		return err
	}
	if err := k.objects.Delete(ctx, &all[at]); client.IgnoreNotFound(err) != nil {
		return err
	}
	return await(ctx, func() (bool, error) {
		err := k.objects.Get(ctx, client.ObjectKeyFromObject(&all[at]), &all[at])
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

func mergePatch(format string, args ...any) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))
}
