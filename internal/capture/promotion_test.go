package capture

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/recipe"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestStaleSecretIsNoSavedRecipe: a Secret of the same name with other content is not a copy of the current loss.
// The Secret stays, because it may be the only copy.
func TestStaleSecretIsNoSavedRecipe(t *testing.T) {
	s := newTestEnv(t).decide()
	stale := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: s.name + "-recipe", Namespace: ourspace},
		Data:       map[string][]byte{recipe.RecipeKey: []byte(`{"customData":"of last year"}`)},
	}
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
		content := secret.Data[recipe.RecipeKey]
		switch {
		case secret.Name == stale.Name && !bytes.Equal(content, stale.Data[recipe.RecipeKey]):
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

// copied is a stage with a copy of customData in key "mine" of Secret "ours", and with settings that name the copy.
func copied(t *testing.T, content string) (*testEnv, func(*v1alpha1.Prototype)) {
	s := newTestEnv(t)
	s.must(s.objects.Add(&corev1.Secret{ObjectMeta: ofThePool, Data: map[string][]byte{"mine": []byte(content)}}))
	return s, func(p *v1alpha1.Prototype) {
		p.Spec.Settings.Recipe.CustomDataFrom = &v1alpha1.SecretKey{Name: "ours", Key: "mine"}
	}
}

// saved is the Secret with the removed parts of the recipe; nil without a Secret in the status.
func (s *testEnv) saved(p *v1alpha1.Prototype) *corev1.Secret {
	_, name, _ := strings.Cut(p.Status.SavedRecipe, "/")
	if name == "" {
		return nil
	}
	secret, _ := s.tracked("secrets", ourspace, name).(*corev1.Secret)
	return secret
}

// TestCustomDataIsKeptWithTheRecipe: the content is only in the Secret, not in status, NodeOrder, pod, event or log.
func TestCustomDataIsKeptWithTheRecipe(t *testing.T) {
	const content = "#cloud-config needle"
	s, named := copied(t, content)
	var events recordedEvents
	var said strings.Builder
	s.engine.Recorder = &events
	s.engine.Log = funcr.New(func(prefix, args string) { said.WriteString(prefix + args + "\n") }, funcr.Options{Verbosity: 10})
	p := s.decide(named).play(func(int) { said.WriteString(s.text(s.prototype()) + s.text(s.order())) })
	s.succeeded(p)
	if saved := s.saved(p); saved == nil || string(saved.Data[recipe.CustomDataKey]) != content || len(saved.Data[recipe.RecipeKey]) == 0 {
		t.Errorf("saved is %+v", saved)
	}
	for _, action := range s.kube.Actions() {
		if action.GetResource().Resource != "secrets" {
			said.WriteString(s.text(action))
		}
	}
	said.WriteString(strings.Join(events, "\n"))
	if coded := base64.StdEncoding.EncodeToString([]byte(content)); strings.Contains(said.String(), "needle") || strings.Contains(said.String(), coded) {
		t.Error("the content stands where others read it")
	}
	if !strings.Contains(said.String(), podName(p)) || !strings.Contains(said.String(), "Promoting") {
		t.Error("this test heard nothing")
	}
}

// TestMissingCustomData is found before anything is done, and matters only where the recipe loses something.
func TestMissingCustomData(t *testing.T) {
	for name, data := range map[string]map[string][]byte{"no Secret": nil, "no key": {"other": []byte("x")}, "an empty one": {"mine": nil}} {
		t.Run(name, func(t *testing.T) {
			s, named := copied(t, "")
			if data == nil {
				s.must(s.objects.Delete(corev1.SchemeGroupVersion.WithResource("secrets"), ourspace, "ours"))
			} else {
				s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("secrets"), &corev1.Secret{ObjectMeta: ofThePool, Data: data}, ourspace))
			}
			p := s.decide(named).play()
			s.failed(p, cloud.CustomDataUnusable)
			if w := s.cloud.World(); w.Instance(s.donor).Boots != 1 {
				t.Errorf("the donor booted %d times", w.Instance(s.donor).Boots)
			}
		})
	}
	t.Run("of a recipe that loses nothing", func(t *testing.T) {
		s, named := copied(t, "")
		s.cloud.AddVersion(s.pool, memory.VersionSpec{Version: "2026.03.01"})
		s.cloud.ChangeRecipe(s.pool, string(s.pool)+"/versions/2026.03.01")
		if p := s.decide(named).play(); p.Status.Phase != v1alpha1.PhaseSucceeded || s.saved(p) != nil {
			t.Errorf("it ends as %+v", p.Status)
		}
	})
}

// TestCustomDataThatVanishes keeps the promotion waiting, says so, and is taken as soon as it is back.
func TestCustomDataThatVanishes(t *testing.T) {
	s, named := copied(t, "needle")
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	gone, waited := 0, false
	p := s.decide(named).play(func(pass int) {
		p := s.prototype()
		switch stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled); {
		case gone == 0 && p.Status.Phase == v1alpha1.PhasePublishing:
			s.must(s.objects.Delete(secrets, ourspace, "ours"))
			gone = pass
		case gone > 0 && !waited && stalled != nil && stalled.Status == metav1.ConditionTrue:
			if waited = true; !strings.Contains(stalled.Message, "names Secret "+ourspace+"/ours, which does not exist") || s.changeTo(p.Spec.Version).Done {
				t.Errorf("%s, and the recipe may be lost", stalled.Message)
			}
			s.must(s.objects.Add(&corev1.Secret{ObjectMeta: ofThePool, Data: map[string][]byte{"mine": []byte("needle")}}))
		}
	})
	s.succeeded(p)
	if saved := s.saved(p); !waited || saved == nil || string(saved.Data[recipe.CustomDataKey]) != "needle" {
		t.Errorf("waited: %t, saved: %+v", waited, saved)
	}
}
