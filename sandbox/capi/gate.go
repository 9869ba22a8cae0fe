package capi

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// KeepGate makes the Deployment that tells by which feature gates the provider for Azure was started, unless it is there: with the one by
// which instances of older models stay. Its pod runs nowhere, because the provider is in no pod here.
func KeepGate(ctx context.Context, c client.Client) error {
	labels := map[string]string{"control-plane": GateDeployment.Name}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: GateDeployment.Namespace}},
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: GateDeployment.Namespace, Name: GateDeployment.Name},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"sandbox.kamino.dev/provider": "none"},
					Containers:   []corev1.Container{{Name: "manager", Image: "capz", Args: []string{"--leader-elect", "--feature-gates=MachinePool=true," + gateSkip + "=true"}}},
				}},
			},
		},
	} {
		if err := c.Create(ctx, o); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return nil
}
