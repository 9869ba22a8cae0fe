// Package inmemory is an in-memory API server for tests. With tens of thousands of captures, the fake client of
// controller-runtime takes most of the time, because each call converts JSON several times. This server copies objects.
// Only tests import the package.
package inmemory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Server stores objects of Kamino's kinds with separate statuses. Server numbers writes, refuses writes with an old
// resource version, and keeps deleted objects until the last finalizer is gone. Server neither sets defaults nor validates.
type Server struct {
	now     func() time.Time
	mu      sync.Mutex
	kept    map[string]client.Object
	version int
}

// New returns an empty Server. now is the clock for creations and deletions. A new object gets a UID, unless the test sets
// a UID.
func New(now func() time.Time) *Server { return &Server{now: now, kept: map[string]client.Object{}} }

// Backup returns a function that restores all objects as they are now, as a restore of etcd does.
func (s *Server) Backup() (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := maps.Clone(s.kept) // a write never changes a stored object
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.kept = maps.Clone(kept)
	}
}

// Call is a client's call. Verb is get, list, create, update, patch or delete; Kind is the kind of the object or of the
// listed objects.
type Call struct {
	Verb, Kind string
	// Status reports that the call concerns only the status.
	Status bool
}

// String is the call in lower case, "patch prototype status".
func (c Call) String() string {
	said := c.Verb + " " + strings.ToLower(c.Kind)
	if c.Status {
		said += " status"
	}
	return said
}

// Client returns a client of the server. around may suppress the effect or the answer of each call; nil passes all calls.
// Calls that no test needs panic.
func (s *Server) Client(around func(call Call, effect func() error) error) client.Client {
	if around == nil {
		around = func(_ Call, effect func() error) error { return effect() }
	}
	return &serverClient{server: s, intercept: around}
}

// serverClient is the client's view of the server.
type serverClient struct {
	client.Client // nil
	server        *Server
	intercept     func(Call, func() error) error
}

// does runs a call under the server's lock.
func (r *serverClient) does(verb string, o runtime.Object, status bool, effect func() error) error {
	return r.intercept(Call{Verb: verb, Kind: strings.TrimSuffix(kindOf(o), "List"), Status: status}, func() error {
		r.server.mu.Lock()
		defer r.server.mu.Unlock()
		return effect()
	})
}

func kindOf(o runtime.Object) string { return reflect.TypeOf(o).Elem().Name() }

// idOf identifies an object.
func idOf(o client.Object) string { return kindOf(o) + "/" + o.GetNamespace() + "/" + o.GetName() }

func resourceOf(o client.Object) schema.GroupResource {
	return schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: strings.ToLower(kindOf(o)) + "s"}
}

func copied(o client.Object) client.Object { return o.DeepCopyObject().(client.Object) }

// into copies an object into another object of the same kind.
func into(from, to client.Object) {
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(copied(from)).Elem())
}

// blank is an empty object of the same kind.
func blank(o client.Object) client.Object {
	return reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
}

// statusOf is the settable status of an object.
func statusOf(o client.Object) reflect.Value { return reflect.ValueOf(o).Elem().FieldByName("Status") }

// withStatus is a copy of an object with the status of another object of the same kind.
func withStatus(o, from client.Object) client.Object {
	next := copied(o)
	statusOf(next).Set(statusOf(copied(from)))
	return next
}

func (s *Server) find(o client.Object) (client.Object, error) {
	have, found := s.kept[idOf(o)]
	if !found {
		return nil, apierrors.NewNotFound(resourceOf(o), o.GetName())
	}
	return have, nil
}

func (s *Server) keep(o client.Object) {
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.kept[idOf(o)] = o
}

func (s *Server) stamp() metav1.Time { return metav1.NewTime(s.now().Truncate(time.Second)) }

// write stores the next state of an object after a check of the resource version, and returns the state to the writer.
func (s *Server) write(have, next, o client.Object) error {
	if uid := next.GetUID(); uid != "" && uid != have.GetUID() {
		return apierrors.NewConflict(resourceOf(o), o.GetName(), fmt.Errorf("the UID is %s", have.GetUID()))
	}
	if from := next.GetResourceVersion(); from != "" && from != have.GetResourceVersion() {
		return apierrors.NewConflict(resourceOf(o), o.GetName(), errors.New("the object has been modified"))
	}
	next.SetUID(have.GetUID())
	next.SetCreationTimestamp(have.GetCreationTimestamp())
	next.SetDeletionTimestamp(have.GetDeletionTimestamp())
	next.SetResourceVersion(have.GetResourceVersion())
	if !equality.Semantic.DeepEqual(have, next) {
		s.keep(next)
	}
	if next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 {
		delete(s.kept, idOf(next))
	}
	into(next, o)
	return nil
}

func (r *serverClient) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return r.does("get", o, false, func() error {
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

func (r *serverClient) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(options)
	return r.does("list", list, false, func() error {
		kind, found := strings.TrimSuffix(kindOf(list), "List"), []runtime.Object{}
		for _, id := range slices.Sorted(maps.Keys(r.server.kept)) {
			o := r.server.kept[id]
			if kindOf(o) != kind || asked.Namespace != "" && o.GetNamespace() != asked.Namespace {
				continue
			}
			if asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(o.GetLabels())) {
				found = append(found, copied(o))
			}
		}
		return meta.SetList(list, found)
	})
}

func (r *serverClient) Create(_ context.Context, o client.Object, options ...client.CreateOption) error {
	var asked client.CreateOptions
	asked.ApplyOptions(options)
	return r.does("create", o, false, func() error {
		switch _, err := r.server.find(o); {
		case err == nil:
			return apierrors.NewAlreadyExists(resourceOf(o), o.GetName())
		case len(asked.DryRun) > 0:
			return nil
		}
		next := withStatus(o, blank(o))
		if next.GetUID() == "" {
			next.SetUID(types.UID(fmt.Sprintf("%s-%d", strings.ToLower(kindOf(o)), r.server.version)))
		}
		if made := next.GetCreationTimestamp(); made.IsZero() {
			next.SetCreationTimestamp(r.server.stamp())
		}
		r.server.keep(next)
		into(next, o)
		return nil
	})
}

func (r *serverClient) Delete(_ context.Context, o client.Object, options ...client.DeleteOption) error {
	var asked client.DeleteOptions
	asked.ApplyOptions(options)
	return r.does("delete", o, false, func() error {
		have, err := r.server.find(o)
		if err != nil {
			return err
		}
		if only := asked.Preconditions; only != nil {
			if only.UID != nil && *only.UID != have.GetUID() || only.ResourceVersion != nil && *only.ResourceVersion != have.GetResourceVersion() {
				return apierrors.NewConflict(resourceOf(o), o.GetName(),
					fmt.Errorf("the object has UID %s, version %s", have.GetUID(), have.GetResourceVersion()))
			}
		}
		if len(have.GetFinalizers()) == 0 {
			delete(r.server.kept, idOf(o))
			return nil
		}
		if have.GetDeletionTimestamp() == nil {
			next, now := copied(have), r.server.stamp()
			next.SetDeletionTimestamp(&now)
			r.server.keep(next)
		}
		return nil
	})
}

func (r *serverClient) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	return r.does("update", o, false, func() error {
		have, err := r.server.find(o)
		if err != nil {
			return err
		}
		return r.server.write(have, withStatus(o, have), o)
	})
}

// patch applies a merge patch: next returns the object after the change.
func (r *serverClient) patch(o client.Object, patch client.Patch, status bool,
	next func(have client.Object, change map[string]any) (client.Object, error)) error {
	return r.does("patch", o, status, func() error {
		have, err := r.server.find(o)
		if err != nil {
			return err
		}
		change, err := changeOf(patch, o)
		if err != nil {
			return err
		}
		after, err := next(have, change)
		if err != nil {
			return err
		}
		return r.server.write(have, after, o)
	})
}

func (r *serverClient) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return r.patch(o, patch, false, func(have client.Object, change map[string]any) (client.Object, error) {
		delete(change, "status")
		next := blank(have)
		err := merged(withStatus(have, next), change, next)
		return withStatus(next, have), err
	})
}

func (r *serverClient) Status() client.SubResourceWriter { return statuses{reached: r} }

// statuses writes the statuses of stored objects.
type statuses struct {
	client.SubResourceWriter // nil
	reached                  *serverClient
}

func (w statuses) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return w.reached.does("update", o, true, func() error {
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
	return w.reached.patch(o, patch, true, func(have client.Object, change map[string]any) (client.Object, error) {
		next := withStatus(have, blank(have))
		inner, _ := change["status"].(map[string]any)
		if of, is := change["metadata"].(map[string]any); is { // the condition of a conditional patch
			from, _ := of["resourceVersion"].(string)
			next.SetResourceVersion(from)
		}
		return next, merged(statusOf(have).Interface(), inner, statusOf(next).Addr().Interface())
	})
}

// changeOf reads a merge patch.
func changeOf(patch client.Patch, o client.Object) (change map[string]any, err error) {
	data, err := patch.Data(o)
	if err != nil {
		return nil, err
	}
	if patch.Type() != types.MergePatchType {
		return nil, fmt.Errorf("the patch is a %s: %s", patch.Type(), data)
	}
	return change, json.Unmarshal(data, &change)
}

// merged writes a value with a change into an empty value.
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

// merge applies a merge patch by RFC 7386: null removes, maps merge, and any other value replaces.
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
