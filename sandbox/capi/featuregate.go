package capi

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GateArguments returns the manager's arguments for the feature gate that keeps instances of older models.
func GateArguments(on bool) []string {
	return []string{"--leader-elect", fmt.Sprintf("--feature-gates=MachinePool=true,%s=%t,EdgeZone=false", gateSkip, on)}
}

// Gate returns the Deployment of the Azure provider with the feature gates in its arguments. The Deployment has no
// pods, because the provider runs no pod here.
func Gate(on bool) *appsv1.Deployment {
	labels := map[string]string{"control-plane": GateDeployment.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: GateDeployment.Namespace, Name: GateDeployment.Name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"sandbox.kamino.dev/provider": "none"},
				Containers:   []corev1.Container{{Name: "manager", Image: "capz", Args: GateArguments(on)}},
			}},
		},
	}
}

// KeepGate creates the Deployment with the gate on, unless the Deployment exists.
func KeepGate(ctx context.Context, c client.Client) error {
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: GateDeployment.Namespace}}, Gate(true)} {
		if err := c.Create(ctx, o); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return nil
}
