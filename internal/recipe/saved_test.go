package recipe

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m)) }

const poolID = cloud.PoolID("/groups/g/pools/pool1")

var owner = Owner{Prototype: "pool1-2026.03.01", UID: "u-1", Pool: "pool1", PoolID: poolID, Version: "2026.03.01"}

// newSecrets returns an empty namespace on a real API server.
func newSecrets(t *testing.T) Secrets {
	t.Helper()
	kube, err := kubernetes.NewForConfig(apitest.Server(t))
	if err != nil {
		t.Fatal(err)
	}
	ns, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "saved-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return Secrets{Kube: kube, Namespace: ns.Name}
}

func (s Secrets) save(t *testing.T, of Owner, backup, customData string) string {
	t.Helper()
	var data []byte
	if customData != "" {
		data = []byte(customData)
	}
	name, kept, err := s.Lookup(t.Context(), of.Prototype, []byte(backup), data)
	if err == nil && !kept {
		err = s.Save(t.Context(), name, of, []byte(backup), data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func (s Secrets) find(t *testing.T, prototypes ...v1alpha1.Prototype) []SavedPart {
	t.Helper()
	found, err := s.Find(t.Context(), "pool1", poolID, prototypes)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestKeptOnce: a later promotion without a copy of customData finds the first copy. An existing Secret is never
// overwritten.
func TestKeptOnce(t *testing.T) {
	s := newSecrets(t)
	first := s.save(t, owner, `{"image":"generic"}`, "old")
	if first != "pool1-2026.03.01-recipe" {
		t.Errorf("it is kept as %s", first)
	}
	for _, c := range []struct {
		backup, customData string
		kept               bool
	}{{`{"image":"generic"}`, "", true}, {`{"image":"generic"}`, "old", true}, {`{"image":"generic"}`, "new", false}, {`{}`, "", false}} {
		var data []byte
		if c.customData != "" {
			data = []byte(c.customData)
		}
		name, kept, err := s.Lookup(t.Context(), owner.Prototype, []byte(c.backup), data)
		if err != nil || kept != c.kept || kept != (name == first) {
			t.Errorf("%s with %q is kept as %s: %t, %v", c.backup, c.customData, name, kept, err)
		}
	}
	if second := s.save(t, owner, `{"image":"other"}`, ""); second == first || s.save(t, owner, `{"image":"other"}`, "") != second {
		t.Errorf("another recipe is kept as %s", second)
	}
	have, err := s.get(t.Context(), first)
	if err != nil || string(have.Data[RecipeKey]) != `{"image":"generic"}` || string(have.Data[CustomDataKey]) != "old" {
		t.Errorf("the first holds %q, %v", have.Data, err)
	}
}

// TestFound: the Secret alone identifies the saved recipe, whatever the state of the Prototype.
func TestFound(t *testing.T) {
	s := newSecrets(t)
	first := s.save(t, owner, `{"image":"generic"}`, "#cloud-config")
	second := s.save(t, owner, `{"image":"other"}`, "")
	s.save(t, Owner{Prototype: "pool1-2026.03.02", Pool: "pool1", PoolID: "/groups/OTHER/pools/pool1"}, `{}`, "")
	s.save(t, Owner{Prototype: "pool2-2026.03.01", Pool: "pool2", PoolID: "/groups/g/pools/pool2"}, `{}`, "")
	for name, prototypes := range map[string][]v1alpha1.Prototype{
		"its Prototype is gone": nil,
		"its Prototype is there": {{ObjectMeta: metav1.ObjectMeta{Name: owner.Prototype, UID: owner.UID},
			Spec: v1alpha1.PrototypeSpec{Version: owner.Version}}},
		"another one is of that name": {{ObjectMeta: metav1.ObjectMeta{Name: owner.Prototype, UID: "u-2"},
			Spec: v1alpha1.PrototypeSpec{Version: "2027.01.01"}}},
	} {
		found := map[string]SavedPart{}
		for _, f := range s.find(t, prototypes...) {
			found[f.Secret] = f
		}
		f := found[first]
		if len(found) != 2 || found[second].Doubt != "" || f.Doubt != "" || f.Owner != owner || string(f.CustomData) != "#cloud-config" || string(f.Backup) != `{"image":"generic"}` || f.SavedAt.IsZero() {
			t.Errorf("%s: found %+v", name, found)
		}
	}
}

// TestForged: a client that creates Secrets can use the name and labels of a saved recipe. Detectable differences are
// refused, and a status with a different name is ignored.
func TestForged(t *testing.T) {
	yes, sum := true, digest([]byte("{}"), nil)
	labels := map[string]string{v1alpha1.PoolLabel: "pool1", v1alpha1.PrototypeLabel: "p"}
	for name, c := range map[string]struct {
		secret corev1.Secret
		doubt  string
		absent bool
	}{
		"an earlier version's": {secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "p-recipe", Labels: labels}, Immutable: &yes}},
		"kept beside":          {secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "p-recipe-" + sum[:8], Labels: labels}, Immutable: &yes}},
		"of another's name": {secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "q-recipe", Labels: labels}, Immutable: &yes},
			doubt: "does not match the Prototype"},
		"of no name": {secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "p-other", Labels: labels}, Immutable: &yes},
			doubt: "does not match the Prototype"},
		"of another digest's name": {secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "p-recipe-00000000", Labels: labels},
			Immutable: &yes}, doubt: "not the saved recipe"},
		"of another content": {secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "p-recipe", Labels: labels,
			Annotations: map[string]string{DigestAnnotation: "00"}}, Immutable: &yes}, doubt: "not the saved recipe"},
		"that can be changed": {secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "p-recipe", Labels: labels}}, doubt: "not immutable"},
		"of another pool": {secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "p-recipe",
			Labels: map[string]string{v1alpha1.PoolLabel: "pool2"}}, Immutable: &yes}, absent: true},
		"of another pool's ID": {secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "p-recipe", Labels: labels,
			Annotations: map[string]string{PoolIDAnnotation: "/x"}}, Immutable: &yes}, absent: true},
		"that holds something else": {secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "p-recipe", Labels: labels},
			Immutable: &yes, Data: map[string][]byte{"token": []byte("{}")}}, absent: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSecrets(t)
			secret := c.secret.DeepCopy()
			if secret.Data == nil {
				secret.Data = map[string][]byte{RecipeKey: []byte("{}")}
			}
			if _, err := s.Kube.CoreV1().Secrets(s.Namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			lying := v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: v1alpha1.PrototypeStatus{SavedRecipe: s.Namespace + "/token"}}
			found := s.find(t, lying)
			switch {
			case c.absent && len(found) > 0:
				t.Errorf("found %+v", found)
			case c.absent:
			case len(found) != 1 || (found[0].Doubt == "") != (c.doubt == "") || !strings.Contains(found[0].Doubt, c.doubt):
				t.Errorf("found %+v", found)
			}
		})
	}
}

// TestFoundByName tests an account that may get a Secret by name but must not list Secrets, as the engine's account.
func TestFoundByName(t *testing.T) {
	s := newSecrets(t)
	s.save(t, owner, `{"image":"generic"}`, "")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "get"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "create"}}}}
	if _, err := s.Kube.RbacV1().Roles(s.Namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	user := "reader-of-" + s.Namespace
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "get"},
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "get"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: user}}}
	if _, err := s.Kube.RbacV1().RoleBindings(s.Namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(apitest.Server(t))
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	limited := Secrets{Kube: kube, Namespace: s.Namespace}
	var known []v1alpha1.Prototype
	for i, name := range []string{owner.Prototype, "pool1-2026.03.02"} {
		known = append(known, v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprintf("u-%d", i+1))}})
	}
	var found []SavedPart
	for range 100 { // the authorizer needs a moment to see the binding
		if found, err = limited.Find(t.Context(), "pool1", poolID, known); err == nil {
			break
		}
	}
	if err != nil || len(found) != 1 || found[0].Owner != owner || !bytes.Equal(found[0].Backup, []byte(`{"image":"generic"}`)) {
		t.Errorf("found %+v, %v", found, err)
	}
	if found, err = limited.Find(t.Context(), "pool1", poolID, nil); err == nil || !strings.Contains(err.Error(), "may not list Secrets") {
		t.Errorf("of no Prototype there is found %+v, %v", found, err)
	}
}
