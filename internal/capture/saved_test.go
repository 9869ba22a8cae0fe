package capture

import (
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/recipe"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m)) }

// TestWhereARecipeIsSavedIsInTheStatus of a real API server from the pass of the save on, and again after the loss of
// the status. The Secret is found without the status too.
func TestWhereARecipeIsSavedIsInTheStatus(t *testing.T) {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	kube, err := kubernetes.NewForConfig(apitest.Server(t))
	must(err)
	_, err = kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultNamespace}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		must(err)
	}
	e := &Engine{Client: apitest.Client(t), Kube: kube, Now: func() time.Time { return time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC) }}
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "saved-2026.03.14"}}
	p.Spec = v1alpha1.PrototypeSpec{
		Pool:     "saved",
		Version:  "2026.03.14",
		Settings: v1alpha1.Settings{}.Defaulted(),
		Donor:    v1alpha1.Donor{NodeName: "n", ProviderID: "memory:///pools/saved/instances/1"},
	}
	must(e.Client.Create(ctx, p))

	// pass is the part of a pass for the recipe: read, save if necessary, and write the status.
	pass := func() (saved bool) {
		t.Helper()
		p := &v1alpha1.Prototype{}
		must(e.Client.Get(ctx, client.ObjectKey{Name: "saved-2026.03.14"}, p))
		w := &pass{
			p:         p,
			written:   p.Status.DeepCopy(),
			pool:      "memory:///pools/saved",
			promotion: promotionObjects{change: cloud.RecipeChange{Removes: []cloud.RecipeField{{Kind: "customData"}}, Backup: []byte(`{"image":"generic"}`)}},
		}
		saved, err := e.rooms().promotion.lookSaved(ctx, w)
		must(err)
		if !saved {
			must(e.rooms().promotion.saveRecipe(ctx, w))
		}
		must(e.rooms().store.writeStatus(ctx, w))
		return saved
	}
	says := func() string {
		t.Helper()
		p := &v1alpha1.Prototype{}
		must(e.Client.Get(ctx, client.ObjectKey{Name: "saved-2026.03.14"}, p))
		return p.Status.SavedRecipe
	}
	const want = "kamino-system/saved-2026.03.14-recipe"
	if saved := pass(); saved || says() != want {
		t.Errorf("before the promotion the status says %q", says())
	}
	must(e.Client.Get(ctx, client.ObjectKey{Name: p.Name}, p))
	p.Status = v1alpha1.PrototypeStatus{SavedRecipe: "kamino-system/a-token"}
	must(e.Client.Status().Update(ctx, p))
	found, err := e.rooms().promotion.savedRecipes().Find(ctx, "saved", "memory:///pools/saved", []v1alpha1.Prototype{*p})
	must(err)
	if len(found) != 1 || found[0].Secret != p.Name+"-recipe" || found[0].UID != p.UID || found[0].Doubt != "" ||
		string(found[0].Backup) != `{"image":"generic"}` {
		t.Errorf("a status that lies, and found is %+v", found)
	}
	if saved := pass(); !saved || says() != want {
		t.Errorf("after its status was written over it says %q", says())
	}
	secret, err := kube.CoreV1().Secrets(v1alpha1.DefaultNamespace).Get(ctx, p.Name+"-recipe", metav1.GetOptions{})
	must(err)
	secret.Data[recipe.RecipeKey] = []byte("{}")
	if _, err := kube.CoreV1().Secrets(v1alpha1.DefaultNamespace).Update(ctx, secret, metav1.UpdateOptions{}); err == nil {
		t.Error("a saved recipe can be changed")
	}
}
