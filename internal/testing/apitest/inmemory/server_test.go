package inmemory_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
	"github.com/kamino-dev/kamino/internal/testing/apitest/inmemory"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m)) }

const name = "pool-2026.03.14"

func fresh() *v1alpha1.Prototype {
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": "them"}}}
	p.Spec = v1alpha1.PrototypeSpec{Pool: "pool", Version: "2026.03.14", Settings: v1alpha1.Settings{}.Defaulted(),
		Donor: v1alpha1.Donor{NodeName: "n", ProviderID: "memory:///pools/pool/instances/1"}}
	p.Status.Phase = v1alpha1.PhaseSucceeded // not allowed on creation
	return p
}

// TestResultsEqualRealAPIServer: the same calls have the same results on a real API server, and leave the same object.
func TestResultsEqualRealAPIServer(t *testing.T) {
	ctx := t.Context()
	var last, old *v1alpha1.Prototype // as it was read, now and at some time before
	calls := []struct {
		does string
		call func(c client.Client) error
	}{
		{"reads what is not there", func(c client.Client) error { return c.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.Prototype{}) }},
		{"patches what is not there", func(c client.Client) error {
			return c.Patch(ctx, fresh(), client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"labels":{"a":"b"}}}`)))
		}},
		{"deletes what is not there", func(c client.Client) error { return c.Delete(ctx, fresh()) }},
		{"asks whether it may be made", func(c client.Client) error { return c.Create(ctx, fresh(), client.DryRunAll) }},
		{"makes it", func(c client.Client) error { return c.Create(ctx, fresh()) }},
		{"makes it once more", func(c client.Client) error { return c.Create(ctx, fresh()) }},
		{"makes one that has a version", func(c client.Client) error {
			p := fresh()
			p.Name, p.ResourceVersion = "other", "7"
			return c.Create(ctx, p)
		}},
		{"annotates it, and holds it", func(c client.Client) error {
			old = last.DeepCopy()
			next := last.DeepCopy()
			next.Annotations, next.Finalizers = map[string]string{"a": "1", "b": "2"}, []string{v1alpha1.CaptureFinalizer}
			next.Status.Phase = v1alpha1.PhaseFailed // which is not said here
			return c.Patch(ctx, next, client.MergeFromWithOptions(last, client.MergeFromWithOptimisticLock{}))
		}},
		{"takes an annotation away", func(c client.Client) error {
			next := last.DeepCopy()
			delete(next.Annotations, "a")
			return c.Patch(ctx, next, client.MergeFrom(last))
		}},
		{"patches what it read before", func(c client.Client) error {
			next := old.DeepCopy()
			next.Annotations = map[string]string{"late": "1"}
			return c.Patch(ctx, next, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
		}},
		{"writes a status", func(c client.Client) error {
			next := last.DeepCopy()
			next.Labels = nil // which is not said here
			next.Status.Phase, next.Status.Progress = v1alpha1.PhaseDraining, "pods left: 3"
			next.Status.Steps = []v1alpha1.Step{{Phase: v1alpha1.PhaseDraining,
				StartedAt: metav1.NewMicroTime(time.Date(2026, 3, 14, 9, 0, 0, 7000, time.UTC))}}
			return c.Status().Update(ctx, next)
		}},
		{"patches the status", func(c client.Client) error {
			return c.Status().Patch(ctx, last.DeepCopy(),
				client.RawPatch(client.Merge.Type(),
					[]byte(`{"status":{"progress":null,"savedRecipe":"kamino-system/r"},"metadata":{"labels":{"not":"said"}}}`)))
		}},
		{"patches the status that it read before", func(c client.Client) error {
			next := old.DeepCopy()
			next.Status.Progress = "late"
			return c.Status().Patch(ctx, next, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
		}},
		{"writes what it read before", func(c client.Client) error { return c.Update(ctx, old.DeepCopy()) }},
		{"writes it as it is", func(c client.Client) error { return c.Update(ctx, last.DeepCopy()) }},
		{"writes another label", func(c client.Client) error {
			next := last.DeepCopy()
			next.Labels["of"] = "others"
			next.Status.Progress = "not said here"
			return c.Update(ctx, next)
		}},
		{"deletes another one of its name", func(c client.Client) error {
			other := last.UID + "-other"
			return c.Delete(ctx, last.DeepCopy(), client.Preconditions{UID: &other})
		}},
		{"deletes it as it was before", func(c client.Client) error {
			return c.Delete(ctx, last.DeepCopy(), client.Preconditions{ResourceVersion: &old.ResourceVersion})
		}},
		{"deletes it, which is held", func(c client.Client) error { return c.Delete(ctx, last.DeepCopy()) }},
		{"deletes it again", func(c client.Client) error { return c.Delete(ctx, last.DeepCopy()) }},
		{"lets it go", func(c client.Client) error {
			next := last.DeepCopy()
			next.Finalizers = nil
			return c.Patch(ctx, next, client.MergeFrom(last))
		}},
		{"writes the status of what is gone", func(c client.Client) error { return c.Status().Update(ctx, last.DeepCopy()) }},
		{"makes it again", func(c client.Client) error { return c.Create(ctx, fresh()) }},
		{"writes what is of the one before", func(c client.Client) error {
			next := old.DeepCopy()
			next.ResourceVersion = ""
			return c.Status().Update(ctx, next)
		}},
	}
	var reported [2][]string
	for i, c := range []client.Client{apitest.Client(t), inmemory.New(time.Now).Client(nil)} {
		last, old = nil, nil
		for _, call := range calls {
			err := call.call(c)
			now := &v1alpha1.Prototype{}
			found := c.Get(ctx, client.ObjectKey{Name: name}, now) == nil
			if found {
				last = now.DeepCopy()
			}
			reported[i] = append(reported[i], fmt.Sprintf("%s: %q; %s", call.does, apierrors.ReasonForError(err), seen(found, now)))
		}
	}
	for i, real := range reported[0] {
		if reported[1][i] != real {
			t.Errorf("a real API server: %s\nthe one in memory: %s", real, reported[1][i])
		}
	}
}

// seen is the part of an object that both servers share.
func seen(found bool, p *v1alpha1.Prototype) string {
	if !found {
		return "not there"
	}
	return fmt.Sprintf("labels %v, annotations %v, finalizers %v, made %t, deleted %t, donor %s, status %s %q %q %v",
		p.Labels, p.Annotations, p.Finalizers, !p.CreationTimestamp.IsZero() && p.UID != "", p.DeletionTimestamp != nil, p.Spec.Donor.NodeName,
		p.Status.Phase, p.Status.Progress, p.Status.SavedRecipe, p.Status.Steps)
}
