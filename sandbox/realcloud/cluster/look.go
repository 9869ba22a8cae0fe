package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// before is the state of the cluster before the capture.
type before struct {
	Cloud, Pool, Donor, Version, Recipe string
	// Nodes are all nodes by name, Pods the restarts of the donor's running pods by UID.
	Nodes map[string]identity
	Pods  map[string]int32
}

// identity of a node: what a reboot or a replacement changes.
type identity struct{ UID, Boot string }

func (r *run) nodes(ctx context.Context) (map[string]identity, error) {
	list, err := r.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := map[string]identity{}
	for _, n := range list.Items {
		all[n.Name] = identity{string(n.UID), n.Status.NodeInfo.BootID}
	}
	return all, nil
}

// pods are the restarts of a node's running pods by UID, without those of Kamino.
func (r *run) pods(ctx context.Context, node string) (map[string]int32, error) {
	list, err := r.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return nil, err
	}
	all := map[string]int32{}
	for _, p := range list.Items {
		if p.Namespace == v1alpha1.DefaultGeneralizeNamespace || p.Status.Phase != corev1.PodRunning {
			continue
		}
		all[string(p.UID)] = 0
		for _, c := range p.Status.ContainerStatuses {
			all[string(p.UID)] += c.RestartCount
		}
	}
	return all, nil
}

// prototype is the capture of the version; nil without one.
func (r *run) prototype(ctx context.Context) (*v1alpha1.Prototype, error) {
	text, err := r.kube.RESTClient().Get().AbsPath("/apis/" + v1alpha1.GroupVersion.String() + "/prototypes").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.PrototypeList{}
	if err := json.Unmarshal(text, list); err != nil {
		return nil, err
	}
	for i, p := range list.Items {
		if p.Spec.Version == r.before.Version && p.Spec.Donor.NodeName == r.before.Donor {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// watch notes what happens to the donor until the end of the context, and calls stop when the version waits for a promotion.
func (r *run) watch(ctx context.Context, stop func()) []string {
	seen := map[string]bool{}
	for ctx.Err() == nil {
		for _, what := range r.disturbed(ctx) {
			seen[what] = true
		}
		if p, err := r.prototype(ctx); err == nil && p != nil && p.Status.Phase == v1alpha1.PhaseAwaitingPromotion {
			stop()
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// disturbed is what a capture by copy never does to its donor. A failed look is none.
func (r *run) disturbed(ctx context.Context) (all []string) {
	n, err := r.kube.CoreV1().Nodes().Get(ctx, r.before.Donor, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return []string{"the node was gone"}
	}
	if err != nil {
		return nil
	}
	if n.Spec.Unschedulable {
		all = append(all, "cordoned")
	}
	if was := r.before.Nodes[n.Name]; was != (identity{string(n.UID), n.Status.NodeInfo.BootID}) {
		all = append(all, "rebooted or replaced")
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			all = append(all, "not Ready")
		}
	}
	return all
}

// check makes a result.
func check(name, sentence, expected, seen string) realcloud.Check {
	c := realcloud.Check{Name: name, Sentence: sentence, Expected: expected, Seen: seen, Outcome: realcloud.Differs}
	if seen == expected {
		c.Outcome = realcloud.AsAssumed
	}
	return c
}

// judgeCapture compares what the capture did with what the docs promise.
func (r *run) judgeCapture(p *v1alpha1.Prototype, seen []string, failure error) []realcloud.Check {
	captured, tried := "no capture", "no trial"
	switch {
	case p == nil:
	case p.Status.Phase == v1alpha1.PhaseAwaitingPromotion:
		captured = "a version by " + string(p.Spec.Settings.Donor.Method)
	case p.Status.Failure != nil:
		captured = "failed: " + p.Status.Failure.Reason
	default:
		captured = "ended in phase " + string(p.Status.Phase)
	}
	if p == nil && failure != nil {
		captured = "kamino failed"
	}
	if p != nil && p.Status.Trial != nil {
		tried = string(p.Status.Trial.Result)
		for _, c := range p.Status.Trial.Checks {
			if c.Result == v1alpha1.TrialFailed {
				tried += " at " + c.Name
			}
		}
	}
	served := "the same boot, Ready and not cordoned at every look"
	if len(seen) > 0 {
		served = strings.Join(seen, ", ")
	}
	return []realcloud.Check{
		check("cluster-captured", "a capture by copy makes a version", "a version by Copy", captured),
		check("cluster-trial", "a trial node of the version joins and passes", string(v1alpha1.TrialPassed), tried),
		check("cluster-donor", "the donor serves during the whole capture", "the same boot, Ready and not cordoned at every look", served),
	}
}

// judgeAfter compares the cluster after the removal with the cluster before the capture.
func (r *run) judgeAfter(ctx context.Context) ([]realcloud.Check, error) {
	pods, err := r.pods(ctx, r.before.Donor)
	if err != nil {
		return nil, err
	}
	evicted := 0
	for uid, restarts := range r.before.Pods {
		if now, there := pods[uid]; !there || now != restarts {
			evicted++
		}
	}
	kept := "none of them evicted or restarted"
	if evicted > 0 {
		kept = fmt.Sprintf("%d of %d evicted or restarted", evicted, len(r.before.Pods))
	} else if len(r.before.Pods) == 0 {
		kept = "the donor had no pods, so that the check shows nothing"
	}
	p, err := r.plan(ctx)
	if err != nil {
		return nil, err
	}
	recipe := map[bool]string{true: "the image of before", false: "another image"}[p.Pools[0].Change.From == r.before.Recipe]
	var nodes, left string
	for deadline := time.Now().Add(15 * time.Minute); ; { // a cloud deletes its last machine and version late
		now, err := r.nodes(ctx)
		if err != nil {
			return nil, err
		}
		if nodes = differences(r.before.Nodes, now); nodes == "the nodes of before" {
			if left, err = r.leftovers(ctx); err != nil {
				return nil, err
			}
		}
		if left == "nothing" || time.Now().After(deadline) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(5 * time.Second):
		}
	}
	return []realcloud.Check{
		check("cluster-pods", "the pods of the donor stay", "none of them evicted or restarted", kept),
		check("cluster-recipe", "without a promotion the recipe stays", "the image of before", recipe),
		check("cluster-nodes", "the nodes of workshop and trial go, and all others stay", "the nodes of before", nodes),
		check("cluster-left", "nothing of the capture is left", "nothing", cmp.Or(left, "unknown, because the nodes differ")),
	}, nil
}

// differences compares nodes by name, without naming them.
func differences(was, now map[string]identity) string {
	gone, changed, more := 0, 0, 0
	for name, id := range was {
		switch again, there := now[name]; {
		case !there:
			gone++
		case again != id:
			changed++
		}
	}
	for name := range now {
		if _, there := was[name]; !there {
			more++
		}
	}
	if gone+changed+more == 0 {
		return "the nodes of before"
	}
	return fmt.Sprintf("%d gone, %d rebooted or replaced, %d new", gone, changed, more)
}

// leftovers is what Kamino leaves of no capture: objects of the cluster, marks of the donor, and the version.
func (r *run) leftovers(ctx context.Context) (string, error) {
	var left []string
	if p, err := r.prototype(ctx); err != nil {
		return "", err
	} else if p != nil {
		left = append(left, "the Prototype")
	}
	pods, err := r.kube.CoreV1().Pods(v1alpha1.DefaultGeneralizeNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	if len(pods.Items) > 0 {
		left = append(left, fmt.Sprintf("%d pods", len(pods.Items)))
	}
	n, err := r.kube.CoreV1().Nodes().Get(ctx, r.before.Donor, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if n.Annotations[v1alpha1.ReservationAnnotation] != "" || n.Annotations[v1alpha1.TrialKey] != "" {
		left = append(left, "a mark on the donor")
	}
	history, err := r.command(ctx, "", "history", r.before.Pool, "-o", "json")
	if err != nil {
		return "", err
	}
	if strings.Contains(history, `"`+r.before.Version+`"`) {
		left = append(left, "the version")
	}
	if len(left) == 0 {
		return "nothing", nil
	}
	return strings.Join(left, ", "), nil
}
