package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// apiServer is a partial Kubernetes API server for the command's requests: collections of JSON objects with list, watch,
// create, replace and delete, with resource versions, finalizers and dry runs. Transcripts use real clients without a
// cluster.
type apiServer struct {
	*httptest.Server
	trouble serverFaults

	mu       sync.Mutex
	version  int
	deleted  []*unstructured.Unstructured
	objects  map[string]*unstructured.Unstructured // by path
	watchers map[chan metav1.WatchEvent]string     // path prefix by watcher
}

// serverFaults holds the faults of a transcript's server.yaml.
type serverFaults struct {
	// Skew is the lead of the server's clock, as a duration.
	Skew string `json:"skew"`
	// Forbid lists forbidden requests, such as "POST prototypes".
	Forbid []string `json:"forbid"`
	// Missing lists unknown resources.
	Missing []string `json:"missing"`
	// Deny lists denied permissions in reviews of one's own permissions, such as "create pods/eviction".
	Deny []string `json:"deny"`
	// Invalid holds invalid values of Prototypes by their dotted paths, as the API server's rules would refuse the values.
	Invalid map[string]any `json:"invalid"`
	// Unauthorized refuses the credential of all requests.
	Unauthorized bool `json:"unauthorized"`
}

// testClusterID is the ID of a transcript's cluster, and systemNamespace the namespace with this ID.
const (
	testClusterID   = "the-cluster"
	systemNamespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system, uid: " + testClusterID + "}\n"
)

// newAPIServer starts a server with the objects of a YAML stream.
func newAPIServer(world, troubles []byte) (*apiServer, error) {
	s := &apiServer{objects: map[string]*unstructured.Unstructured{}, watchers: map[chan metav1.WatchEvent]string{}}
	if err := yaml.UnmarshalStrict(troubles, &s.trouble); err != nil {
		return nil, err
	}
	for _, document := range append(strings.Split(string(world), "---\n"), systemNamespace) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), object); err != nil {
			return nil, err
		}
		if object.GetKind() != "" {
			s.create(pathOf(object), object)
		}
	}
	s.Server = httptest.NewServer(s)
	return s, nil
}

func pathOf(object *unstructured.Unstructured) string {
	root := "/apis/" + object.GetAPIVersion()
	if !strings.Contains(object.GetAPIVersion(), "/") {
		root = "/api/" + object.GetAPIVersion()
	}
	if ns := object.GetNamespace(); ns != "" {
		root += "/namespaces/" + ns
	}
	resource := strings.ToLower(object.GetKind()) + "s"
	if base, found := strings.CutSuffix(resource, "ys"); found {
		resource = base + "ies"
	}
	return root + "/" + resource + "/" + object.GetName()
}

// get is the object at a path, or nil.
func (s *apiServer) get(path string) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.objects[path]; found != nil {
		return found.DeepCopy()
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	skew, _ := time.ParseDuration(s.trouble.Skew)
	w.Header().Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Type", "application/json")
	path := strings.TrimSuffix(r.URL.Path, "/status")
	resource, name := resourceOf(path)
	switch {
	case s.trouble.Unauthorized:
		fail(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	case s.isMissing(resource):
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	case slices.Contains(s.trouble.Forbid, r.Method+" "+resource):
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("%s is forbidden: User \"me\" cannot do that", resource))
	case r.Method == http.MethodPost && resource == "selfsubjectaccessreviews":
		s.serveReview(w, r)
	case r.Method == http.MethodPost && resource == "localsubjectaccessreviews":
		s.serveAccountReview(w, r)
	case r.Method == http.MethodPost && resource == "selfsubjectreviews":
		review := &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: userOf(r)}}}
		review.APIVersion, review.Kind = "authentication.k8s.io/v1", "SelfSubjectReview"
		answer(w, http.StatusCreated, review)
	case path == "/version":
		_, _ = w.Write([]byte(`{"gitVersion":"v1.37.1"}`))
	case path == "/apis/admissionregistration.k8s.io/v1":
		_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"admissionregistration.k8s.io/v1","resources":[{"name":"validatingadmissionpolicies","kind":"ValidatingAdmissionPolicy"}]}`))
	case path == "/apis/"+v1alpha1.GroupVersion.String():
		s.serveKinds(w)
	case r.Method == http.MethodGet && name != "":
		s.serveGet(w, path, resource, name)
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		s.serveWatch(w, r, path)
	case r.Method == http.MethodGet:
		s.serveList(w, path)
	default:
		s.serveWrite(w, r, path, resource, name)
	}
}

// userOf is the user of a request: "me" of the kubeconfig, or the impersonated user with groups and UID.
func userOf(r *http.Request) string {
	user := r.Header.Get("Impersonate-User")
	if user == "" {
		return "me"
	}
	for _, more := range slices.Concat(r.Header.Values("Impersonate-Group"), r.Header.Values("Impersonate-Uid")) {
		user += "+" + more
	}
	return user
}

// serveReview answers a review of the user's permissions.
func (s *apiServer) serveReview(w http.ResponseWriter, r *http.Request) {
	review := &authorizationv1.SelfSubjectAccessReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	a := review.Spec.ResourceAttributes
	asked := a.Verb + " " + a.Resource
	if a.Subresource != "" {
		asked += "/" + a.Subresource
	}
	review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SelfSubjectAccessReview"
	review.Status.Allowed = !slices.Contains(s.trouble.Deny, asked) && !slices.Contains(s.trouble.Deny, userOf(r)+": "+asked)
	answer(w, http.StatusCreated, review)
}

// serveAccountReview answers a review of another account in a namespace: all permissions except denied ones.
func (s *apiServer) serveAccountReview(w http.ResponseWriter, r *http.Request) {
	review := &authorizationv1.LocalSubjectAccessReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	a := review.Spec.ResourceAttributes
	review.APIVersion, review.Kind = "authorization.k8s.io/v1", "LocalSubjectAccessReview"
	review.Status.Allowed = !slices.Contains(s.trouble.Deny, review.Spec.User+": "+a.Verb+" "+a.Resource)
	answer(w, http.StatusCreated, review)
}

// resourceOf splits /apis/GROUP/VERSION[/namespaces/NS]/RESOURCE[/NAME].
func resourceOf(path string) (resource, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	parts = parts[min(2, len(parts)):]
	if strings.HasPrefix(path, "/apis/") {
		parts = parts[min(1, len(parts)):]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	parts = append(parts, "", "")
	return parts[0], parts[1]
}

// serveKinds lists Kamino's kinds, as discovery does.
func (s *apiServer) serveKinds(w http.ResponseWriter) {
	kinds := &metav1.APIResourceList{GroupVersion: v1alpha1.GroupVersion.String()}
	for _, kind := range []string{"prototypes", "prototypepolicies", "nodeorders"} {
		if !s.isMissing(kind) {
			kinds.APIResources = append(kinds.APIResources, metav1.APIResource{Name: kind})
		}
	}
	kinds.Kind, kinds.APIVersion = "APIResourceList", "v1"
	answer(w, http.StatusOK, kinds)
}

func (s *apiServer) serveGet(w http.ResponseWriter, path, resource, name string) {
	found := s.get(path)
	if found == nil {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", resource, name))
		return
	}
	answer(w, http.StatusOK, found)
}

func (s *apiServer) serveList(w http.ResponseWriter, path string) {
	s.mu.Lock()
	items := []any{}
	for _, key := range sortedKeys(s.objects) {
		if strings.HasPrefix(key, path+"/") {
			items = append(items, s.objects[key].DeepCopy().Object)
		}
	}
	version := s.version
	s.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{
		"metadata": map[string]any{"resourceVersion": fmt.Sprint(version)}, "items": items,
	})
}

func (s *apiServer) serveWatch(w http.ResponseWriter, r *http.Request, path string) {
	events := make(chan metav1.WatchEvent, 100)
	s.mu.Lock()
	s.watchers[events] = path + "/"
	// Changes between the client's list and its watch come first.
	for _, key := range sortedKeys(s.objects) {
		if strings.HasPrefix(key, path+"/") && s.objects[key].GetResourceVersion() > r.URL.Query().Get("resourceVersion") {
			events <- eventOf("MODIFIED", s.objects[key])
		}
	}
	for _, object := range s.deleted {
		if strings.HasPrefix(pathOf(object), path+"/") && object.GetResourceVersion() > r.URL.Query().Get("resourceVersion") {
			events <- eventOf("DELETED", object)
		}
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watchers, events)
		s.mu.Unlock()
	}()
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case event := <-events:
			_ = json.NewEncoder(w).Encode(event)
			w.(http.Flusher).Flush()
		}
	}
}

func (s *apiServer) serveWrite(w http.ResponseWriter, r *http.Request, path, resource, name string) {
	body := &unstructured.Unstructured{Object: map[string]any{}}
	if r.Method != http.MethodDelete {
		if err := json.NewDecoder(r.Body).Decode(&body.Object); err != nil {
			fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
			return
		}
	}
	if r.Method == http.MethodPost {
		if body.GetName() == "" {
			body.SetName(body.GetGenerateName() + "x")
		}
		path += "/" + body.GetName()
		name = body.GetName()
	}
	before := s.get(path)
	if resource == "customresourcedefinitions" {
		s.define(body)
	}
	dryRun := r.URL.Query().Get("dryRun") != ""
	switch {
	case r.Method == http.MethodPost && before != nil:
		fail(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, fmt.Sprintf("%s %q already exists", resource, name))
	case r.Header.Get("Content-Type") == string(types.ApplyPatchType) && before == nil:
		answer(w, http.StatusCreated, s.create(path, body))
	case r.Method != http.MethodPost && before == nil:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", resource, name))
	case r.Method == http.MethodPut && body.GetResourceVersion() != before.GetResourceVersion():
		fail(w, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
	case resource == "prototypes" && s.invalid(body) != "":
		fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, fmt.Sprintf("Prototype.kamino.dev %q is invalid: %s", name, s.invalid(body)))
	case dryRun:
		answer(w, http.StatusOK, body)
	case r.Method == http.MethodPost:
		answer(w, http.StatusCreated, s.create(path, body))
	case r.Method == http.MethodPut:
		answer(w, http.StatusOK, s.put(path, "MODIFIED", body))
	case r.Method == http.MethodPatch:
		answer(w, http.StatusOK, s.put(path, "MODIFIED", &unstructured.Unstructured{Object: merged(before.Object, body.Object)}))
	default:
		answer(w, http.StatusOK, s.remove(path, before))
	}
}

// define serves the kind of a definition.
func (s *apiServer) define(definition *unstructured.Unstructured) {
	plural, _, _ := strings.Cut(definition.GetName(), ".")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble.Missing = slices.DeleteFunc(slices.Clone(s.trouble.Missing), func(missing string) bool { return missing == plural })
	definition.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
}

// isMissing reports whether the server does not know the resource.
func (s *apiServer) isMissing(resource string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.trouble.Missing, resource)
}

// invalid names the first invalid value of an object; empty without such a value.
func (s *apiServer) invalid(object *unstructured.Unstructured) string {
	for path, refused := range s.trouble.Invalid {
		value, found, _ := unstructured.NestedFieldNoCopy(object.Object, strings.Split(path, ".")...)
		if found && fmt.Sprint(value) == fmt.Sprint(refused) {
			return fmt.Sprintf("%s: Invalid value: %v: the definition's rule", path, value)
		}
	}
	return ""
}

// merged applies a JSON merge patch (RFC 7386).
func merged(into, patch map[string]any) map[string]any {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		before, wasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			into[key] = merged(before, inner)
		default:
			into[key] = value
		}
	}
	return into
}

func (s *apiServer) create(path string, object *unstructured.Unstructured) *unstructured.Unstructured {
	if object.GetUID() == "" {
		object.SetUID("00000000-0000-0000-0000-000000000001")
	}
	if at := object.GetCreationTimestamp(); at.IsZero() {
		object.SetCreationTimestamp(metav1.NewTime(testNow))
	}
	return s.put(path, "ADDED", object)
}

func (s *apiServer) put(path, event string, object *unstructured.Unstructured) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	object.SetResourceVersion(fmt.Sprintf("%06d", s.version))
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		event = "DELETED"
		delete(s.objects, path)
		s.deleted = append(s.deleted, object.DeepCopy())
	} else {
		s.objects[path] = object.DeepCopy()
	}
	for watcher, prefix := range s.watchers {
		if strings.HasPrefix(path, prefix) {
			watcher <- eventOf(event, object)
		}
	}
	return object
}

func (s *apiServer) remove(path string, object *unstructured.Unstructured) *unstructured.Unstructured {
	now := metav1.NewTime(testNow)
	object.SetDeletionTimestamp(&now)
	return s.put(path, "MODIFIED", object)
}

func eventOf(event string, object *unstructured.Unstructured) metav1.WatchEvent {
	e := metav1.WatchEvent{Type: event}
	e.Object.Object = object.DeepCopy()
	return e
}

func sortedKeys(objects map[string]*unstructured.Unstructured) []string {
	keys := make([]string, 0, len(objects))
	for key := range objects {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func answer(w http.ResponseWriter, code int, value any) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value)
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: corev1.SchemeGroupVersion.String()},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}
