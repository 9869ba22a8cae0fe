package capi

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/apiserver"
)

// Only CAPZ's feature gates show whether CAPZ replaces instances of an old model. No object of CAPZ shows the gates, but
// the manager's Deployment does, at clusterctl's place.
const (
	gateNamespace  = "capz-system"
	gateDeployment = "capz-controller-manager"
	// gateName exists since CAPZ v1.25. Source: CAPZ pull request 6325.
	gateName = "SkipMachinePoolModelReconciliation"
)

// featureGateState is the state of a feature gate.
type featureGateState struct {
	on bool
	// why is the reason of an unknown state, with the remedy; empty if the state is known.
	why, remedy string
}

// readFeatureGate returns the state of CAPZ's feature gate, read once per read cache.
func (r *clusterAccess) readFeatureGate(ctx context.Context) (featureGateState, error) {
	const key = "capi:gate"
	cache := cloud.ReadCacheOf(ctx)
	if known, found := cache.Get(key); found {
		return known.(featureGateState), nil
	}
	found, err := r.account.AppsV1().Deployments(gateNamespace).Get(ctx, gateDeployment, metav1.GetOptions{})
	var seen featureGateState
	switch err := apiserver.Fail("read", "Deployment "+gateNamespace+"/"+gateDeployment, err); {
	case cloud.Is(err, cloud.Denied):
		seen = featureGateState{why: fmt.Sprintf("the account in the management cluster may not read CAPZ's Deployment %s/%s",
			gateNamespace, gateDeployment), remedy: giveRights}
	case cloud.Is(err, cloud.NotFound):
		seen = featureGateState{why: fmt.Sprintf("CAPZ's Deployment %s/%s does not exist", gateNamespace, gateDeployment),
			remedy: "install CAPZ with clusterctl, or set on the MachinePool the annotation " + annotationReplicas}
	case err != nil:
		return featureGateState{}, err
	default:
		seen = gateOf(found, gateName)
	}
	cache.Put(key, seen)
	return seen, nil
}

// gateOf reads a feature gate from a manager's Deployment. All pods must be of the latest revision, because an older pod
// has its own gates. A gate without a value is off, as alpha features are.
func gateOf(d *appsv1.Deployment, name string) featureGateState {
	if s := d.Status; s.ObservedGeneration < d.Generation || s.Replicas == 0 || s.UpdatedReplicas != s.Replicas {
		return featureGateState{why: fmt.Sprintf("Deployment %s/%s is not rolled out: %d of %d pods are of the latest revision",
			d.Namespace, d.Name, s.UpdatedReplicas, s.Replicas), remedy: "wait until the rollout is complete"}
	}
	var seen featureGateState
	for _, c := range d.Spec.Template.Spec.Containers {
		if on, said := featureGate(append(append([]string{}, c.Command...), c.Args...), name); said {
			seen.on = on
		}
	}
	return seen
}

// featureGate reads a feature gate from command arguments; the last value wins. Source:
// k8s.io/component-base/featuregate.
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
