package v1alpha1_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/crds"
	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// environment is one API server for all tests of this package, started by the first that needs it.
var environment = &envtest.Environment{}

var startOnce = sync.OnceValues(func() (*rest.Config, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, errors.New("this test needs a real API server and KUBEBUILDER_ASSETS names none: run `make test`, which builds one")
	}
	definitions, err := definitions()
	if err != nil {
		return nil, err
	}
	environment.CRDs = definitions
	return environment.Start()
})

func TestMain(m *testing.M) {
	code := m.Run()
	if environment.Config != nil {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// definitions reads the CustomResourceDefinitions that the product ships, not the files beside them.
func definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
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

// apiServer is the configuration of a client of the real API server. A machine without one fails the
// test: validation that nobody ran must not look like validation that passed.
func apiServer(t *testing.T) *rest.Config {
	t.Helper()
	config, err := startOnce()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// newClient is a client of the real API server that knows this group's kinds.
func newClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(apiServer(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
