package recipe

import (
	"encoding/base64"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

func (s Secrets) secret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	secret, err := s.Kube.CoreV1().Secrets(s.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// TestACopyIsKeptOnce: a second Keep of the same copy, after an interruption or error, finds the first Secret.
func TestACopyIsKeptOnce(t *testing.T) {
	s := newSecrets(t)
	c, other := NewCopy("Pool1", []byte("#cloud-config needle")), NewCopy("pool1", []byte("#cloud-config other"))
	if c.Name == other.Name || !strings.HasPrefix(c.Name, "pool1-custom-data-") || strings.Contains(c.Name, "needle") {
		t.Errorf("the names are %s and %s", c.Name, other.Name)
	}
	for i, want := range []bool{true, false, false} {
		if made, err := s.Keep(t.Context(), c); err != nil || made != want {
			t.Errorf("time %d: made %t, %v", i, made, err)
		}
	}
	if made, err := s.Keep(t.Context(), other); err != nil || !made {
		t.Errorf("another content: made %t, %v", made, err)
	}
	if secret := s.secret(t, c.Name); string(secret.Data[CustomDataKey]) != "#cloud-config needle" || !*secret.Immutable || len(secret.OwnerReferences) != 0 {
		t.Errorf("it is kept as %+v", secret)
	}
	if found := s.find(t); len(found) != 0 {
		t.Errorf("it is taken for what a recipe lost: %+v", found)
	}
}

// TestPrototypesOwnCopy: each Prototype that uses the copy owns the copy. A repeated claim changes nothing.
func TestPrototypesOwnCopy(t *testing.T) {
	s := newSecrets(t)
	c := NewCopy("pool1", []byte("#cloud-config"))
	if _, err := s.Keep(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []types.UID{"u-1", "u-2", "u-1"} {
		if err := s.Own(t.Context(), c, &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "p-" + string(uid), UID: uid}}); err != nil {
			t.Fatal(err)
		}
	}
	var owners []string
	for _, o := range s.secret(t, c.Name).OwnerReferences {
		if o.APIVersion != "kamino.dev/v1alpha1" || o.Kind != "Prototype" || o.Name != "p-"+string(o.UID) {
			t.Errorf("an owner is %+v", o)
		}
		owners = append(owners, o.Name)
	}
	if len(owners) != 2 {
		t.Errorf("it goes with %v", owners)
	}
	for range 2 {
		if err := s.Drop(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Kube.CoreV1().Secrets(s.Namespace).Get(t.Context(), c.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("afterwards: %v", err)
	}
	if err := s.Own(t.Context(), c, &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}); !apierrors.IsNotFound(err) {
		t.Errorf("of one that is gone: %v", err)
	}
}

// TestACopyOfAnothersHand: a Secret with the right name but different or mutable content is never used.
func TestACopyOfAnothersHand(t *testing.T) {
	yes := true
	for name, change := range map[string]func(*corev1.Secret){
		"another content":  func(s *corev1.Secret) { s.Data[CustomDataKey] = []byte("theirs") },
		"another key":      func(s *corev1.Secret) { s.Data = map[string][]byte{"x": s.Data[CustomDataKey]} },
		"can be changed":   func(s *corev1.Secret) { s.Immutable = nil },
		"says it can be":   func(s *corev1.Secret) { no := false; s.Immutable = &no },
		"the copy, though": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSecrets(t)
			c := NewCopy("pool1", []byte("ours"))
			theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Immutable: &yes, Data: map[string][]byte{CustomDataKey: []byte("ours")}}
			if change != nil {
				change(theirs)
			}
			if _, err := s.Kube.CoreV1().Secrets(s.Namespace).Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			made, err := s.Keep(t.Context(), c)
			if made || (err != nil) != (change != nil) || err != nil && !strings.Contains(err.Error(), "delete the Secret") {
				t.Errorf("made %t, %v", made, err)
			}
		})
	}
}

// TestEncoded: only base64 of a known format of customData counts as encoded.
func TestEncoded(t *testing.T) {
	coded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for text, want := range map[string]bool{
		"#cloud-config\nx: 1\n":                                      false,
		coded("#cloud-config\n"):                                     true,
		coded("#cloud-config\n") + "\n":                              true,
		coded("#!/bin/sh\n")[:8] + "\r\n" + coded("#!/bin/sh\n")[8:]: true,
		coded("\x1f\x8b\x08\x00data"):                                true,
		coded("Content-Type: multipart/mixed\n"):                     true,
		coded("MIME-Version: 1.0\n"):                                 true,
		coded("From nobody\n"):                                       true,
		coded("anything else"):                                       false,
		coded(coded("#cloud-config\n")):                              false,
		"\x1f\x8b\x08\x00data":                                       false,
		"":                                                           false,
		"password":                                                   false,
		strings.TrimRight(coded("#cloud-c"), "="):                    false,
	} {
		if got := Encoded([]byte(text)); got != want {
			t.Errorf("Encoded(%q) = %t", text, got)
		}
	}
}

// TestRehearse: an obstacle to restoring the copy is known before the recipe loses data.
func TestRehearse(t *testing.T) {
	c := memory.New(memory.Config{})
	id := c.AddPool(memory.PoolSpec{Name: "pool1", Image: "generic", Bootstrap: []string{"customData"}})
	change, err := c.RecipeChange(t.Context(), cloud.ImageRef{Pool: id, Version: "2026.03.01"}, true)
	if err != nil || !Loses(change) {
		t.Fatalf("the change is %+v, %v", change, err)
	}
	if refusals, err := Rehearse(t.Context(), c, change, []byte("x")); err != nil || len(refusals) != 0 {
		t.Errorf("it is refused: %v, %v", refusals, err)
	}
	c.SetUpgrades(id, true)
	if refusals, err := Rehearse(t.Context(), c, change, []byte("x")); err != nil || len(refusals) == 0 {
		t.Errorf("a pool that rolls is not refused: %v, %v", refusals, err)
	}
	change.Backup = []byte("nonsense")
	if _, err := Rehearse(t.Context(), c, change, []byte("x")); err == nil {
		t.Error("an unrestorable part is accepted")
	}
	if kept, err := c.RecipeChange(t.Context(), cloud.ImageRef{Pool: id, Version: "2026.03.01"}, false); err != nil || Loses(kept) {
		t.Errorf("a recipe that keeps its bootstrap loses customData: %+v, %v", kept, err)
	}
}
