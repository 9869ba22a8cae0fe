package policy_test

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
	entries, err := crds.Files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		text, err := crds.Files.ReadFile(entry.Name())
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		environment.CRDs = append(environment.CRDs, crd)
	}
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

// newClient is a client of the real API server, which holds no policies and no Prototypes.
func newClient(t *testing.T) client.WithWatch {
	t.Helper()
	config, err := startOnce()
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []client.Object{&v1alpha1.Prototype{}, &v1alpha1.PrototypePolicy{}} {
		if err := c.DeleteAllOf(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
