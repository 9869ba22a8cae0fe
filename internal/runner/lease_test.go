package runner

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cluster"
)

func TestLeaseHolder(t *testing.T) {
	lease := func(who string, renewed time.Duration) *coordinationv1.Lease {
		seconds, at := int32(30), metav1.NewMicroTime(testNow.Add(-renewed))
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName, Namespace: "ns"}}
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &who, &seconds, &at
		return l
	}
	for name, test := range map[string]struct {
		lease *coordinationv1.Lease
		want  string
	}{
		"no lease":       {nil, "no process"},
		"released":       {lease("", 0), "no process"},
		"expired":        {lease("controller/c/1", time.Minute), "no process"},
		"a controller":   {lease("controller/c/1", time.Second), "the controller c"},
		"a command":      {lease("command/laptop/1", time.Second), "a command on laptop"},
		"another client": {lease("c_1234", time.Second), "c_1234"},
		"never renewed":  {&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName, Namespace: "ns"}}, "no process"},
		"by this minute": {lease(identity(RoleController), 29*time.Second), "the controller " + parseHolder(identity(RoleController)).Host},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []runtime.Object
			if test.lease != nil {
				objects = append(objects, test.lease)
			}
			c := &cluster.Connection{Kube: fake.NewClientset(objects...)}
			got, err := LeaseHolder(t.Context(), c, "ns", testNow)
			if err != nil || got.String() != test.want {
				t.Errorf("leaseHolder = %s, %v, want %s", got, err, test.want)
			}
		})
	}
}

// The Lease says whether a process works, and whether the last one died: a released Lease has a term for the successor.
func TestLeaseState(t *testing.T) {
	lease := func(who string, renewed time.Duration) *coordinationv1.Lease {
		seconds, at := int32(30), metav1.NewMicroTime(testNow.Add(-renewed))
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName, Namespace: "ns"}}
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &who, &seconds, &at
		return l
	}
	for name, test := range map[string]struct {
		lease *coordinationv1.Lease
		want  attention.Lease
	}{
		"no lease":  {nil, attention.Lease{Known: true}},
		"held":      {lease("controller/c/1", time.Second), attention.Lease{Known: true, Holder: "the controller c", Sweeps: true}},
		"a command": {lease("command/laptop/1", time.Second), attention.Lease{Known: true, Holder: "a command on laptop"}},
		"died":      {lease("controller/c/1", time.Minute), attention.Lease{Known: true, Lost: "the controller c", Over: testNow.Add(-30 * time.Second)}},
		"released":  {lease("", time.Second), attention.Lease{Known: true, Over: testNow.Add(29 * time.Second)}},
	} {
		var objects []runtime.Object
		if test.lease != nil {
			objects = append(objects, test.lease)
		}
		got, err := LeaseState(t.Context(), &cluster.Connection{Kube: fake.NewClientset(objects...)}, "ns", testNow)
		if err != nil || got.Known != test.want.Known || got.Holder != test.want.Holder || got.Sweeps != test.want.Sweeps || got.Lost != test.want.Lost || !got.Over.Equal(test.want.Over) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	broken := fake.NewClientset()
	broken.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no answer")
	})
	if got, err := LeaseState(t.Context(), &cluster.Connection{Kube: broken}, "ns", testNow); err == nil || got.Known {
		t.Errorf("without an answer: %+v, %v", got, err)
	}
}

// Two identities of one process differ: a restarted command is not the killed command.
func TestIdentitiesAreUnique(t *testing.T) {
	if a, b := identity(RoleCommand), identity(RoleCommand); a == b {
		t.Errorf("two identities are both %s", a)
	}
}
