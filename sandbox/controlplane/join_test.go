package controlplane

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// TestJoin tests the parts of the control plane that kubeadm needs for nodes with only a token. Package
// machine/real tests whole joins with real nodes.
func TestJoin(t *testing.T) {
	_, client, stop := start(t, order{Dir: t.TempDir(), JoinAddress: "127.0.0.1"})
	defer stop()
	id, token := bootstrapToken(t, client)
	eventually(t, "the API server knows whose token it is, and lets it do nothing", func(ctx context.Context) (bool, error) {
		_, err := token.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if apierrors.IsUnauthorized(err) {
			return false, nil // the authenticator does not know the Secret yet
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:bootstrap:"+id) {
			t.Errorf("with a bootstrap token the API server says: %v", err)
		}
		return true, nil
	})
	info := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cluster-info", Namespace: metav1.NamespacePublic},
		Data: map[string]string{"kubeconfig": "{}"}}
	if _, err := client.CoreV1().ConfigMaps(info.Namespace).Create(t.Context(), info, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster's public information is signed with the token", func(ctx context.Context) (bool, error) {
		got, err := client.CoreV1().ConfigMaps(info.Namespace).Get(ctx, info.Name, metav1.GetOptions{})
		return err == nil && got.Data["jws-kubeconfig-"+id] != "", err
	})
}

// TestNoJoin is the control: where nodes are simulated, a bootstrap token opens nothing.
func TestNoJoin(t *testing.T) {
	_, client, stop := start(t, order{Dir: t.TempDir()})
	defer stop()
	_, token := bootstrapToken(t, client)
	if _, err := token.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("with a bootstrap token the API server says: %v", err)
	}
}

// bootstrapToken creates a token, and a client with only this token.
func bootstrapToken(t *testing.T, client *kubernetes.Clientset) (id string, bearer *kubernetes.Clientset) {
	t.Helper()
	id, secret := strings.ToLower(rand.Text()[:6]), strings.ToLower(rand.Text()[:16])
	object := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id, Namespace: metav1.NamespaceSystem}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true"},
	}
	if _, err := client.CoreV1().Secrets(object.Namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(mustKubeconfig(t, client, id+"."+secret))
	if err != nil {
		t.Fatal(err)
	}
	if bearer, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return id, bearer
}
