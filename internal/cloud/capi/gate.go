package capi

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Whether CAPZ leaves instances alone that are not of its pool's latest model is told by nothing but how it was started: no object of
// its own says so. Its manager's Deployment does, where clusterctl puts it.
const (
	gateNamespace  = "capz-system"
	gateDeployment = "capz-controller-manager"
	// gateSkips is there since CAPZ v1.25. Source: its pull request 6325.
	gateSkips = "SkipMachinePoolModelReconciliation"
)

// gate is what is known of a feature gate.
type gate struct {
	on bool
	// why it cannot be told, and what to do about that; empty if it can.
	why, remedy string
}

// gate of CAPZ's, once within a look.
func (r *world) gate(ctx context.Context) (gate, error) {
	const key = "capi:gate"
	sight := cloud.ReadCacheOf(ctx)
	if known, found := sight.Get(key); found {
		return known.(gate), nil
	}
	found, err := r.account.AppsV1().Deployments(gateNamespace).Get(ctx, gateDeployment, metav1.GetOptions{})
	var seen gate
	switch err := fail("look at", "Deployment "+gateNamespace+"/"+gateDeployment, err); {
	case cloud.Is(err, cloud.Denied):
		seen = gate{why: fmt.Sprintf("the account in the management cluster may not look at Deployment %s/%s, by which CAPZ is started", gateNamespace, gateDeployment), remedy: giveRights}
	case cloud.Is(err, cloud.NotFound):
		seen = gate{why: fmt.Sprintf("there is no Deployment %s/%s, by which CAPZ is started", gateNamespace, gateDeployment),
			remedy: "run CAPZ where clusterctl puts it, or have the pool's replicas managed elsewhere, by " + annotationReplicas}
	case err != nil:
		return gate{}, err
	default:
		seen = gateOf(found, gateSkips)
	}
	sight.Put(key, seen)
	return seen, nil
}

// gateOf reads a feature gate off the Deployment of a manager, all of whose pods must be of it: one that was started before would act by
// its own gates. What is not said is off, as features are that are tried out.
func gateOf(d *appsv1.Deployment, name string) gate {
	if s := d.Status; s.ObservedGeneration < d.Generation || s.Replicas == 0 || s.UpdatedReplicas != s.Replicas {
		return gate{why: fmt.Sprintf("Deployment %s/%s is not rolled out: %d of its %d pods are of its latest revision", d.Namespace, d.Name, s.UpdatedReplicas, s.Replicas), remedy: "wait until it is"}
	}
	var seen gate
	for _, c := range d.Spec.Template.Spec.Containers {
		if on, said := featureGate(append(append([]string{}, c.Command...), c.Args...), name); said {
			seen.on = on
		}
	}
	return seen
}

// featureGate reads a feature gate off a command's arguments; the last one wins. Source: k8s.io/component-base/featuregate.
func featureGate(args []string, name string) (on, said bool) {
	const flag = "--feature-gates"
	for i, arg := range args {
		value, is := strings.CutPrefix(arg, flag+"=")
		if arg == flag && i+1 < len(args) {
			value, is = args[i+1], true
		}
		for pair := range strings.SplitSeq(value, ",") {
			key, text, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if is && strings.TrimSpace(key) == name {
				yes, err := strconv.ParseBool(strings.TrimSpace(text))
				on, said = yes && err == nil, true
			}
		}
	}
	return on, said
}
