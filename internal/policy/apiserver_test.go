package policy_test

import (
	"os"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m)) }

// newClient is a client of the real API server, without policies and Prototypes.
func newClient(t *testing.T) client.WithWatch {
	t.Helper()
	c := apitest.Client(t)
	for _, kind := range []client.Object{&v1alpha1.Prototype{}, &v1alpha1.PrototypePolicy{}} {
		if err := c.DeleteAllOf(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
