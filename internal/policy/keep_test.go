package policy_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// keepEnv has a pool of three patched nodes on the API server, and a policy that keeps one of them. Its schedule allows no capture.
type keepEnv struct {
	*testEnv
	id      cloud.PoolID
	patched time.Time
}

const keptFor = 48 * time.Hour

func newKeepEnv(t *testing.T) *keepEnv {
	s := &keepEnv{testEnv: newTestEnv(t)}
	s.inMemory()
	s.id, s.patched = s.pool("one", 3, 5), s.clock.Now().Add(-24*time.Hour)
	s.must(s.nodes.Place(t.Context()))
	for _, n := range s.nodes.Of(s.id) {
		created := n.DeepCopy()
		s.must(s.client.Create(t.Context(), created))
		created.Status = n.Status
		s.must(s.client.Status().Update(t.Context(), created))
	}
	s.policy("keeps", func(spec *v1alpha1.PrototypePolicySpec) {
		spec.Selection.KeepFromScaleDown = metav1.Duration{Duration: keptFor}
		spec.Schedule = v1alpha1.ScheduleSettings{Cron: "0 0 1 1 *", Window: metav1.Duration{Duration: time.Hour}}
	})
	return s
}

// kept makes two passes, each with the nodes as the API server has them, and returns the marks by node.
func (s *keepEnv) kept() map[string]string {
	s.Helper()
	marks := map[string]string{}
	for range 2 {
		s.sync()
		s.runPass()
	}
	for _, n := range s.sync() {
		mark, marked := n.Annotations[v1alpha1.KeptUntilAnnotation]
		if marked != (n.Annotations[v1alpha1.ScaleDownDisabledAnnotation] == "true") {
			s.Errorf("node %s has half a mark: %v", n.Name, n.Annotations)
		}
		if marked {
			marks[n.Name] = mark
		}
	}
	return marks
}

func (s *keepEnv) sync() []corev1.Node {
	s.Helper()
	all := &corev1.NodeList{}
	s.must(s.client.List(s.Context(), all))
	for i := range all.Items {
		s.nodes.Set(all.Items[i].DeepCopy())
	}
	return all.Items
}

func (s *keepEnv) annotate(name, key, value string) {
	s.Helper()
	n := &corev1.Node{}
	s.must(s.client.Get(s.Context(), client.ObjectKey{Name: name}, n))
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value)
	s.must(s.client.Update(s.Context(), n))
}

func (s *keepEnv) cordon(name string, is bool) {
	s.Helper()
	n := &corev1.Node{}
	s.must(s.client.Get(s.Context(), client.ObjectKey{Name: name}, n))
	n.Spec.Unschedulable = is
	s.must(s.client.Update(s.Context(), n))
}

// edit changes the policy as a person does. The API server counts the generation, which the store in memory does not.
func (s *keepEnv) edit(change func(*v1alpha1.PrototypePolicySpec)) {
	s.Helper()
	p := s.status("keeps")
	p.Generation++
	change(&p.Spec)
	s.must(s.client.Update(s.Context(), p))
}

// wantKept checks that exactly one node of the pool is kept, until the time after its patch.
func (s *keepEnv) wantKept() string {
	s.Helper()
	marks := s.kept()
	names := slices.Collect(maps.Keys(marks))
	if len(names) != 1 || marks[names[0]] != s.patched.Add(keptFor).Format(time.RFC3339) {
		s.Fatalf("the marks are %v, and the pool is %+v", marks, s.poolStatus("keeps", "one"))
	}
	return names[0]
}

// TestKeepFromScaleDown: one patched node of the pool is kept from the cluster autoscaler, the best donor, and it stays the one. The mark
// ends with its time, its reason, its setting and its policy.
func TestKeepFromScaleDown(t *testing.T) {
	for name, end := range map[string]func(s *keepEnv){
		"the time is over": func(s *keepEnv) { s.clock.Advance(keptFor - 23*time.Hour) },
		"the policy is deleted": func(s *keepEnv) {
			s.must(s.client.Delete(s.Context(), &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "keeps"}}))
		},
		"the setting is gone": func(s *keepEnv) {
			s.edit(func(spec *v1alpha1.PrototypePolicySpec) { spec.Selection.KeepFromScaleDown = metav1.Duration{} })
		},
		"the policy is suspended": func(s *keepEnv) { s.edit(func(spec *v1alpha1.PrototypePolicySpec) { spec.Suspend = true }) },
		"an image has the patches": func(s *keepEnv) {
			s.version(s.id, s.clock.Now(), nil)
			s.cloud.ChangeRecipe(s.id, string(s.id)+"/versions/"+imageversion.Of(s.clock.Now()))
			s.restart()
		},
		"by a controller without memory": func(s *keepEnv) {
			s.must(s.client.Delete(s.Context(), &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "keeps"}}))
			s.restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newKeepEnv(t)
			if first := s.wantKept(); first != "one-2" {
				t.Errorf("%s is kept, not the best donor", first)
			}
			end(s)
			if marks := s.kept(); len(marks) > 0 {
				t.Errorf("the marks are %v", marks)
			}
		})
	}
}

// TestKeptNodeStays: a better donor does not replace the kept node while that can become a donor. Then the next is kept, and never two.
func TestKeptNodeStays(t *testing.T) {
	s := newKeepEnv(t)
	s.cordon("one-2", true)
	if first := s.wantKept(); first != "one-1" {
		t.Fatalf("%s is kept", first)
	}
	s.cordon("one-2", false)
	if again := s.wantKept(); again != "one-1" {
		t.Errorf("%s is kept then", again)
	}
	s.cordon("one-1", true)
	if next := s.wantKept(); next != "one-2" {
		t.Errorf("%s is kept after one-1 cannot be a donor", next)
	}
}

// TestKeptSinceThePatch: a node is kept before it has been Ready for long enough to be a donor.
func TestKeptSinceThePatch(t *testing.T) {
	s := newKeepEnv(t)
	s.edit(func(spec *v1alpha1.PrototypePolicySpec) {
		spec.Selection.MinReadyTime = &metav1.Duration{Duration: 100 * time.Hour}
	})
	s.wantKept()
}

// TestOthersAnnotationStays: what another client wrote against a scale-down is neither overwritten nor removed.
func TestOthersAnnotationStays(t *testing.T) {
	s := newKeepEnv(t)
	for _, n := range s.sync() {
		s.annotate(n.Name, v1alpha1.ScaleDownDisabledAnnotation, "theirs")
	}
	for _, suspend := range []bool{false, true} {
		s.edit(func(spec *v1alpha1.PrototypePolicySpec) { spec.Suspend = suspend })
		s.runPass()
		for _, n := range s.sync() {
			if _, marked := n.Annotations[v1alpha1.KeptUntilAnnotation]; marked || n.Annotations[v1alpha1.ScaleDownDisabledAnnotation] != "theirs" {
				t.Errorf("%v", n.Annotations)
			}
		}
	}
}
