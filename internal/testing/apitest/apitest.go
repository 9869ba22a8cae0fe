// Package apitest starts a real API server with the product's definitions for tests. Only tests import the package.
package apitest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/crds"
	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// startLimit is far above the time of a start on an idle machine (about ten seconds). A busy machine needs minutes.
const startLimit = 5 * time.Minute

// environment is one API server for all tests of a package.
var environment = Environment()

// Environment returns an API server that has not started, without definitions.
func Environment() *envtest.Environment {
	return &envtest.Environment{
		ControlPlaneStartTimeout: startLimit, ControlPlaneStopTimeout: startLimit,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: startLimit},
	}
}

var start = sync.OnceValues(func() (*rest.Config, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, errors.New("the test needs a real API server, and KUBEBUILDER_ASSETS is not set: run `make test`")
	}
	definitions, err := Definitions()
	if err != nil {
		return nil, err
	}
	environment.CRDs = definitions
	// The settings of kubeadm: the permissions of a kubelet depend on both.
	environment.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "Node", "RBAC").Append("enable-admission-plugins", "NodeRestriction")
	return environment.Start()
})

// Main is the body of a package's TestMain: Main runs the tests, stops a started API server, and returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if environment.Config != nil {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
			return max(code, 1)
		}
	}
	return code
}

// Server returns the configuration for clients of the package's API server. The first call starts the server, and Main
// stops the server. Without binaries the test fails: a test that did not run must not look like a success.
func Server(t testing.TB) *rest.Config {
	t.Helper()
	config, err := start()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// Kubelet is a client with the credential of a node's kubelet.
func Kubelet(t testing.TB, node string) client.Client {
	t.Helper()
	Server(t)
	user, err := environment.AddUser(envtest.User{Name: "system:node:" + node, Groups: []string{"system:nodes"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, user.Config())
}

// Client is a client for Kamino's kinds and core kinds.
func Client(t testing.TB) client.WithWatch {
	t.Helper()
	return newClient(t, Server(t))
}

func newClient(t testing.TB, config *rest.Config) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Definitions are the CustomResourceDefinitions in the product's binary.
func Definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := crds.Files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	all := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(entries))
	for _, entry := range entries {
		text, err := crds.Files.ReadFile(entry.Name())
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		all = append(all, crd)
	}
	return all, nil
}
