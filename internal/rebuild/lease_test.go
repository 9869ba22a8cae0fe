package rebuild

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// loseLease loses the n-th update or deletion of a Lease.
func (s *testEnv) loseLease(number int, outcome memory.Outcome) (made *int) {
	made = new(int)
	for _, verb := range []string{"update", "delete"} {
		s.kube.PrependReactor(verb, "leases", func(a kubetesting.Action) (bool, runtime.Object, error) {
			if *made++; *made != number {
				return false, nil, nil
			}
			if outcome.After {
				if _, _, err := kubetesting.ObjectReaction(s.kube.Tracker())(a); err != nil {
					s.t.Error(err)
				}
			}
			if outcome.Crash {
				panic(memory.Crash)
			}
			return true, nil, apierrors.NewServerTimeout(corev1.Resource("leases"), verb, 0)
		})
	}
	return made
}

// TestEachWriteOfALeaseLost tests the record of the request and the end of the hold. The node is rebuilt once and
// restored.
func TestEachWriteOfALeaseLost(t *testing.T) {
	s := newTestEnv(t, 1)
	writes := s.loseLease(0, memory.Outcome{})
	s.rebuildAll(s.cloud)
	if *writes < 2 {
		t.Fatalf("only %d writes", *writes)
	}
	for number := 1; number <= *writes; number++ {
		for name, outcome := range outcomes {
			s := newTestEnv(t, 1)
			s.loseLease(number, outcome)
			s.rebuildAll(s.cloud)
			s.wantRebuilt(fmt.Sprintf("write %d of a lease, %s", number, name))
		}
	}
}
