package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// server keeps Prototypes and Orders as an API server does whose definitions have a status of their own: it numbers what is
// written, refuses what was written from an older state, and keeps what is deleted until its last finalizer is gone. Tens of
// thousands of captures are played on it, so it copies objects where the client in memory writes and reads JSON several times.
type server struct {
	kept    map[string]client.Object
	version int
}

func newServer() *server { return &server{kept: map[string]client.Object{}} }

// reached is the server as a client reaches it. What is done to it goes through around, which may lose it, and is told as done.
type reached struct {
	client.Client // what is not implemented here panics: it is nil
	server        *server
	around        func(done string, effect func() error) error
}

// client reaches the server. Without around, nothing is lost.
func (s *server) client(around func(done string, effect func() error) error) *reached {
	if around == nil {
		around = func(_ string, effect func() error) error { return effect() }
	}
	return &reached{server: s, around: around}
}

// of tells apart what the server keeps.
func of(o client.Object) (id string, resource schema.GroupResource) {
	resource = schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: strings.ToLower(kindOf(o)) + "s"}
	return resource.Resource + "/" + o.GetNamespace() + "/" + o.GetName(), resource
}

// into has an object become a copy of another one of its kind.
func into(from, to client.Object) {
	switch from := from.(type) {
	case *v1alpha1.Prototype:
		from.DeepCopyInto(to.(*v1alpha1.Prototype))
	case *v1alpha1.Order:
		from.DeepCopyInto(to.(*v1alpha1.Order))
	}
}

// blank is an object of another one's kind that says nothing.
func blank(o client.Object) client.Object {
	if _, is := o.(*v1alpha1.Order); is {
		return &v1alpha1.Order{}
	}
	return &v1alpha1.Prototype{}
}

// status of an object, to be read and written through.
func status(o client.Object) any {
	if order, is := o.(*v1alpha1.Order); is {
		return &order.Status
	}
	return &o.(*v1alpha1.Prototype).Status
}

// withStatus is an object with the status of another one of its kind; with none if that is nil.
func withStatus(o, from client.Object) client.Object {
	switch o := o.DeepCopyObject().(type) {
	case *v1alpha1.Prototype:
		o.Status = v1alpha1.PrototypeStatus{}
		if from != nil {
			from.(*v1alpha1.Prototype).Status.DeepCopyInto(&o.Status)
		}
		return o
	case *v1alpha1.Order:
		o.Status = v1alpha1.OrderStatus{}
		if from != nil {
			from.(*v1alpha1.Order).Status.DeepCopyInto(&o.Status)
		}
		return o
	}
	panic(fmt.Sprintf("%T is not kept here", o))
}

func (s *server) find(o client.Object) (client.Object, error) {
	id, resource := of(o)
	have, found := s.kept[id]
	if !found {
		return nil, apierrors.NewNotFound(resource, o.GetName())
	}
	return have, nil
}

// write keeps the next state of an object, unless it was made from another than the last, and tells it to whoever wrote it.
func (s *server) write(have, next, o client.Object) error {
	id, resource := of(o)
	if next.GetUID() != have.GetUID() && next.GetUID() != "" {
		return apierrors.NewConflict(resource, o.GetName(), fmt.Errorf("its UID is %s", have.GetUID()))
	}
	if from := next.GetResourceVersion(); from != "" && from != have.GetResourceVersion() {
		return apierrors.NewConflict(resource, o.GetName(), errors.New("the object has been modified"))
	}
	next.SetUID(have.GetUID())
	next.SetCreationTimestamp(have.GetCreationTimestamp())
	next.SetDeletionTimestamp(have.GetDeletionTimestamp())
	next.SetResourceVersion(have.GetResourceVersion())
	if !equality.Semantic.DeepEqual(have, next) {
		s.number(next)
		s.kept[id] = next
	}
	if next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 {
		delete(s.kept, id)
	}
	into(next, o)
	return nil
}

func (s *server) number(o client.Object) {
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
}

func (r *reached) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return r.around("get "+strings.ToLower(kindOf(o)), func() error {
		o.SetNamespace(key.Namespace)
		o.SetName(key.Name)
		have, err := r.server.find(o)
		if err != nil {
			return err
		}
		into(have, o)
		return nil
	})
}

func (r *reached) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(options)
	return r.around("list prototypes", func() error {
		for _, id := range slices.Sorted(maps.Keys(r.server.kept)) {
			have := r.server.kept[id]
			if asked.Namespace != "" && have.GetNamespace() != asked.Namespace {
				continue
			}
			switch list := list.(type) {
			case *v1alpha1.PrototypeList:
				if p, is := have.(*v1alpha1.Prototype); is {
					list.Items = append(list.Items, *p.DeepCopy())
				}
			case *v1alpha1.OrderList:
				if o, is := have.(*v1alpha1.Order); is {
					list.Items = append(list.Items, *o.DeepCopy())
				}
			}
		}
		return nil
	})
}

func (r *reached) Create(_ context.Context, o client.Object, options ...client.CreateOption) error {
	var asked client.CreateOptions
	asked.ApplyOptions(options)
	return r.around("create order", func() error {
		id, resource := of(o)
		switch _, err := r.server.find(o); {
		case o.GetResourceVersion() != "":
			return apierrors.NewBadRequest("resourceVersion can not be set for Create requests")
		case err == nil:
			return apierrors.NewAlreadyExists(resource, o.GetName())
		case len(asked.DryRun) > 0:
			return nil
		}
		next := withStatus(o, nil)
		if next.GetUID() == "" {
			next.SetUID(types.UID(fmt.Sprintf("uid-of-%s-%d", o.GetName(), r.server.version)))
		}
		r.server.number(next)
		r.server.kept[id] = next
		into(next, o)
		return nil
	})
}

func (r *reached) Delete(_ context.Context, o client.Object, options ...client.DeleteOption) error {
	var asked client.DeleteOptions
	asked.ApplyOptions(options)
	return r.around("delete order", func() error {
		have, err := r.server.find(o)
		if err != nil {
			return err
		}
		id, resource := of(o)
		if only := asked.Preconditions; only != nil {
			if only.UID != nil && *only.UID != have.GetUID() || only.ResourceVersion != nil && *only.ResourceVersion != have.GetResourceVersion() {
				return apierrors.NewConflict(resource, o.GetName(), fmt.Errorf("it is UID %s, version %s", have.GetUID(), have.GetResourceVersion()))
			}
		}
		if len(have.GetFinalizers()) == 0 {
			delete(r.server.kept, id)
		} else if have.GetDeletionTimestamp() == nil {
			next, now := have.DeepCopyObject().(client.Object), metav1.Now()
			next.SetDeletionTimestamp(&now)
			r.server.number(next)
			r.server.kept[id] = next
		}
		return nil
	})
}

func (r *reached) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	return r.around("update "+strings.ToLower(kindOf(o)), func() error {
		have, err := r.server.find(o)
		if err != nil {
			return err
		}
		return r.server.write(have, withStatus(o, have), o)
	})
}

func (r *reached) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return r.around("patch prototype", func() error {
		have, err := r.server.find(o)
		if err != nil {
			return err
		}
		change, err := changeOf(patch, o)
		if err != nil {
			return err
		}
		delete(change, "status")
		next := blank(have)
		if err := merged(withStatus(have, nil), change, next); err != nil {
			return err
		}
		return r.server.write(have, withStatus(next, have), o)
	})
}

func (r *reached) Status() client.SubResourceWriter { return statuses{reached: r} }

// statuses are what the server keeps of its objects' statuses.
type statuses struct {
	client.SubResourceWriter // nil: what is not implemented here panics
	reached                  *reached
}

func (w statuses) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return w.reached.around("update "+strings.ToLower(kindOf(o))+" status", func() error {
		have, err := w.reached.server.find(o)
		if err != nil {
			return err
		}
		next := withStatus(have, o)
		next.SetResourceVersion(o.GetResourceVersion())
		next.SetUID(o.GetUID())
		return w.reached.server.write(have, next, o)
	})
}

func (w statuses) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return w.reached.around("patch prototype status", func() error {
		have, err := w.reached.server.find(o)
		if err != nil {
			return err
		}
		change, err := changeOf(patch, o)
		if err != nil {
			return err
		}
		next := withStatus(have, nil)
		inner, _ := change["status"].(map[string]any)
		if err := merged(status(have), inner, status(next)); err != nil {
			return err
		}
		return w.reached.server.write(have, next, o)
	})
}

// changeOf reads a merge patch.
func changeOf(patch client.Patch, o client.Object) (change map[string]any, err error) {
	data, err := patch.Data(o)
	if err != nil || patch.Type() != types.MergePatchType {
		return nil, errors.Join(err, fmt.Errorf("the patch is a %s: %s", patch.Type(), data))
	}
	return change, json.Unmarshal(data, &change)
}

// merged has an empty value become another one with a change.
func merged(from any, change map[string]any, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	var whole map[string]any
	if err := json.Unmarshal(text, &whole); err != nil {
		return err
	}
	if text, err = json.Marshal(merge(whole, change)); err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// merge is a merge patch, by RFC 7386: null removes, a map goes into a map, and anything else takes the place.
func merge(whole, change map[string]any) map[string]any {
	if whole == nil {
		whole = map[string]any{}
	}
	for key, value := range change {
		inner, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(whole, key)
		case isMap:
			there, _ := whole[key].(map[string]any)
			whole[key] = merge(there, inner)
		default:
			whole[key] = value
		}
	}
	return whole
}
