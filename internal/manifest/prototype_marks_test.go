package manifest

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// prototypesAs is a client for Prototypes of an account with the verbs; without verbs, the account has its own rights.
func prototypesAs(t *testing.T, user string, verbs ...string) client.Client {
	t.Helper()
	config := rest.CopyConfig(apitest.Server(t))
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	}
	if len(verbs) > 0 {
		admin := kubernetes.NewForConfigOrDie(apitest.Server(t))
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"prototypes"}, Verbs: verbs}}}
		if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func prototypeNamed(name string, change ...func(*v1alpha1.Prototype)) *v1alpha1.Prototype {
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec = v1alpha1.PrototypeSpec{Pool: "pool1", Version: "2026.03.14", Donor: v1alpha1.Donor{NodeName: "node-1", ProviderID: "memory:///node-1"}}
	for _, c := range change {
		c(p)
	}
	return p
}

// TestMarksOnPrototypesAreKaminosOwn: accounts that create, update or delete Prototypes write neither annotations below
// kamino.dev/ nor the finalizer, and no status. Accounts that may delete remove the finalizer. Kamino's account may do all.
func TestMarksOnPrototypesAreKaminosOwn(t *testing.T) {
	admin := kubernetes.NewForConfigOrDie(apitest.Server(t))
	install(t, admin)
	creator := prototypesAs(t, "creator", "get", "create")
	updater := prototypesAs(t, "updater", "get", "update", "patch")
	remover := prototypesAs(t, "remover", "get", "update", "patch", "delete")
	engine := prototypesAs(t, "system:serviceaccount:kamino-system:kamino-engine")
	refused := func(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }

	waitForPolicy(t, "kamino-prototypes", func(try int) error {
		return creator.Create(t.Context(), prototypeNamed(fmt.Sprint("try-", try), func(p *v1alpha1.Prototype) {
			p.Annotations = map[string]string{v1alpha1.FormerRecordAnnotation: "{}"}
		}))
	})
	for name, forge := range map[string]func(*v1alpha1.Prototype){
		"the old record": func(p *v1alpha1.Prototype) { p.Annotations = map[string]string{v1alpha1.FormerRecordAnnotation: "{}"} },
		"the mark":       func(p *v1alpha1.Prototype) { p.Annotations = map[string]string{v1alpha1.BegunAnnotation: "u"} },
		"another one":    func(p *v1alpha1.Prototype) { p.Annotations = map[string]string{"kamino.dev/of-tomorrow": "u"} },
		"the finalizer":  func(p *v1alpha1.Prototype) { p.Finalizers = []string{v1alpha1.CaptureFinalizer} },
	} {
		if err := creator.Create(t.Context(), prototypeNamed("forged", forge)); !refused(err) {
			t.Errorf("an account creates a Prototype with %s: %v", name, err)
		}
	}
	born := prototypeNamed("born", func(p *v1alpha1.Prototype) {
		p.Annotations = map[string]string{"example.com/note": "mine"}
		p.Status = v1alpha1.PrototypeStatus{Phase: v1alpha1.PhaseGeneralizing, Record: &v1alpha1.Record{UID: "u", Returning: true},
			Proof: &v1alpha1.Proof{UID: "u"}, PatchSet: "x"}
	})
	if err := creator.Create(t.Context(), born); err != nil {
		t.Fatalf("a Prototype with an annotation of another tool: %v", err)
	}
	if err := engine.Get(t.Context(), client.ObjectKey{Name: "born"}, born); err != nil || born.Status.Record != nil || born.Status.Proof != nil ||
		born.Status.Phase != "" || born.Status.PatchSet != "" {
		t.Fatalf("a Prototype is born with the status %+v: %v", born.Status, err)
	}
	patch := func(c client.Client, text string) error {
		return c.Patch(t.Context(), prototypeNamed("born"), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	if err := patch(engine, `{"metadata":{"annotations":{"kamino.dev/begun":"u"},"finalizers":["kamino.dev/capture"]}}`); err != nil {
		t.Fatalf("Kamino writes its mark and finalizer: %v", err)
	}
	recorded := born.DeepCopy()
	recorded.Status.Record = &v1alpha1.Record{UID: born.UID, GeneralizeBootID: "b",
		Reservation: &v1alpha1.Reservation{Annotations: v1alpha1.FormerAnnotations{"absent": nil}}}
	if err := engine.Status().Patch(t.Context(), recorded, client.MergeFrom(born)); err != nil {
		t.Fatalf("Kamino writes the record: %v", err)
	}
	stored := &v1alpha1.Prototype{}
	if err := engine.Get(t.Context(), client.ObjectKey{Name: "born"}, stored); err != nil {
		t.Fatal(err)
	}
	if r, err := v1alpha1.RecordOf(stored); err != nil || r.GeneralizeBootID != "b" || len(r.Reservation.Annotations) != 1 {
		t.Fatalf("the API server keeps the record %+v, %v", r, err)
	}
	for what, text := range map[string]string{
		"changes the mark":   `{"metadata":{"annotations":{"kamino.dev/begun":"v"}}}`,
		"removes the mark":   `{"metadata":{"annotations":{"kamino.dev/begun":null}}}`,
		"adds an annotation": `{"metadata":{"annotations":{"kamino.dev/record":"{}"}}}`,
		"adds a finalizer":   `{"metadata":{"finalizers":["kamino.dev/capture","kamino.dev/other"]}}`,
	} {
		for who, c := range map[string]client.Client{"updater": updater, "remover": remover} {
			if err := patch(c, text); !refused(err) {
				t.Errorf("%s %s: %v", who, what, err)
			}
		}
	}
	if err := patch(updater, `{"metadata":{"annotations":{"example.com/note":"theirs"},"labels":{"a":"b"}}}`); err != nil {
		t.Errorf("an account writes an annotation of another tool: %v", err)
	}
	if err := updater.Status().Patch(t.Context(), prototypeNamed("born"),
		client.RawPatch(types.MergePatchType, []byte(`{"status":{"record":{"returning":true}}}`))); !apierrors.IsForbidden(err) {
		t.Errorf("an account that updates Prototypes writes the record: %v", err)
	}
	if err := patch(updater, `{"metadata":{"finalizers":null}}`); !refused(err) || !strings.Contains(err.Error(), "may delete") {
		t.Errorf("an account that may not delete removes the finalizer: %v", err)
	}
	if err := patch(remover, `{"metadata":{"finalizers":null}}`); err != nil {
		t.Errorf("an account that may delete does not remove the finalizer: %v", err)
	}
}
