package sandboxtest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

var installing sync.Mutex

// Install creates Kamino's objects in the cluster from the manifests, unless they exist.
func (s *Sandbox) Install(t testing.TB) {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	if _, err := s.Kube().CoreV1().Namespaces().Get(t.Context(), v1alpha1.DefaultNamespace, metav1.GetOptions{}); err == nil {
		return
	}
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(file, []byte(s.Must(t, "kamino", "manifests")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Must(t, "kubectl", "apply", "--server-side", "-f", file)
	s.Must(t, "kubectl", "wait", "--for=condition=Established", "crd/prototypes.kamino.dev", "crd/nodeorders.kamino.dev", "crd/prototypepolicies.kamino.dev")
}

// Namespaces creates a namespace for Leases and Secrets and a namespace for generalize pods. The commands run as an
// administrator, so only the generalize pods need an account.
func (s *Sandbox) Namespaces(t testing.TB, engine, pods string) {
	t.Helper()
	kube, ctx := s.Kube(), t.Context()
	namespace := func(name string) func() error {
		return func() error {
			_, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			return err
		}
	}
	steps := []func() error{
		namespace(engine), namespace(pods),
		func() error {
			_, err := kube.CoreV1().ServiceAccounts(pods).Create(ctx,
				&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.GeneralizeServiceAccount}}, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := kube.RbacV1().RoleBindings(pods).Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.GeneralizeServiceAccount},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: v1alpha1.GeneralizeServiceAccount},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: v1alpha1.GeneralizeServiceAccount, Namespace: pods}},
			}, metav1.CreateOptions{})
			return err
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	Eventually(t, "namespace "+pods+" is ready for pods", func() (bool, string) {
		_, account := kube.CoreV1().ServiceAccounts(pods).Get(ctx, "default", metav1.GetOptions{})
		_, root := kube.CoreV1().ConfigMaps(pods).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return account == nil && root == nil, fmt.Sprint(account, root)
	})
}
