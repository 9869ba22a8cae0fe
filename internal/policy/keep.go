package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/selection"
)

// keepable is a node that the policy captures, or will when it has been Ready for long enough.
type keepable struct {
	node    string
	patched time.Time
}

// keepablesOf returns the patched nodes that are donors, the best first, and then those that will be.
func keepablesOf(c selection.Choice) (all []keepable) {
	soon := slices.DeleteFunc(slices.Clone(c.Verdicts), func(v selection.NodeVerdict) bool {
		return len(v.Refusals) == 0 || slices.ContainsFunc(v.Refusals, func(r cloud.Refusal) bool { return r.Reason != selection.ReadyTooShort })
	})
	for _, v := range slices.Concat(c.Candidates, soon) {
		if !v.PatchedAt.IsZero() {
			all = append(all, keepable{v.Node, v.PatchedAt})
		}
	}
	return all
}

// keepUntil returns the node of a pool that the cluster autoscaler should not remove before its capture, and the end of that. The end counts
// from the patch, so that a node is kept once. A kept node stays the one while it can become a donor; the name is empty if there is none.
func keepUntil(all []keepable, isKept func(node string) bool, most time.Duration, now time.Time) (node string, until time.Time) {
	for _, k := range all {
		kept := isKept(k.node)
		if end := k.patched.Add(most); end.After(now) && (kept || node == "") {
			if node, until = k.node, end; kept {
				break
			}
		}
	}
	return node, until
}

// keepCandidates marks the node to keep of each pool, and removes all other marks: also those of policies that are gone.
func keepCandidates(ctx context.Context, kube client.Client, nodes []*corev1.Node, pools map[cloud.PoolID]*cachedOutcome, now time.Time) error {
	marks := map[string]string{}
	for _, n := range nodes {
		if mark, found := n.Annotations[v1alpha1.KeptUntilAnnotation]; found {
			marks[n.Name] = mark
		}
	}
	wanted := map[string]string{}
	for _, o := range pools {
		spec := o.rules.spec
		if most := spec.Selection.KeepFromScaleDown.Duration; most > 0 && o.rules.invalid == nil && !spec.Suspend && !spec.DryRun {
			if name, until := keepUntil(o.keepables, func(node string) bool { return marks[node] != "" }, most, now); name != "" {
				wanted[name] = until.UTC().Format(time.RFC3339)
			}
		}
	}
	var problems []error
	for _, n := range nodes {
		if n.Annotations[v1alpha1.ReservationAnnotation] == "" && marks[n.Name] != wanted[n.Name] {
			problems = append(problems, keep(ctx, kube, n, wanted[n.Name]))
		}
	}
	return errors.Join(problems...)
}

// keep writes the mark of a node, or removes the mark if until is empty. An annotation of another client stays, and needs no mark.
func keep(ctx context.Context, kube client.Client, cached *corev1.Node, until string) error {
	now := &corev1.Node{}
	err := kube.Get(ctx, client.ObjectKeyFromObject(cached), now)
	if apierrors.IsNotFound(err) || err == nil && now.UID != cached.UID {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", cached.Name, err)
	}
	before := now.DeepCopy()
	_, marked := now.Annotations[v1alpha1.KeptUntilAnnotation]
	_, disabled := now.Annotations[v1alpha1.ScaleDownDisabledAnnotation]
	switch {
	case until == "" && marked:
		delete(now.Annotations, v1alpha1.KeptUntilAnnotation)
		delete(now.Annotations, v1alpha1.ScaleDownDisabledAnnotation)
	case until == "", disabled && !marked:
		return nil
	default:
		metav1.SetMetaDataAnnotation(&now.ObjectMeta, v1alpha1.KeptUntilAnnotation, until)
		metav1.SetMetaDataAnnotation(&now.ObjectMeta, v1alpha1.ScaleDownDisabledAnnotation, "true")
	}
	err = kube.Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // the next pass decides again
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep node %s from scale-down: %w", cached.Name, err)
	}
	return nil
}
