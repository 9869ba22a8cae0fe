package trouble

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// thief has a token of the generalize pod, as root on a donor has.
type thief struct {
	*sandboxtest.Env
	order *v1alpha1.NodeOrder
	pod   *corev1.Pod
	kube  kubernetes.Interface
	// orders with the thief's rights, and with the administrator's.
	orders, admin dynamic.ResourceInterface
}

// ordersOf is a client for the orders of the environment's namespace.
func ordersOf(e *sandboxtest.Env, config *rest.Config) dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(config).Resource(v1alpha1.GroupVersion.WithResource("nodeorders")).Namespace(e.PodNamespace)
}

// endInspection ends the pods that inspect the donor's disk, which with an idle image would run forever.
func endInspection(e *sandboxtest.Env) {
	e.Helper()
	pods := e.Kube().CoreV1().Pods(e.PodNamespace)
	e.Eventually("the disk is inspected", func() (bool, string) {
		early := []v1alpha1.Phase{"", v1alpha1.PhasePending, v1alpha1.PhasePreflight}
		if p := e.Prototype(); p != nil && !slices.Contains(early, p.Status.Phase) {
			return true, ""
		}
		all, err := pods.List(e.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=look"})
		e.Must(err)
		for _, pod := range all.Items {
			if pod.Status.Phase == corev1.PodRunning {
				_, err = pods.Patch(e.Context(), pod.Name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
			}
		}
		return false, fmt.Sprintf("%d pods, %v", len(all.Items), err)
	})
}

// stealToken waits for the generalize pod of the pool's capture. The returned thief has a token like the kubelet's,
// of the same account and bound to the same pod.
func stealToken(e *sandboxtest.Env) *thief {
	e.Helper()
	endInspection(e)
	var record v1alpha1.Record
	e.WaitPrototype("the generalize pod is recorded", func(p *v1alpha1.Prototype) bool {
		var err error
		record, err = v1alpha1.RecordOf(p)
		return err == nil && record.Order != nil && record.Order.Pod != ""
	})
	t := &thief{Env: e, admin: ordersOf(e, sandbox.Config())}
	pods, err := e.Kube().CoreV1().Pods(e.PodNamespace).List(e.Context(), metav1.ListOptions{})
	e.Must(err)
	i := slices.IndexFunc(pods.Items, func(pod corev1.Pod) bool { return pod.UID == record.Order.Pod })
	if i < 0 {
		e.Fatal("the recorded pod is not there")
	}
	t.pod = &pods.Items[i]
	object, err := t.admin.Get(e.Context(), t.pod.Name, metav1.GetOptions{})
	e.Must(err)
	t.order = &v1alpha1.NodeOrder{}
	e.Must(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, t.order))

	seconds := int64(600)
	answer, err := e.Kube().CoreV1().ServiceAccounts(e.PodNamespace).CreateToken(e.Context(), t.pod.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				Kind: "Pod", APIVersion: "v1", Name: t.pod.Name, UID: t.pod.UID,
			}}}, metav1.CreateOptions{})
	e.Must(err)
	config := rest.AnonymousClientConfig(sandbox.Config())
	config.BearerToken = answer.Status.Token
	t.kube, t.orders = kubernetes.NewForConfigOrDie(config), ordersOf(e, config)
	return t
}

// forgedStatus is a report with a proof of the pod's, signed with a key of the thief's own.
func (t *thief) forgedStatus(o *v1alpha1.NodeOrder) v1alpha1.NodeOrderStatus {
	t.Helper()
	private, _, err := v1alpha1.NewOrderKey()
	t.Must(err)
	key, _, err := v1alpha1.OrderKey(private)
	t.Must(err)
	status, err := (&v1alpha1.Report{Order: o.UID, Pod: t.pod.UID, Proof: &v1alpha1.Proof{
		UID: o.Spec.Holder.UID, BootID: o.Spec.Token, Profile: v1alpha1.ProfileStatic, ProfileVersion: "1", Rules: 7, Met: 7,
		ManifestDigest: "sha256:0", At: metav1.Now(),
	}}).Sign(key)
	t.Must(err)
	return status
}

// report writes a forged report on an order, with metadata that a status must not change.
func (t *thief) report(o *v1alpha1.NodeOrder) (*unstructured.Unstructured, error) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": map[string]string{"a": "b"}, "finalizers": []string{"a/b"}}, "status": t.forgedStatus(o),
	})
	t.Must(err)
	return t.orders.Patch(t.Context(), o.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
}

// expectForbidden asserts that the token allows only to read its order and to report.
func (t *thief) expectForbidden() {
	t.Helper()
	if _, err := t.orders.Get(t.Context(), t.order.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("the pod cannot read its order: %v", err)
	}
	kamino := v1alpha1.GroupVersion.Group
	for _, r := range []authorizationv1.ResourceAttributes{
		{Verb: "get", Group: kamino, Resource: "prototypes", Name: t.Prototype().Name},
		{Verb: "patch", Group: kamino, Resource: "prototypes", Name: t.Prototype().Name},
		{Verb: "patch", Group: kamino, Resource: "prototypes", Subresource: "status", Name: t.Prototype().Name},
		{Verb: "delete", Group: kamino, Resource: "prototypes", Name: t.Prototype().Name},
		{Verb: "patch", Group: kamino, Resource: "nodeorders", Name: t.order.Name},
		{Verb: "delete", Group: kamino, Resource: "nodeorders", Name: t.order.Name},
		{Verb: "list", Group: kamino, Resource: "nodeorders"},
		{Verb: "get", Group: kamino, Resource: "nodeorders", Namespace: v1alpha1.DefaultGeneralizeNamespace, Name: t.order.Name},
		{Verb: "get", Resource: "secrets", Name: t.order.Name},
		{Verb: "create", Resource: "pods"},
		{Verb: "delete", Resource: "pods", Name: t.pod.Name},
		{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Name: v1alpha1.GeneralizeServiceAccount},
		{Verb: "get", Resource: "nodes", Name: t.Nodes[1]},
		{Verb: "delete", Group: "coordination.k8s.io", Resource: "leases", Name: v1alpha1.LeaseName},
		{Verb: "delete", Resource: "configmaps", Name: "kube-root-ca.crt"},
	} {
		if cluster := r.Resource == "prototypes" || r.Resource == "nodes"; r.Namespace == "" && !cluster {
			r.Namespace = t.PodNamespace
		}
		review, err := t.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &r}}, metav1.CreateOptions{})
		t.Must(err)
		if review.Status.Allowed {
			t.Errorf("the thief may %+v", r)
		}
	}
}

// expectPolicy asserts that the admission policy refuses reports on orders for another pod or node, which RBAC
// allows.
func (t *thief) expectPolicy() {
	t.Helper()
	for name, change := range map[string]func(*v1alpha1.NodeOrderSpec){
		"another-pod":  func(s *v1alpha1.NodeOrderSpec) { s.PodName = "generalize-another" },
		"another-node": func(s *v1alpha1.NodeOrderSpec) { s.NodeName = t.Nodes[1] },
	} {
		other := &v1alpha1.NodeOrder{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeOrder"},
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: t.order.Spec}
		change(&other.Spec)
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(other)
		t.Must(err)
		_, err = t.admin.Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		t.Must(err)
		// The API server takes a moment to apply a new policy.
		t.Eventually("a report on "+name+" is refused", func() (bool, string) {
			_, err := t.report(other)
			return err != nil && strings.Contains(err.Error(), "a token reports only on"), fmt.Sprint(err)
		})
		t.Must(t.admin.Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
}

// TestGeneralizePodTokenIsLimited against the real API server, while the capture waits for a proof: the donor's disk
// is not copied. Forged reports in all forms: capture's TestForgedReportsAreNotBelieved.
func TestGeneralizePodTokenIsLimited(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=forge,nodes=2")
	// A pod that never ends simulates a node that the thief controls.
	capture := e.CaptureWith(e.Donor, "generalize: {image: 'example.com/idle:v1'}")
	thief := stealToken(e)
	thief.expectForbidden()
	thief.expectPolicy()
	written, err := thief.report(thief.order)
	e.Must(err)
	if len(written.GetFinalizers()) > 0 || written.GetLabels()["a"] != "" {
		t.Errorf("a report changes metadata: %v %v", written.GetLabels(), written.GetFinalizers())
	}

	capture.WaitOutput("is not signed with the order's key")
	p := e.Prototype()
	if proof := p.Status.Proof; proof != nil {
		t.Errorf("the capture believes %+v", proof)
	}
	if e.CountWrites("snapshot put")+e.CountWrites("instance powerOff")+e.CountWrites("instance deallocate") > 0 {
		t.Errorf("the cloud got the writes %v", e.Writes())
	}
	capture.Interrupt()
	capture.ExpectExit(exitInterrupted)
	e.Start("cancel", p.Name).ExpectExit(0)
	e.AssertReturned(e.Before, e.Donor, 1)
	assertPrototypeGone(e, p.Name)
	if _, err := thief.admin.Get(t.Context(), thief.order.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the order is left: %v", err)
	}
	if _, err := e.Kube().CoreV1().Secrets(e.PodNamespace).Get(t.Context(), thief.order.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the order's key is left: %v", err)
	}
}
