package karpenter

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/apiserver"
)

// Images is the part of an ImageProvider that PoolProvider needs.
type Images interface {
	NativeImage(ctx context.Context, place, image string) (string, error)
	ImageText(ctx context.Context, place, native string) (string, error)
	VersionOf(family cloud.ImageFamily, image string) (version string, latest bool)
}

// PoolProvider implements cloud.PoolProvider for the classes of a cluster. It is safe for concurrent use.
type PoolProvider struct{ *access }

// access reads and writes Karpenter's objects in the cluster.
type access struct {
	images Images
	// connect returns the connection to the cluster. It is first called when a node of Karpenter shows up.
	connect func() (*rest.Config, error)

	mu sync.Mutex
	// objects and account are clients after the first connection, and cluster is the UID of namespace kube-system.
	objects dynamic.Interface
	account kubernetes.Interface
	cluster types.UID
	// claims are names of NodeClaims by provider ID, from the last list.
	claims map[cloud.InstanceID]string
}

// New makes the PoolProvider. New does no I/O.
func New(images Images, connect func() (*rest.Config, error)) *PoolProvider {
	return &PoolProvider{&access{images: images, connect: connect, claims: map[cloud.InstanceID]string{}}}
}

// clients connects once.
func (r *access) clients() (dynamic.Interface, kubernetes.Interface, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.objects != nil {
		return r.objects, r.account, nil
	}
	config, err := r.connect()
	if err != nil {
		return nil, nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	account, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	r.objects, r.account = objects, account
	return objects, account, nil
}

// clusterUID returns the UID of namespace kube-system, which identifies the cluster. Classes of several clusters of an account have equal
// names.
func (r *access) clusterUID(ctx context.Context) (types.UID, error) {
	_, account, err := r.clients()
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	known := r.cluster
	r.mu.Unlock()
	if known != "" {
		return known, nil
	}
	found, err := account.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", apiserver.Fail(opRead, "namespace "+metav1.NamespaceSystem, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cluster = found.UID
	return found.UID, nil
}

// pageSize is the number of objects per list request.
const pageSize = 500

func (r *access) in(kind schema.GroupVersionResource) (dynamic.ResourceInterface, error) {
	objects, _, err := r.clients()
	if err != nil {
		return nil, err
	}
	return objects.Resource(kind), nil
}

// get reads an object, once per read cache.
func (r *access) get(ctx context.Context, kind schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	cache, key := cloud.ReadCacheOf(ctx), "karpenter:"+kind.Resource+"/"+name
	if known, found := cache.Get(key); found {
		return known.(*unstructured.Unstructured).DeepCopy(), nil
	}
	client, err := r.in(kind)
	if err != nil {
		return nil, err
	}
	found, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, apiserver.Fail(opRead, kind.Resource+"/"+name, err)
	}
	cache.Put(key, found.DeepCopy())
	return found, nil
}

// list reads all objects of a kind, once per read cache.
func (r *access) list(ctx context.Context, kind schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	cache, key := cloud.ReadCacheOf(ctx), "karpenter:"+kind.Resource
	if known, found := cache.Get(key); found {
		return slices.Clone(known.([]unstructured.Unstructured)), nil
	}
	client, err := r.in(kind)
	if err != nil {
		return nil, err
	}
	var all []unstructured.Unstructured
	for options := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := client.List(ctx, options)
		if err != nil {
			return nil, apiserver.Fail("list", kind.Resource, err)
		}
		all = append(all, page.Items...)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			cache.Put(key, slices.Clone(all))
			return all, nil
		}
	}
}

// patch changes an object if resourceVersion and UID are unchanged.
func (r *access) patch(ctx context.Context, op string, o *unstructured.Unstructured, change object) (*unstructured.Unstructured, error) {
	kind, what := resourceOf(o), nameOf(o)
	client, err := r.in(kind)
	if err != nil {
		return nil, err
	}
	metadata, _ := change["metadata"].(object)
	guarded := object{"resourceVersion": o.GetResourceVersion(), "uid": string(o.GetUID())}
	for key, value := range metadata {
		guarded[key] = value
	}
	whole := object{"metadata": guarded}
	if spec, found := change["spec"]; found {
		whole["spec"] = spec
	}
	body, err := json.Marshal(whole)
	if err != nil {
		return nil, apiserver.Fail(op, what, err)
	}
	now, err := client.Patch(ctx, o.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	cloud.ReadCacheOf(ctx).Invalidate()
	return now, apiserver.Fail(op, what, err)
}

// create creates an object. An existing object is no error.
func (r *access) create(ctx context.Context, op string, o *unstructured.Unstructured) error {
	client, err := r.in(resourceOf(o))
	if err != nil {
		return err
	}
	_, err = client.Create(ctx, o, metav1.CreateOptions{FieldManager: fieldManager})
	cloud.ReadCacheOf(ctx).Invalidate()
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return apiserver.Fail(op, nameOf(o), err)
}

// remove deletes the object with this UID. A missing object is no error.
func (r *access) remove(ctx context.Context, op string, o *unstructured.Unstructured) error {
	client, err := r.in(resourceOf(o))
	if err != nil {
		return err
	}
	uid := o.GetUID()
	err = client.Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	cloud.ReadCacheOf(ctx).Invalidate()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return apiserver.Fail(op, nameOf(o), err)
}
