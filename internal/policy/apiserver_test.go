package policy_test

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/apitest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m)) }

// newClient is a client of the real API server, which holds no policies and no Prototypes.
func newClient(t *testing.T) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(apitest.Server(t), client.Options{Scheme: scheme})
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
