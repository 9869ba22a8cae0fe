package world

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"

	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/machine/kubeadm"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// How nodes of the profile bootstrap join: the objects that `kubeadm init` and `kubeadm token create` create in a
// cluster.

// customData of a pool's recipe.
func (w *World) customData(ctx context.Context, spec pool.Spec) (string, error) {
	switch {
	case spec.Light || w.directory.ClusterAPI:
		return "", nil
	case disk.Profile(spec.Profile) == disk.EKS:
		return w.eksCluster().UserData()
	case disk.Profile(spec.Profile) != disk.Bootstrap:
		return disk.CustomData(disk.Static), nil
	}
	if err := w.letNodesJoin(ctx); err != nil {
		return "", fmt.Errorf("let nodes join with a token: %w", err)
	}
	token, err := w.bootstrapToken(ctx, spec)
	if err != nil {
		return "", fmt.Errorf("bootstrap token: %w", err)
	}
	hash, err := kubeadm.Hash(w.servers.CA)
	if err != nil {
		return "", err
	}
	server, err := url.Parse(w.plane.URL())
	if err != nil {
		return "", err
	}
	return disk.CustomDataFor(kubeadm.Order{Server: server.Host, Token: token, CAHash: hash}.Command()), nil
}

// bootstrappers is the group of kubeadm's tokens.
const bootstrappers = "system:bootstrappers:kubeadm:default-node-token"

// letNodesJoin creates the objects of kubeadm's tokens: the cluster's public information and configuration, and the
// rights to request and sign certificates. Source: the phases bootstrap-token and upload-config of `kubeadm init`.
func (w *World) letNodesJoin(ctx context.Context) error {
	for name, to := range map[string][2]string{
		"kubeadm:kubelet-bootstrap":                     {"system:node-bootstrapper", bootstrappers},
		"kubeadm:node-autoapprove-bootstrap":            {"system:certificates.k8s.io:certificatesigningrequests:nodeclient", bootstrappers},
		"kubeadm:node-autoapprove-certificate-rotation": {"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"},
	} {
		_, err := w.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: to[0]},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: to[1]}},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return errors.Join(w.uploadConfig(ctx), w.publishClusterInfo(ctx))
}

// uploadConfig creates the objects that `kubeadm join` reads, and that mark a cluster of kubeadm.
func (w *World) uploadConfig(ctx context.Context) error {
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: constants.KubeadmConfigConfigMap, Namespace: metav1.NamespaceSystem},
		Data: map[string]string{constants.ClusterConfigurationConfigMapKey: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: " +
			"ClusterConfiguration\nclusterName: kubernetes\n" +
			"controlPlaneEndpoint: " + strings.TrimPrefix(w.plane.URL(), "https://") + "\nkubernetesVersion: " + disk.DefaultKubelet + "\n"},
	}
	_, err := w.kube.CoreV1().ConfigMaps(config.Namespace).Create(ctx, config, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// publishClusterInfo publishes the API server's address; the controller manager signs the information with each
// token.
func (w *World) publishClusterInfo(ctx context.Context) error {
	const role = "kubeadm:bootstrap-signer-clusterinfo"
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{
		"": {Server: w.plane.URL(), CertificateAuthorityData: w.servers.CA},
	}})
	if err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Name: role, Namespace: metav1.NamespacePublic}
	_, err = w.kube.RbacV1().Roles(meta.Namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{bootstrapapi.ConfigMapClusterInfo},
	}}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err = w.kube.RbacV1().RoleBindings(meta.Namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:anonymous"}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	info := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: bootstrapapi.ConfigMapClusterInfo, Namespace: metav1.NamespacePublic},
		Data:       map[string]string{bootstrapapi.KubeConfigKey: string(kubeconfig)},
	}
	_, err = w.kube.CoreV1().ConfigMaps(info.Namespace).Create(ctx, info, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		// After a restart on another port, existing nodes still use the first port.
		return nil
	}
	return err
}

// bootstrapToken of a pool, which is made with the pool and stays the same.
func (w *World) bootstrapToken(ctx context.Context, spec pool.Spec) (string, error) {
	sum := sha256.Sum256([]byte(spec.Name))
	id, secret := hex.EncodeToString(sum[:3]), strings.ToLower(rand.Text()[:16])
	data := map[string]string{
		bootstrapapi.BootstrapTokenIDKey: id, bootstrapapi.BootstrapTokenSecretKey: secret,
		bootstrapapi.BootstrapTokenUsageAuthentication: "true", bootstrapapi.BootstrapTokenUsageSigningKey: "true",
		bootstrapapi.BootstrapTokenExtraGroupsKey: bootstrappers,
		bootstrapapi.BootstrapTokenDescriptionKey: "for the nodes of pool " + spec.Name,
	}
	if spec.TokenTTL > 0 {
		data[bootstrapapi.BootstrapTokenExpirationKey] = time.Now().Add(spec.TokenTTL).UTC().Format(time.RFC3339)
	}
	secrets := w.kube.CoreV1().Secrets(metav1.NamespaceSystem)
	made := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: bootstrapapi.BootstrapTokenSecretPrefix + id, Namespace: metav1.NamespaceSystem},
		Type:       corev1.SecretTypeBootstrapToken, StringData: data,
	}
	_, err := secrets.Create(ctx, made, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		have, err := secrets.Get(ctx, made.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		secret = string(have.Data[bootstrapapi.BootstrapTokenSecretKey])
		return id + "." + secret, nil
	}
	return id + "." + secret, err
}
