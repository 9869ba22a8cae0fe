package sandboxtest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/azure"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// After Install, kamino runs with the rights that its users give: the accounts of `kamino manifests`, and the cloud's role of `kamino
// manifests --iam`. The administrator only makes the world: Main fails if a kamino was the administrator.

// Service accounts of `kamino manifests`: in the cluster of the nodes, and in the management cluster of Cluster API.
const (
	engineAccount     = "kamino-engine"
	managementAccount = "kamino"
)

// Rights returns the variables of a kamino with the rights of an installation in a namespace.
func (s *Sandbox) Rights(t testing.TB, namespace string) []string {
	t.Helper()
	rights := []string{"KUBECONFIG=" + s.accountFile(t, namespace, engineAccount)}
	if s.keepMachines {
		rights = append(rights, managementVariable+"="+s.accountFile(t, ClusterNamespace, managementAccount))
	}
	return append(rights, s.cloudRights())
}

// AsPerson returns the variables of a kamino that a person runs who administers the cluster, such as a reader of the get-started pages.
// Their cloud has the published role.
func (s *Sandbox) AsPerson(t testing.TB) []string {
	t.Helper()
	file := filepath.Join(filepath.Dir(s.Programs), "person.kubeconfig")
	s.issuing.Lock()
	defer s.issuing.Unlock()
	text, err := s.Kubeconfig("person", "system:masters")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return []string{"KUBECONFIG=" + file, s.cloudRights()}
}

// rightsOf are the variables of a program without others.
func (s *Sandbox) rightsOf(t testing.TB, program string) []string {
	t.Helper()
	if program != "kamino" || !s.installed.Load() {
		return nil
	}
	return s.Rights(t, v1alpha1.DefaultNamespace)
}

// foreignAccounts are accounts that no kamino may have: the administrators of the cluster and the cloud.
func (s *Sandbox) foreignAccounts() []string {
	if !s.installed.Load() {
		return nil
	}
	return []string{world.Administrator, region.AWSAdministrator, s.Facts().ClientID}
}

// cloudRights is the variable that makes kamino a user of the cloud with the published role.
func (s *Sandbox) cloudRights() string {
	if s.AWS() != nil {
		return "AWS_ACCESS_KEY_ID=" + region.GrantedKeyID
	}
	return "AZURE_CLIENT_ID=" + region.GrantedClientID
}

// azureRole has the actions of the published role with all powers, and those that the page of permissions grants on resources of the
// pools' instances. Optional reads, without which Kamino works, are missing.
func azureRole() ([]string, error) {
	all := azure.Describe()
	text, err := all.Grant(cloud.ForInPlace, cloud.ForRebuild)
	var role struct{ Actions []string }
	if err == nil {
		err = json.Unmarshal(text, &role)
	}
	return append(role.Actions, cloud.Uses(all.Uses).Actions(func(u cloud.Use) bool { return u.Where != "" && (u.Feature != "" || len(u.Kinds) > 0) })...), err
}

// accountFile returns the kubeconfig of a service account.
func (s *Sandbox) accountFile(t testing.TB, namespace, account string) string {
	t.Helper()
	file := filepath.Join(filepath.Dir(s.Programs), namespace+"-"+account+".kubeconfig")
	s.issuing.Lock()
	defer s.issuing.Unlock()
	if _, err := os.Stat(file); err == nil {
		return file
	}
	day := int64(24 * 60 * 60)
	token, err := s.Kube().CoreV1().ServiceAccounts(namespace).CreateToken(context.WithoutCancel(t.Context()), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(filepath.Join(s.Dir(), sandboxdir.KubeconfigFile))
	if err != nil {
		t.Fatal(err)
	}
	*config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo] = clientcmdapi.AuthInfo{Token: token.Status.Token}
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}
