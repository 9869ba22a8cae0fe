package recipe

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// copyCase is a capture that begins with a copy of customData, or without a copy.
type copyCase struct {
	CustomDataKeeper
	memory *memory.Cloud
	kube   *fake.Clientset
	said   []string
	spec   v1alpha1.PrototypeSpec
	// create creates the Prototype. The default succeeds.
	create func(p *v1alpha1.Prototype) (existing bool, err error)
}

func newDesk(given string) *copyCase {
	d := &copyCase{memory: memory.New(memory.Config{}), kube: fake.NewClientset(), create: func(*v1alpha1.Prototype) (bool, error) { return false, nil }}
	id := d.memory.AddPool(memory.PoolSpec{Name: "pool1", Bootstrap: []string{"customData"}, Unreadable: []string{"customData"}})
	d.CustomDataKeeper = CustomDataKeeper{
		Secrets: Secrets{Kube: d.kube, Namespace: "kamino-system"}, Cloud: d.memory,
		Say: func(format string, args ...any) { d.said = append(d.said, fmt.Sprintf(format, args...)) },
	}
	d.spec = v1alpha1.PrototypeSpec{Pool: "pool1", PoolID: string(id), Version: "2026.03.14"}
	d.spec.Settings.Generalize.Profile, d.spec.Settings.Trial.Mode = v1alpha1.ProfileStatic, v1alpha1.TrialApart
	if given != "" {
		d.CustomData = []byte(given)
	}
	return d
}

// begin begins as the command does.
func (d *copyCase) begin(t *testing.T, byController bool) (*v1alpha1.Prototype, []cloud.Refusal, error) {
	t.Helper()
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "pool1-2026.03.14", UID: "u"}, Spec: d.spec}
	kept, refusals, err := d.CopyFor(t.Context(), d.spec, byController)
	if err != nil || len(refusals) > 0 {
		return p, refusals, err
	}
	return p, nil, d.Begin(t.Context(), kept, func(from *v1alpha1.SecretKey) (*v1alpha1.Prototype, bool, error) {
		p.Spec.Settings.Recipe.CustomDataFrom = from
		existing, err := d.create(p)
		return p, existing, err
	})
}

func refused(err error) bool {
	var refused *cluster.Refused
	return errors.As(err, &refused)
}

func (d *copyCase) copies(t *testing.T) []corev1.Secret {
	t.Helper()
	list, err := d.kube.CoreV1().Secrets("kamino-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// TestCopyPrecedesPrototype: the Prototype owns the copy, and no message shows the content.
func TestCopyPrecedesPrototype(t *testing.T) {
	d := newDesk("#cloud-config needle")
	d.create = func(*v1alpha1.Prototype) (bool, error) {
		if len(d.copies(t)) != 1 {
			t.Error("the Prototype comes before the copy that it names")
		}
		return false, nil
	}
	p, refusals, err := d.begin(t, false)
	if err != nil || len(refusals) > 0 {
		t.Fatalf("%v, %v", err, refusals)
	}
	copies, from := d.copies(t), p.Spec.Settings.Recipe.CustomDataFrom
	if len(copies) != 1 || from == nil || from.Name != copies[0].Name || string(copies[0].Data["customData"]) != "#cloud-config needle" {
		t.Fatalf("%+v, named %+v", copies, from)
	}
	if owners := copies[0].OwnerReferences; len(owners) != 1 || owners[0].Name != p.Name {
		t.Errorf("it is owned by %+v", owners)
	}
	if strings.Contains(fmt.Sprint(d.said, p), "needle") {
		t.Errorf("its content is printed: %q", d.said)
	}
	// The same command again follows the capture; a command with another copy is refused.
	if err := d.Same(t.Context(), p); err != nil || len(d.copies(t)) != 1 {
		t.Errorf("the same once more: %v", err)
	}
	d.CustomData = []byte("another")
	if err := d.Same(t.Context(), p); !refused(err) || len(d.copies(t)) != 1 {
		t.Errorf("another copy: %v", err)
	}
}

// TestUnusedCopyIsDeleted: after a failed creation of the Prototype, the command deletes its new copy.
func TestUnusedCopyIsDeleted(t *testing.T) {
	away := apierrors.NewServiceUnavailable("away")
	failing := func(given string) *copyCase {
		d := newDesk(given)
		d.create = func(*v1alpha1.Prototype) (bool, error) { return false, away }
		return d
	}
	d := failing("data")
	if _, _, err := d.begin(t, false); !apierrors.IsServiceUnavailable(err) || len(d.copies(t)) != 0 {
		t.Errorf("%v, %d copies are left", err, len(d.copies(t)))
	}
	// A copy from before belongs to another command.
	d = failing("data")
	if _, err := d.Keep(t.Context(), NewCopy("pool1", []byte("data"))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.begin(t, false); err == nil || len(d.copies(t)) != 1 {
		t.Errorf("%v, %d copies", err, len(d.copies(t)))
	}
	// A failed deletion is reported.
	d = failing("data")
	d.kube.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, away })
	if _, _, err := d.begin(t, false); err == nil || len(d.said) != 1 || !strings.Contains(d.said[0], "could not delete the unused Secret") {
		t.Errorf("%v, said %q", err, d.said)
	}
	// Another client began at the same moment, without a copy.
	d = newDesk("data")
	d.create = func(p *v1alpha1.Prototype) (bool, error) {
		p.Spec.Settings.Recipe.CustomDataFrom = nil
		return true, nil
	}
	if _, _, err := d.begin(t, false); !refused(err) || len(d.copies(t)) != 0 {
		t.Errorf("%v, %d copies are left", err, len(d.copies(t)))
	}
}

// TestPartsWithoutCopy and why.
func TestPartsWithoutCopy(t *testing.T) {
	for name, test := range map[string]struct {
		given        string
		world        func(*copyCase)
		byController bool
		copies       int
		said         string
		kind         cloud.Kind
	}{
		"nothing is given": {},
		"nothing is lost": {given: "data", world: func(d *copyCase) { d.memory.ChangeRecipe("memory:///pools/pool1", "generic") },
			said: "removes no customData"},
		"the cloud is away":                {given: "data", world: func(d *copyCase) { d.memory.Forbid("RecipeChange") }, kind: cloud.Denied},
		"it is away, a controller asks it": {given: "data", world: func(d *copyCase) { d.memory.Forbid("RecipeChange") }, byController: true, copies: 1},
		"a trial node needs it": {given: "data", copies: 1,
			world: func(d *copyCase) { d.spec.Settings.Generalize.Profile = v1alpha1.ProfileBootstrap }},
		"a workshop needs it": {given: "data", copies: 1, world: func(d *copyCase) {
			d.spec.Settings.Generalize.Profile, d.spec.Settings.Trial.Mode = v1alpha1.ProfileBootstrap, v1alpha1.TrialOff
			d.spec.Settings.Donor.Method = v1alpha1.MethodCopy
		}},
		"no trial node needs it": {given: "data", world: func(d *copyCase) {
			d.spec.Settings.Generalize.Profile, d.spec.Settings.Trial.Mode = v1alpha1.ProfileBootstrap, v1alpha1.TrialOff
		}, said: "removes no customData"},
		"it can't be owned": {given: "data", copies: 1, said: "does not own the copy", world: func(d *copyCase) {
			d.kube.PrependReactor("patch", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no right") })
		}},
	} {
		d := newDesk(test.given)
		if test.world != nil {
			test.world(d)
		}
		_, refusals, err := d.begin(t, test.byController)
		if (err == nil) != (test.kind == "") || err != nil && !cloud.Is(err, test.kind) || len(refusals) > 0 {
			t.Errorf("%s: %v, %v", name, err, refusals)
		}
		if got := d.copies(t); len(got) != test.copies || !strings.Contains(strings.Join(d.said, " "), test.said) || (test.said == "") != (len(d.said) == 0) {
			t.Errorf("%s: %d copies, said %q", name, len(got), d.said)
		}
	}
}
