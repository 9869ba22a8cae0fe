package runner

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kamino-dev/kamino/api/v1alpha1"
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

// Two identities of one process differ: a restarted command is not the killed command.
func TestIdentitiesAreUnique(t *testing.T) {
	if a, b := identity(RoleCommand), identity(RoleCommand); a == b {
		t.Errorf("two identities are both %s", a)
	}
}
