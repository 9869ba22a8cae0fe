package trouble

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/untried"
)

// thief has a token of the generalize pod's account, as root on a donor has.
type thief struct {
	*ground
	config *rest.Config
	kube   kubernetes.Interface
	any    dynamic.Interface
}

// steals a token as the kubelet gives it to the pod: of the same account, bound to the same pod.
func (g *ground) steals(pod *corev1.Pod) *thief {
	g.Helper()
	seconds := int64(600)
	answer, err := sandbox.Kube().CoreV1().ServiceAccounts(pod.Namespace).CreateToken(g.Context(), pod.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds, BoundObjectRef: &authenticationv1.BoundObjectReference{
			Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID,
		}}}, metav1.CreateOptions{})
	g.must(err)
	config := rest.AnonymousClientConfig(sandbox.Config())
	config.BearerToken = answer.Status.Token
	t := &thief{ground: g, config: config}
	t.kube, err = kubernetes.NewForConfig(config)
	g.must(err)
	t.any, err = dynamic.NewForConfig(config)
	g.must(err)
	return t
}

func (t *thief) resource(resource string) dynamic.NamespaceableResourceInterface {
	return t.any.Resource(v1alpha1.GroupVersion.WithResource(resource))
}

// wall adds the admission policy of the manifests for the ground's namespace.
func (g *ground) wall() {
	g.Helper()
	var policy []string
	for _, text := range strings.Split(sandbox.Must(g.T, "kamino", "manifests", "--namespace", g.namespace), "\n---\n") {
		if strings.Contains(text, "kind: ValidatingAdmissionPolicy") && strings.Contains(text, "name: kamino-orders.") {
			policy = append(policy, text)
		}
	}
	if len(policy) != 2 {
		g.Fatalf("the manifests have %d documents of the policy, want 2", len(policy))
	}
	file := filepath.Join(g.TempDir(), "policy.yaml")
	writeFile(g.T, file, strings.Join(policy, "\n---\n"))
	sandbox.Must(g.T, "kubectl", "apply", "--server-side", "-f", file)
}

// looked ends the pods that look at a donor's disk, as who has the node can: such a pod proves nothing. Its kubelet may
// say once more that it runs.
func (g *ground) looked() {
	g.Helper()
	pods := sandbox.Kube().CoreV1().Pods(g.namespace)
	eventually(g.T, "the disk is looked at", func() (bool, string) {
		early := []v1alpha1.Phase{"", v1alpha1.PhasePending, v1alpha1.PhasePreflight}
		if of := g.prototypes(g.Context()); len(of) == 1 && !slices.Contains(early, of[0].Status.Phase) {
			return true, ""
		}
		all, err := pods.List(g.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=look"})
		g.must(err)
		for i := range all.Items {
			if pod := &all.Items[i]; pod.Status.Phase == corev1.PodRunning {
				_, err = pods.Patch(g.Context(), pod.Name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
			}
		}
		return false, fmt.Sprintf("%d pods look, %v", len(all.Items), err)
	})
}

// ordered is the order of the pool's only Prototype, once its pod is there and known.
func (g *ground) ordered() (*v1alpha1.Order, *corev1.Pod) {
	g.Helper()
	g.looked()
	var record v1alpha1.Record
	g.reaches("the pod is written down", func(p *v1alpha1.Prototype) bool {
		var err error
		record, err = v1alpha1.RecordOf(p)
		return err == nil && record.Order != nil && record.Order.Pod != ""
	})
	all, err := sandbox.Kube().CoreV1().Pods(g.namespace).List(g.Context(), metav1.ListOptions{})
	g.must(err)
	for i := range all.Items {
		if pod := &all.Items[i]; pod.UID == record.Order.Pod {
			return g.orderNamed(pod.Name), pod
		}
	}
	g.Fatal("the pod that is written down is not there")
	return nil, nil
}

func (g *ground) orders() dynamic.ResourceInterface {
	g.Helper()
	c, err := dynamic.NewForConfig(sandbox.Config())
	g.must(err)
	return c.Resource(v1alpha1.GroupVersion.WithResource("orders")).Namespace(g.namespace)
}

func (g *ground) orderNamed(name string) *v1alpha1.Order {
	g.Helper()
	found, err := g.orders().Get(g.Context(), name, metav1.GetOptions{})
	g.must(err)
	o := &v1alpha1.Order{}
	g.must(runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, o))
	return o
}

// forged is a report with a proof that nobody has made, signed with a key of the thief's own.
func (g *ground) forged(o *v1alpha1.Order, pod types.UID) v1alpha1.OrderStatus {
	g.Helper()
	private, _, err := v1alpha1.NewOrderKey()
	g.must(err)
	key, _, err := v1alpha1.OrderKey(private)
	g.must(err)
	status, err := (&v1alpha1.Report{Order: o.UID, Pod: pod, Proof: &v1alpha1.Proof{
		UID: o.Spec.PrototypeUID, BootID: o.Spec.Token, Profile: v1alpha1.ProfileStatic, ProfileVersion: "1", Rules: 7, Met: 7,
		ManifestDigest: "sha256:0", At: metav1.Now(),
	}}).Sign(key)
	g.must(err)
	return status
}

// TestTheTokenOfTheGeneralizePodForgesNothing: what a thief of the pod's real token can think of, against the real API
// server, while the capture waits for a proof. The donor's disk is not copied, and another pool's node not touched.
func TestTheTokenOfTheGeneralizePodForgesNothing(t *testing.T) {
	g := newGround(t, "name=forge,nodes=2")
	g.wall()
	before := g.look()
	// A pod that never ends stands for one whose node is the thief's.
	capture := g.capture(g.nodes[0], "--image", "example.com/idle:v1")
	order, pod := g.ordered()
	thief := g.steals(pod)
	p := g.prototype()
	queued := g.queued()

	thief.mayRead(order)
	thief.isForbidden(p, order)
	thief.isWalledOff(order)
	thief.strikes(queued)
	thief.writesOnItsOwn(order, pod)

	eventually(t, "the engine sees what was written, and does not believe it", func() (bool, string) {
		return capture.heard("is not signed with the order's key"), capture.stderr.String()
	})
	if proof, err := v1alpha1.ProofOf(g.prototype()); proof != nil || err != nil {
		t.Errorf("the engine believes %+v, %v", proof, err)
	}
	if writes := g.writes(); count(writes, "snapshot put")+count(writes, "instance powerOff")+count(writes, "instance deallocate") > 0 {
		t.Errorf("the cloud was asked for %v", writes)
	}
	queued.untouched()
	capture.interrupt()
	capture.ends(t, 130)
	g.start("cancel", p.Name).ends(t, 0)
	g.givenBack(before, g.nodes[0], 1)
	g.gone(p.Name)
	if _, err := g.orders().Get(g.Context(), order.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the order is left: %v", err)
	}
	if _, err := sandbox.Kube().CoreV1().Secrets(g.namespace).Get(g.Context(), order.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the order's key is left: %v", err)
	}
}

// bystander is another pool's capture that waits for its turn, with an order as one that was cut off leaves it, in the
// namespace that the thief's token is of.
type bystander struct {
	*ground
	before sight
	child  *child
	p      *v1alpha1.Prototype
	order  *v1alpha1.Order
}

// queued lets a capture of another pool wait for the ground's.
func (g *ground) queued() *bystander {
	g.Helper()
	other := ownGround(g.T, "name=queued,nodes=2")
	other.namespace = "kamino-" + other.pool.Name
	sandbox.Namespace(other.T, other.namespace)
	b := &bystander{ground: other, before: other.look()}
	b.child = other.start(untried.Capture(other.nodes[0], "--max-concurrent", "1")...)
	other.reaches("it waits for its turn", func(p *v1alpha1.Prototype) bool {
		b.p = p
		return p.Status.Progress != "" && len(p.Finalizers) == 0
	})
	o := &v1alpha1.Order{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Order"}, ObjectMeta: metav1.ObjectMeta{Name: "generalize-" + b.p.Name},
		Spec: v1alpha1.OrderSpec{Prototype: b.p.Name, PrototypeUID: b.p.UID, NodeName: other.nodes[0], BootID: other.node(other.nodes[0]).Status.NodeInfo.BootID,
			PodName: "generalize-" + b.p.Name, Generalize: b.p.Spec.Settings.Generalize, Key: "a2V5"}}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	g.must(err)
	_, err = g.orders().Create(g.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	g.must(err)
	b.order = g.orderNamed(o.Name)
	g.Cleanup(func() { _ = g.orders().Delete(context.Background(), o.Name, metav1.DeleteOptions{}) })
	return b
}

// strikes at the bystander with all that the token lets it try.
func (t *thief) strikes(b *bystander) {
	t.Helper()
	t.isForbidden(b.p, b.order)
	patch := []byte(t.text(map[string]any{"status": t.forged(b.order, "x")}))
	_, err := t.resource("orders").Namespace(t.namespace).Patch(t.Context(), b.order.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err == nil || !strings.Contains(err.Error(), "a token reports only on") {
		t.Errorf("a report on another pool's order is taken: %v", err)
	}
	for _, of := range []string{b.namespace, v1alpha1.DefaultNamespace} {
		if _, err := t.resource("orders").Namespace(of).Get(t.Context(), b.order.Name, metav1.GetOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("the token reads orders of namespace %s: %v", of, err)
		}
	}
}

// untouched: the other pool's Prototype and the order are as they were, its nodes serve, and its cloud was not written.
func (b *bystander) untouched() {
	b.Helper()
	now := b.prototype()
	if diff := cmp.Diff(b.p.ObjectMeta.Annotations, now.ObjectMeta.Annotations); diff != "" || len(now.Finalizers) > 0 || !cmp.Equal(b.p.Spec, now.Spec) || !cmp.Equal(b.p.Labels, now.Labels) {
		b.Errorf("another pool's Prototype was changed: %s", diff)
	}
	if !now.DeletionTimestamp.IsZero() || now.Status.Phase == v1alpha1.PhaseSucceeded || now.Status.Failure != nil {
		b.Errorf("another pool's capture is %s, %+v", now.Status.Phase, now.Status.Failure)
	}
	if writes := b.writes(); len(writes) > 0 {
		b.Errorf("another pool's cloud was written: %v", writes)
	}
	b.child.interrupt()
	b.child.ends(b.T, 130)
	b.start("cancel", b.p.Name).ends(b.T, 0)
	b.gone(b.p.Name)
	b.givenBack(b.before, b.nodes[0], 0)
}

// mayRead what the pod must.
func (t *thief) mayRead(order *v1alpha1.Order) {
	t.Helper()
	if _, err := t.resource("orders").Namespace(t.namespace).Get(t.Context(), order.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("the pod cannot read its order: %v", err)
	}
}

// isForbidden has everything that the account has no right to.
func (t *thief) isForbidden(p *v1alpha1.Prototype, order *v1alpha1.Order) {
	t.Helper()
	record := t.text(v1alpha1.Record{GeneralizeBootID: "b", Order: &v1alpha1.OrderRecord{UID: "u", Key: "k", Pod: "p"}})
	prototypes, orders := t.resource("prototypes"), t.resource("orders").Namespace(t.namespace)
	patch := func(of dynamic.ResourceInterface, name, text string, sub ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := of.Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{}, sub...)
			return err
		}
	}
	meta := func(what string) string { return `{"metadata":{` + what + `}}` }
	for what, do := range map[string]func(context.Context) error{
		"write a record":    patch(prototypes, p.Name, meta(fmt.Sprintf(`"annotations":{%q:%q}`, v1alpha1.RecordAnnotation, record))),
		"write a proof":     patch(prototypes, p.Name, meta(fmt.Sprintf(`"annotations":{%q:"{}"}`, v1alpha1.ProofAnnotation))),
		"strip a finalizer": patch(prototypes, p.Name, meta(`"finalizers":[]`)),
		"write a label":     patch(prototypes, p.Name, meta(`"labels":{"a":"b"}`)),
		"write a status":    patch(prototypes, p.Name, `{"status":{"phase":"Succeeded"}}`, "status"),
		"read a Prototype": func(ctx context.Context) error {
			_, err := prototypes.Get(ctx, p.Name, metav1.GetOptions{})
			return err
		},
		"delete a Prototype": func(ctx context.Context) error { return prototypes.Delete(ctx, p.Name, metav1.DeleteOptions{}) },
		"change an order":    patch(orders, order.Name, `{"spec":{"key":"mine"}}`),
		"own an order":       patch(orders, order.Name, meta(`"ownerReferences":[]`)),
		"delete an order":    func(ctx context.Context) error { return orders.Delete(ctx, order.Name, metav1.DeleteOptions{}) },
		"list orders":        func(ctx context.Context) error { _, err := orders.List(ctx, metav1.ListOptions{}); return err },
		"read the key": func(ctx context.Context) error {
			_, err := t.kube.CoreV1().Secrets(t.namespace).Get(ctx, order.Name, metav1.GetOptions{})
			return err
		},
		"make a pod": func(ctx context.Context) error {
			_, err := t.kube.CoreV1().Pods(t.namespace).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}}}, metav1.CreateOptions{})
			return err
		},
		"delete its pod": func(ctx context.Context) error {
			return t.kube.CoreV1().Pods(t.namespace).Delete(ctx, order.Name, metav1.DeleteOptions{})
		},
		"get another token": func(ctx context.Context) error {
			_, err := t.kube.CoreV1().ServiceAccounts(t.namespace).CreateToken(ctx, v1alpha1.GeneralizeServiceAccount, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			return err
		},
		"read a node": func(ctx context.Context) error {
			_, err := t.kube.CoreV1().Nodes().Get(ctx, t.nodes[1], metav1.GetOptions{})
			return err
		},
		"take the Lease": func(ctx context.Context) error {
			return t.kube.CoordinationV1().Leases(t.namespace).Delete(ctx, v1alpha1.LeaseName, metav1.DeleteOptions{})
		},
		"change rules of the own": func(ctx context.Context) error {
			return t.kube.CoreV1().ConfigMaps(t.namespace).Delete(ctx, "kube-root-ca.crt", metav1.DeleteOptions{})
		},
	} {
		if err := do(t.Context()); !apierrors.IsForbidden(err) {
			t.Errorf("the thief may %s: %v", what, err)
		}
	}
}

// isWalledOff: an order for another pod, or another node, is none of the token's, though RBAC would let it.
func (t *thief) isWalledOff(own *v1alpha1.Order) {
	t.Helper()
	for name, change := range map[string]func(*v1alpha1.OrderSpec){
		"another-pod":  func(s *v1alpha1.OrderSpec) { s.PodName = "generalize-another" },
		"another-node": func(s *v1alpha1.OrderSpec) { s.NodeName = t.nodes[1] },
	} {
		other := &v1alpha1.Order{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Order"}, ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: own.Spec}
		change(&other.Spec)
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(other)
		t.must(err)
		_, err = t.orders().Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		t.must(err)
		patch := []byte(t.text(map[string]any{"status": t.forged(other, "x")}))
		// The API server takes a moment to heed a policy that is new.
		eventually(t.T, "the wall stands before "+name, func() (bool, string) {
			_, err := t.resource("orders").Namespace(t.namespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
			return err != nil && strings.Contains(err.Error(), "a token reports only on"), fmt.Sprint(err)
		})
		t.must(t.orders().Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
}

// writesOnItsOwn order what it likes, and that alone: nothing but the status is taken.
func (t *thief) writesOnItsOwn(order *v1alpha1.Order, pod *corev1.Pod) {
	t.Helper()
	patch := []byte(t.text(map[string]any{"metadata": map[string]any{"labels": map[string]string{"a": "b"}, "finalizers": []string{"a/b"}}, "status": t.forged(order, pod.UID)}))
	written, err := t.resource("orders").Namespace(t.namespace).Patch(t.Context(), order.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	t.must(err)
	if len(written.GetFinalizers()) > 0 || written.GetLabels()["a"] != "" {
		t.Errorf("a status carries metadata along: %v %v", written.GetLabels(), written.GetFinalizers())
	}
}

// TestAForgedProofOnADonorThatIsOff: the thief has root, so that it can power the donor off behind what it wrote.
// The capture fails, says why, and gives the donor back; nothing was made of the disk.
func TestAForgedProofOnADonorThatIsOff(t *testing.T) {
	g := newGround(t, "name=unsigned,nodes=2")
	before := g.look()
	capture := g.capture(g.nodes[0], "--image", "example.com/idle:v1")
	order, pod := g.ordered()
	thief := g.steals(pod)
	patch := []byte(g.text(map[string]any{"status": g.forged(order, pod.UID)}))
	_, err := thief.resource("orders").Namespace(g.namespace).Patch(t.Context(), order.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	g.must(err)
	g.must(sandbox.Crash(t.Context(), g.nodes[0]))
	capture.ends(t, 4, "is not signed with the order's key")
	g.failed("NotProven")
	g.givenBack(before, g.nodes[0], 1)
}
