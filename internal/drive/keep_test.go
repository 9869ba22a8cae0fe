package drive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/memory"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/savedrecipe"
)

// desk is a node whose capture begins with a copy of customData, or without a copy.
type desk struct {
	RequestWithCopy
	memory *memory.Cloud
	kube   *fake.Clientset
	said   []string
}

func newDesk(t *testing.T, given string, funcs interceptor.Funcs, objects ...client.Object) *desk {
	t.Helper()
	d := &desk{memory: memory.New(memory.Config{})}
	pool := d.memory.AddPool(memory.PoolSpec{Name: "pool1", Bootstrap: []string{"customData"}, Unreadable: []string{"customData"}})
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	n.Spec.ProviderID = string(d.memory.AddInstance(pool, "1"))
	d.kube = fake.NewClientset(n)
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster.Connection{
		Kube: d.kube, Skew: func() (time.Duration, bool) { return 0, false },
		Client: clientfake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(funcs).WithObjects(objects...).Build(),
	}
	d.RequestWithCopy = RequestWithCopy{
		CaptureRequest: CaptureRequest{Cluster: c, Cloud: d.memory, Now: nowThen, Node: "node-1"},
		Secrets:        savedrecipe.Secrets{Kube: d.kube, Namespace: "kamino-system"},
		Say:            func(format string, args ...any) { d.said = append(d.said, fmt.Sprintf(format, args...)) },
	}
	d.Settings = v1alpha1.Settings{Generalize: v1alpha1.GeneralizeSettings{Profile: v1alpha1.ProfileStatic}}
	if given != "" {
		d.CustomData = []byte(given)
	}
	return d
}

// begin begins as the command does.
func (d *desk) begin(t *testing.T, h Holder) (Decision, []cloud.Refusal, error) {
	t.Helper()
	decision, err := d.Decide(t.Context())
	if err != nil {
		return decision, nil, err
	}
	kept, refusals, err := d.CopyFor(t.Context(), decision, h)
	if err != nil || len(refusals) > 0 {
		return decision, refusals, err
	}
	decision, err = d.Write(t.Context(), decision, kept)
	return decision, nil, err
}

func (d *desk) copies(t *testing.T) []corev1.Secret {
	t.Helper()
	list, err := d.kube.CoreV1().Secrets("kamino-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// TestACopyIsThereBeforeItsPrototype: the Prototype owns the copy, and no message shows the content.
func TestACopyIsThereBeforeItsPrototype(t *testing.T) {
	var d *desk
	d = newDesk(t, "#cloud-config needle", interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if len(d.copies(t)) != 1 {
			t.Error("the Prototype comes before the copy that it names")
		}
		return c.Create(ctx, o, opts...)
	}})
	decision, refusals, err := d.begin(t, Holder{})
	if err != nil || len(refusals) > 0 {
		t.Fatalf("%v, %v", err, refusals)
	}
	copies, from := d.copies(t), decision.Prototype.Spec.Settings.Recipe.CustomDataFrom
	if len(copies) != 1 || from == nil || from.Name != copies[0].Name || string(copies[0].Data["customData"]) != "#cloud-config needle" {
		t.Fatalf("%+v, named %+v", copies, from)
	}
	if owners := copies[0].OwnerReferences; len(owners) != 1 || owners[0].Name != decision.Prototype.Name {
		t.Errorf("it is owned by %+v", owners)
	}
	if strings.Contains(fmt.Sprint(d.said, decision.Prototype), "needle") {
		t.Errorf("its content is told: %q", d.said)
	}
	// The same command again follows the capture; a command with another copy is refused.
	if err := d.Same(t.Context(), decision.Prototype); err != nil || len(d.copies(t)) != 1 {
		t.Errorf("the same once more: %v", err)
	}
	d.CustomData = []byte("another")
	if err := d.Same(t.Context(), decision.Prototype); !refused(err) || len(d.copies(t)) != 1 {
		t.Errorf("another copy: %v", err)
	}
}

// TestWhatNobodyCameToUseGoes: after a failed creation of the Prototype, the command deletes its new copy.
func TestWhatNobodyCameToUseGoes(t *testing.T) {
	away := apierrors.NewServiceUnavailable("away")
	failing := interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return away }}
	d := newDesk(t, "data", failing)
	if _, _, err := d.begin(t, Holder{}); !apierrors.IsServiceUnavailable(err) || len(d.copies(t)) != 0 {
		t.Errorf("%v, %d copies are left", err, len(d.copies(t)))
	}
	// A copy from before belongs to another command.
	d = newDesk(t, "data", failing)
	if _, err := d.Secrets.Keep(t.Context(), savedrecipe.NewCopy("pool1", []byte("data"))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.begin(t, Holder{}); err == nil || len(d.copies(t)) != 1 {
		t.Errorf("%v, %d copies", err, len(d.copies(t)))
	}
	// A failed deletion is reported.
	d = newDesk(t, "data", failing)
	d.kube.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, away })
	if _, _, err := d.begin(t, Holder{}); err == nil || len(d.said) != 1 || !strings.Contains(d.said[0], "could not delete the unused Secret") {
		t.Errorf("%v, said %q", err, d.said)
	}
	// Another client began at the same moment, without a copy.
	other := func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		theirs := o.DeepCopyObject().(*v1alpha1.Prototype)
		theirs.Spec.Settings.Recipe.CustomDataFrom = nil
		return errors.Join(c.Create(ctx, theirs, opts...), apierrors.NewAlreadyExists(v1alpha1.GroupVersion.WithResource("prototypes").GroupResource(), o.GetName()))
	}
	d = newDesk(t, "data", interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		err := other(ctx, c, o, opts...)
		var status *apierrors.StatusError
		if errors.As(err, &status) {
			return status
		}
		return err
	}})
	if _, _, err := d.begin(t, Holder{}); !refused(err) || len(d.copies(t)) != 0 {
		t.Errorf("%v, %d copies are left", err, len(d.copies(t)))
	}
}

// TestWhatIsNotKept and why.
func TestWhatIsNotKept(t *testing.T) {
	for name, test := range map[string]struct {
		given  string
		world  func(*desk)
		holder Holder
		copies int
		said   string
		kind   cloud.Kind
	}{
		"nothing is given": {},
		"nothing is lost": {given: "data", world: func(d *desk) { d.memory.ChangeRecipe("memory:///pools/pool1", "generic") },
			said: "removes no customData"},
		"the cloud is away":                {given: "data", world: func(d *desk) { d.memory.Forbid("RecipeChange") }, kind: cloud.Denied},
		"it is away, a controller asks it": {given: "data", world: func(d *desk) { d.memory.Forbid("RecipeChange") }, holder: Holder{Role: RoleController}, copies: 1},
		"a trial node needs it":            {given: "data", copies: 1, world: func(d *desk) { d.Settings.Generalize.Profile = v1alpha1.ProfileBootstrap }},
		"no trial node needs it": {given: "data", world: func(d *desk) {
			d.Settings.Generalize.Profile, d.Settings.Trial.Mode = v1alpha1.ProfileBootstrap, v1alpha1.TrialOff
		}, said: "removes no customData"},
		"it can't be owned": {given: "data", copies: 1, said: "does not own the copy", world: func(d *desk) {
			d.kube.PrependReactor("patch", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no right") })
		}},
	} {
		d := newDesk(t, test.given, interceptor.Funcs{})
		if test.world != nil {
			test.world(d)
		}
		_, refusals, err := d.begin(t, test.holder)
		if (err == nil) != (test.kind == "") || err != nil && !cloud.Is(err, test.kind) || len(refusals) > 0 {
			t.Errorf("%s: %v, %v", name, err, refusals)
		}
		if got := d.copies(t); len(got) != test.copies || !strings.Contains(strings.Join(d.said, " "), test.said) || (test.said == "") != (len(d.said) == 0) {
			t.Errorf("%s: %d copies, said %q", name, len(got), d.said)
		}
	}
}
