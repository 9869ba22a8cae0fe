package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Remaining is what is left on a node that is being drained.
type Remaining struct {
	// Pods that must leave, and have not.
	Pods []corev1.Pod
	// Stuck are sentences about pods that may not be evicted at all without force.
	Stuck []string
	// Protected are those of Pods that ask not to be evicted, with the annotation that says so. They go all the
	// same where they are evicted.
	Protected []string
}

// Names of the pods that are left, as namespace/name.
func (r Remaining) Names() []string {
	names := make([]string, len(r.Pods))
	for i := range r.Pods {
		names[i] = r.Pods[i].Namespace + "/" + r.Pods[i].Name
	}
	return names
}

// Own names the pod that generalizes a donor, which is not drained by the capture that it belongs to. A label
// would not tell it: anybody may write one on a pod of theirs. The zero value is no pod.
type Own struct{ Namespace, Name string }

// Left looks at which pods must still leave the node: all but those of DaemonSets, static pods, and
// Kamino's own. It asks for the pods of this one node.
func Left(ctx context.Context, kube kubernetes.Interface, name string, s v1alpha1.DrainSettings, own Own) (Remaining, error) {
	h := helper(ctx, kube, s)
	h.AdditionalFilters = []drain.PodFilter{own.stays}
	list, problems := h.GetPodsForDeletion(name)
	if list == nil {
		return Remaining{}, fmt.Errorf("list the pods of node %s: %w", name, errors.Join(problems...))
	}
	left := Remaining{Pods: list.Pods()}
	for i := range left.Pods {
		if by := protectedBy(&left.Pods[i]); by != "" {
			left.Protected = append(left.Protected, fmt.Sprintf("%s/%s (%s)", left.Pods[i].Namespace, left.Pods[i].Name, by))
		}
	}
	for _, problem := range problems {
		left.Stuck = append(left.Stuck, strings.TrimSpace(problem.Error()))
	}
	return left, nil
}

// protectedBy names the annotation by which a pod asks not to be evicted; empty if it doesn't.
func protectedBy(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "" // it goes by itself
	case pod.Annotations[v1alpha1.SafeToEvictAnnotation] == "false":
		return v1alpha1.SafeToEvictAnnotation
	case pod.Annotations[v1alpha1.DoNotDisruptAnnotation] == "true":
		return v1alpha1.DoNotDisruptAnnotation
	}
	return ""
}

// Blocked is a pod that a PodDisruptionBudget keeps for now.
type Blocked struct {
	// Pod as namespace/name.
	Pod string
	// Why is the API server's own sentence; it names the budget.
	Why string
}

// String reads "default/web-1: The disruption budget web needs 2 healthy pods and has 2 currently".
func (b Blocked) String() string { return b.Pod + ": " + b.Why }

// Evict asks every pod that is left to go, once, through the eviction API, and does not wait. Pods that
// already end are left alone. It returns the pods that a budget holds back. With hard, pods are deleted
// instead of evicted, budgets or not.
func Evict(ctx context.Context, kube kubernetes.Interface, left Remaining, s v1alpha1.DrainSettings, hard bool) ([]Blocked, error) {
	h := helper(ctx, kube, s)
	var blocked []Blocked
	var problems []error
	for _, pod := range left.Pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		var err error
		if hard {
			err = h.DeletePod(pod)
		} else {
			err = h.EvictPod(pod, policyv1.SchemeGroupVersion)
		}
		switch {
		case err == nil, apierrors.IsNotFound(err):
		case apierrors.IsTooManyRequests(err):
			blocked = append(blocked, Blocked{pod.Namespace + "/" + pod.Name, budgetSentence(err)})
		default:
			problems = append(problems, fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
	}
	return blocked, errors.Join(problems...)
}

// HeldBack returns the pods that a budget would hold back if each were evicted alone. It is a look: evictions in a dry
// run, which the API server answers by the budgets as they are. A pod about which it says anything else is not among them.
func HeldBack(ctx context.Context, kube kubernetes.Interface, left Remaining) []Blocked {
	var blocked []Blocked
	for _, pod := range left.Pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		err := kube.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
		})
		if apierrors.IsTooManyRequests(err) {
			blocked = append(blocked, Blocked{pod.Namespace + "/" + pod.Name, budgetSentence(err)})
		}
	}
	return blocked
}

// budgetSentence is the part of the API server's refusal that names the budget; the refusal itself if no
// part does. Source: pkg/registry/core/pod/storage/eviction.go, cause "DisruptionBudget".
func budgetSentence(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause {
				return cause.Message
			}
		}
	}
	return err.Error()
}

// helper carries kubectl's rules for which pods go. None of its blocking calls is used.
func helper(ctx context.Context, kube kubernetes.Interface, s v1alpha1.DrainSettings) *drain.Helper {
	grace := -1 // each pod's own
	if s.GracePeriod != nil {
		grace = int(s.GracePeriod.Seconds())
	}
	return &drain.Helper{
		Ctx: ctx, Client: kube, Force: s.Force, GracePeriodSeconds: grace,
		IgnoreAllDaemonSets: true,
		DeleteEmptyDirData:  true, // scratch space ends with its pod, as it does at any eviction
		Out:                 io.Discard, ErrOut: io.Discard,
	}
}

// stays keeps the generalize pod from being drained by the capture that it belongs to: the one of that name, in
// Kamino's own namespace and with the account that only generalize pods have.
func (o Own) stays(pod corev1.Pod) drain.PodDeleteStatus {
	if pod.Namespace == o.Namespace && pod.Name == o.Name && pod.Spec.ServiceAccountName == v1alpha1.GeneralizeServiceAccount {
		return drain.MakePodDeleteStatusSkip()
	}
	return drain.MakePodDeleteStatusOkay()
}
