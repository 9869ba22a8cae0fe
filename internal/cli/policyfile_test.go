package cli

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
)

// TestARefusedPolicyIsNamedAsItsAuthorNamesIt has the API server refuse the trial, whose name nobody wrote.
func TestARefusedPolicyIsNamedAsItsAuthorNamesIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	text := "apiVersion: kamino.dev/v1alpha1\nkind: PrototypePolicy\nmetadata: {name: mine}\nspec: {settings: {keep: 1}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		wrong := field.Invalid(field.NewPath("spec", "settings", "keep"), 1, "should be 2 or more")
		return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("PrototypePolicy").GroupKind(), "check-x7k2p", field.ErrorList{wrong})
	}
	refusing := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{Create: refuse}).Build()
	_, err = (&session{cluster: &cluster.Connection{Client: refusing}}).readPolicies(t.Context(), file)
	want := "policy mine: spec.settings.keep: Invalid value: 1: should be 2 or more"
	if exitCode(err) != ExitUsage || err.Error() != want {
		t.Errorf("exit code %d, %v, want %s", exitCode(err), err, want)
	}
}
