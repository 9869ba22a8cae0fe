package capi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/apiserver"
)

// coreVersions are the supported versions of Cluster API's core, the preferred version first.
var coreVersions = []string{"v1beta2", "v1beta1"}

// pageSize is the number of objects per list request.
const pageSize = 500

// management is the client of a namespace in the management cluster. management is safe for concurrent use.
type management struct {
	namespace string
	objects   dynamic.Interface

	mu     sync.Mutex
	mapper meta.ResettableRESTMapper
}

// connectTo makes the clients. connectTo does no I/O.
func connectTo(config *rest.Config, namespace string) (*management, error) {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the management cluster: %w", err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the management cluster: %w", err)
	}
	return &management{namespace: namespace, objects: objects, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))}, nil
}

// core returns a kind of Cluster API's core.
func core(kind string) schema.GroupKind { return schema.GroupKind{Group: coreGroup, Kind: kind} }

// resource returns the REST mapping of a kind: a supported version of the core, else the API server's preferred version.
func (m *management) resource(op string, kind schema.GroupKind) (*meta.RESTMapping, error) {
	var versions []string
	if kind.Group == coreGroup {
		versions = coreVersions
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	mapping, err := m.mapper.RESTMapping(kind, versions...)
	if meta.IsNoMatchError(err) { // the kind may have been installed since
		m.mapper.Reset()
		mapping, err = m.mapper.RESTMapping(kind, versions...)
	}
	switch {
	case err == nil && kind.Group == coreGroup && !slices.Contains(coreVersions, mapping.GroupVersionKind.Version):
		return nil, &cloud.Error{Kind: cloud.Unsupported, Op: op, Resource: kind.String(),
			Message: fmt.Sprintf("the management cluster serves only version %s: Kamino supports v1beta2 and v1beta1 of Cluster API",
				mapping.GroupVersionKind.Version)}
	case meta.IsNoMatchError(err):
		return nil, &cloud.Error{Kind: cloud.Unsupported, Op: op, Resource: kind.String(), Err: err,
			Message: "the management cluster does not serve the kind: check that --management-kubeconfig names the cluster with the objects of Cluster API"}
	}
	return mapping, apiserver.Fail(op, kind.String(), err)
}

func (m *management) in(op string, kind schema.GroupKind) (dynamic.ResourceInterface, error) {
	mapping, err := m.resource(op, kind)
	if err != nil {
		return nil, err
	}
	return m.objects.Resource(mapping.Resource).Namespace(m.namespace), nil
}

// get reads an object, once per read cache.
func (m *management) get(ctx context.Context, kind schema.GroupKind, name string) (object, error) {
	return m.getIn(ctx, m.namespace, kind, name)
}

// keyOf is the key of an object in the read cache.
func keyOf(kind schema.GroupKind, namespace, name string) string {
	return "capi:" + kind.String() + "/" + namespace + "/" + name
}

// getIn reads an object of any namespace.
func (m *management) getIn(ctx context.Context, namespace string, kind schema.GroupKind, name string) (object, error) {
	const op = "read"
	what := fmt.Sprintf("%s %s/%s", kind.Kind, namespace, name)
	cache, key := cloud.ReadCacheOf(ctx), keyOf(kind, namespace, name)
	if known, found := cache.Get(key); found {
		return object{known.(*unstructured.Unstructured).DeepCopy()}, nil
	}
	mapping, err := m.resource(op, kind)
	if err != nil {
		return object{}, err
	}
	found, err := m.objects.Resource(mapping.Resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return object{}, apiserver.Fail(op, what, err)
	}
	cache.Put(key, found.DeepCopy())
	return object{found}, nil
}

// list reads all objects of a kind and label selector, once per read cache.
func (m *management) list(ctx context.Context, kind schema.GroupKind, selector string) ([]object, error) {
	const op = "list"
	cache, key := cloud.ReadCacheOf(ctx), "capi:"+kind.String()+"?"+selector
	if known, found := cache.Get(key); found {
		return slices.Clone(known.([]object)), nil
	}
	client, err := m.in(op, kind)
	if err != nil {
		return nil, err
	}
	var all []object
	for options := (metav1.ListOptions{LabelSelector: selector, Limit: pageSize}); ; {
		page, err := client.List(ctx, options)
		if err != nil {
			return nil, apiserver.Fail(op, kind.Kind+"s of namespace "+m.namespace, err)
		}
		for i := range page.Items {
			all = append(all, object{&page.Items[i]})
			cache.Put(keyOf(kind, page.Items[i].GetNamespace(), page.Items[i].GetName()), &page.Items[i])
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			cache.Put(key, slices.Clone(all))
			return all, nil
		}
	}
}

// patch changes an object if resourceVersion and UID are unchanged.
func (m *management) patch(ctx context.Context, op string, o object, change map[string]any) (object, error) {
	client, err := m.in(op, o.GroupVersionKind().GroupKind())
	if err != nil {
		return object{}, err
	}
	guarded := map[string]any{"resourceVersion": o.GetResourceVersion(), "uid": string(o.GetUID())}
	metadata, _ := change["metadata"].(map[string]any)
	for key, value := range metadata {
		guarded[key] = value
	}
	whole := map[string]any{"metadata": guarded}
	for key, value := range change {
		if key != "metadata" {
			whole[key] = value
		}
	}
	body, err := json.Marshal(whole)
	if err != nil {
		return object{}, apiserver.Fail(op, o.String(), err)
	}
	now, err := client.Patch(ctx, o.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: "kamino"})
	cloud.ReadCacheOf(ctx).Invalidate()
	if err != nil {
		return object{}, apiserver.Fail(op, o.String(), err)
	}
	return object{now}, nil
}

// annotate sets annotations of an object; nil removes an annotation.
func (m *management) annotate(ctx context.Context, op string, o object, values map[string]any) (object, error) {
	return m.patch(ctx, op, o, map[string]any{"metadata": map[string]any{"annotations": values}})
}

// create creates an object; Conflict if the name exists.
func (m *management) create(ctx context.Context, op string, o object) (object, error) {
	client, err := m.in(op, o.GroupVersionKind().GroupKind())
	if err != nil {
		return object{}, err
	}
	made, err := client.Create(ctx, o.Unstructured, metav1.CreateOptions{FieldManager: "kamino"})
	cloud.ReadCacheOf(ctx).Invalidate()
	if err != nil {
		return object{}, apiserver.Fail(op, o.String(), err)
	}
	return object{made}, nil
}

// remove deletes the object with this UID. A missing object is no error.
func (m *management) remove(ctx context.Context, op string, o object) error {
	client, err := m.in(op, o.GroupVersionKind().GroupKind())
	if err != nil {
		return err
	}
	uid := o.GetUID()
	err = client.Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	cloud.ReadCacheOf(ctx).Invalidate()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return apiserver.Fail(op, o.String(), err)
}
