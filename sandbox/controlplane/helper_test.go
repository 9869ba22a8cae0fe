package controlplane

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func quantity(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}

func tokenRequest() *authenticationv1.TokenRequest {
	seconds := int64(600)
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
}

// mustKubeconfig returns a kubeconfig for a token and the server of client.
func mustKubeconfig(t *testing.T, client *kubernetes.Clientset, token string) []byte {
	t.Helper()
	server := client.CoreV1().RESTClient().(*rest.RESTClient)
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: "https://" + server.Get().URL().Host, InsecureSkipTLSVerify: true,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	return content
}
