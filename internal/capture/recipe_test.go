package capture

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAStaleRecipeIsNotTakenForSaved: a Secret of that name that holds something else is no copy of what is lost
// now. It stays, for it may be the only copy of what it holds.
func TestAStaleRecipeIsNotTakenForSaved(t *testing.T) {
	s := newStage(t).decide()
	stale := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.name + "-recipe", Namespace: ourspace}, Data: map[string][]byte{recipeKey: []byte(`{"customData":"of last year"}`)}}
	s.must(s.objects.Add(stale))
	change := s.changeTo("2026.03.14")
	if len(change.Removes) > 0 {
		t.Fatalf("nothing is to be removed by a mere change of the version: %v", change.Removes)
	}
	p := s.play()
	s.succeeded(p)
	secrets, err := s.kube.CoreV1().Secrets(ourspace).List(t.Context(), metav1.ListOptions{})
	s.must(err)
	var kept []string
	anew := false
	for _, secret := range secrets.Items {
		kept = append(kept, secret.Name)
		content := secret.Data[recipeKey]
		switch {
		case secret.Name == stale.Name && !bytes.Equal(content, stale.Data[recipeKey]):
			t.Errorf("the stale recipe was overwritten: %s", content)
		case secret.Name != stale.Name && bytes.Contains(content, []byte("vmssCSE")):
			anew = true
		}
	}
	if p.Status.SavedRecipe == "" || p.Status.SavedRecipe == ourspace+"/"+stale.Name {
		t.Errorf("the status says that it is saved in %q", p.Status.SavedRecipe)
	}
	if !anew {
		t.Errorf("what the recipe lost is in none of %v", kept)
	}
}
