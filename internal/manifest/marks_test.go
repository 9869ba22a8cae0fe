package manifest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m)) }

// account is a client of the API server for another account.
func account(t *testing.T, user string, groups ...string) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(apitest.Server(t))
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return kubernetes.NewForConfigOrDie(config)
}

// waitForPolicy waits until a policy forbids a write. Rights and policies apply a moment after their creation, in any order.
func waitForPolicy(t *testing.T, policy string, write func(try int) error) {
	t.Helper()
	var last error
	try := 0
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		last = write(try)
		try++
		return last != nil && strings.Contains(last.Error(), policy), nil
	})
	if err != nil {
		t.Fatalf("policy %s does not forbid the write: %v", policy, last)
	}
}

// isReserving reports whether the document belongs to a policy that reserves marks on Nodes or Prototypes.
func isReserving(document string) bool {
	return strings.Contains(document, "name: kamino-node-marks.") || strings.Contains(document, "name: kamino-prototypes.")
}

// install creates the admission policies for marks on Nodes and Prototypes, and an account that annotates Nodes.
func install(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	var text bytes.Buffer
	must(Write(&text, Options{Namespace: "kamino-system"}))
	ctx, create := t.Context(), metav1.CreateOptions{}
	for document := range strings.SplitSeq(text.String(), "\n---\n") {
		read := func(into any) { must(yaml.Unmarshal([]byte(document), into)) }
		switch kind := (metav1.TypeMeta{}); {
		case yaml.Unmarshal([]byte(document), &kind) != nil:
		case kind.Kind == "Namespace":
			n := &corev1.Namespace{}
			read(n)
			_, err := admin.CoreV1().Namespaces().Create(ctx, n, create)
			must(err)
		case kind.Kind == "ClusterRole":
			r := &rbacv1.ClusterRole{}
			read(r)
			_, err := admin.RbacV1().ClusterRoles().Create(ctx, r, create)
			must(err)
		case kind.Kind == "ClusterRoleBinding":
			b := &rbacv1.ClusterRoleBinding{}
			read(b)
			_, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, b, create)
			must(err)
		case kind.Kind == "Role":
			r := &rbacv1.Role{}
			read(r)
			_, err := admin.RbacV1().Roles(r.Namespace).Create(ctx, r, create)
			must(err)
		case kind.Kind == "RoleBinding":
			b := &rbacv1.RoleBinding{}
			read(b)
			_, err := admin.RbacV1().RoleBindings(b.Namespace).Create(ctx, b, create)
			must(err)
		case kind.Kind == "ValidatingAdmissionPolicy" && isReserving(document):
			p := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			read(p)
			_, err := admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, p, create)
			must(err)
		case kind.Kind == "ValidatingAdmissionPolicyBinding" && isReserving(document):
			b := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
			read(b)
			_, err := admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, b, create)
			must(err)
		}
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kured"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes", "nodes/status"}, Verbs: []string{"get", "list", "patch"}}}}
	_, err := admin.RbacV1().ClusterRoles().Create(ctx, role, create)
	must(err)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kured"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kured"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "kured"}}}, create)
	must(err)
}

// TestMarksOnNodesAreKaminosOwn: kubelets and annotating accounts cannot write or remove the marks, on the Node or by its
// status. Kamino's account and an administrator can. Other annotations are not affected.
func TestMarksOnNodesAreKaminosOwn(t *testing.T) {
	admin := kubernetes.NewForConfigOrDie(apitest.Server(t))
	install(t, admin)
	kubelet := account(t, "system:node:marked", "system:nodes")
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "marked", Labels: map[string]string{"kamino.dev/version": "of-the-image"}}}
	if _, err := kubelet.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatalf("a kubelet registers with a label of its image: %v", err)
	}
	accounts := map[string]kubernetes.Interface{
		"kured": account(t, "kured"), "the kubelet": kubelet, "an administrator": admin,
		"Kamino": account(t, "system:serviceaccount:kamino-system:kamino-engine", "system:serviceaccounts"),
	}
	patch := func(who, field, key, value string, subresources ...string) error {
		text := "null"
		if value != "" {
			text = fmt.Sprintf("%q", value)
		}
		body := fmt.Sprintf(`{"metadata":{%q:{%q:%s}}}`, field, key, text)
		_, err := accounts[who].CoreV1().Nodes().Patch(t.Context(), "marked", types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
		return err
	}
	waitForPolicy(t, "kamino-node-marks", func(try int) error {
		return patch("kured", "annotations", "kamino.dev/reservation", fmt.Sprint("try ", try))
	})
	for _, who := range []string{"Kamino", "an administrator"} {
		for _, key := range []string{"kamino.dev/reservation", "kamino.dev/not-rebuilt", "kamino.dev/trial"} {
			if err := patch(who, "annotations", key, "by "+who); err != nil {
				t.Errorf("%s writes annotation %s: %v", who, key, err)
			}
		}
		if err := patch(who, "labels", "kamino.dev/version", "v1"); err != nil {
			t.Errorf("%s writes a label: %v", who, err)
		}
	}
	for _, who := range []string{"kured", "the kubelet"} {
		for _, status := range [][]string{nil, {"status"}} {
			for _, field := range []string{"annotations", "labels"} {
				for _, key := range []string{"kamino.dev/reservation", "kamino.dev/trial", "kamino.dev/version"} {
					if field == "labels" && key == "kamino.dev/reservation" {
						continue
					}
					for what, value := range map[string]string{"writes": "forged", "removes": ""} {
						if field == "annotations" && key == "kamino.dev/version" && value == "" ||
							field == "labels" && key == "kamino.dev/trial" && value == "" {
							continue // it is not there
						}
						if err := patch(who, field, key, value, status...); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
							t.Errorf("%s %s %s %s %v: %v", who, what, field, key, status, err)
						}
					}
				}
			}
			for _, key := range []string{
				"kamino.dev/patched-at", "kamino.dev/reboot-pending", "kamino.dev/patch-failed", "kamino.dev/patch-level",
				"weave.works/kured-most-recent-reboot-needed",
			} {
				if err := patch(who, "annotations", key, "2026-03-14T12:00:00Z", status...); err != nil {
					t.Errorf("%s writes %s %v: %v", who, key, status, err)
				}
			}
		}
	}
	// A new registration of a Node carries neither a reservation nor a mark of a trial.
	if err := admin.CoreV1().Nodes().Delete(t.Context(), "marked", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, meta := range []metav1.ObjectMeta{
		{Name: "marked", Annotations: map[string]string{"kamino.dev/reservation": "forged"}},
		{Name: "marked", Labels: map[string]string{"kamino.dev/trial": "forged"}},
	} {
		if _, err := kubelet.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: meta}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) &&
			!apierrors.IsInvalid(err) {
			t.Errorf("a kubelet registers with %v %v: %v", meta.Annotations, meta.Labels, err)
		}
	}
}
