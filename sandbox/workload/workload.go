// Package workload is an example workload for a sandbox: a small shop with a disruption budget, and an agent on every
// node. The package applies objects and runs no containers.
package workload

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// Names of the objects.
const (
	Namespace  = "shop"
	Deployment = "storefront"
	DaemonSet  = "log-agent"
	Budget     = "storefront"
)

// Images of the workload's pods: a warm cache saves the pulls.
const (
	WebImage   = "registry.example.com/shop/storefront:2.14.1"
	CacheImage = "registry.example.com/shop/cache:7.4.0"
	AgentImage = "registry.example.com/platform/log-agent:1.9.2"
)

// replicas of the storefront. The budget allows one disruption at a time, so a drain waits and does not fail.
const replicas = 6

// Apply creates namespace, deployment, budget and daemon set. Existing objects stay unchanged.
func Apply(ctx context.Context, client kubernetes.Interface) error {
	steps := []struct {
		what string
		make func() error
	}{
		{"namespace " + Namespace, func() error {
			_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}, metav1.CreateOptions{})
			return err
		}},
		{"deployment " + Deployment, func() error {
			_, err := client.AppsV1().Deployments(Namespace).Create(ctx, storefront(), metav1.CreateOptions{})
			return err
		}},
		{"budget " + Budget, func() error {
			_, err := client.PolicyV1().PodDisruptionBudgets(Namespace).Create(ctx, budget(), metav1.CreateOptions{})
			return err
		}},
		{"daemon set " + DaemonSet, func() error {
			_, err := client.AppsV1().DaemonSets(Namespace).Create(ctx, agent(), metav1.CreateOptions{})
			return err
		}},
	}
	for _, step := range steps {
		if err := step.make(); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("workload: %s: %w", step.what, err)
		}
	}
	return nil
}

// Await returns when every replica and every agent is ready.
func Await(ctx context.Context, client kubernetes.Interface) error {
	state := "the workload was not seen yet"
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		web, err := client.AppsV1().Deployments(Namespace).Get(ctx, Deployment, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		agents, err := client.AppsV1().DaemonSets(Namespace).Get(ctx, DaemonSet, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		wanted := agents.Status.DesiredNumberScheduled
		state = fmt.Sprintf("%d of %d replicas and %d of %d agents are ready", web.Status.ReadyReplicas, replicas, agents.Status.NumberReady, wanted)
		seen := web.Status.ObservedGeneration >= web.Generation && agents.Status.ObservedGeneration >= agents.Generation
		return seen && web.Status.ReadyReplicas == replicas && agents.Status.NumberReady == wanted, nil
	})
	if err != nil {
		return fmt.Errorf("workload: %s: %w", state, err)
	}
	return nil
}

func labels(app string) map[string]string { return map[string]string{"app": app} }

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: Namespace, Labels: labels(name)}
}

func container(name, image string) corev1.Container {
	return corev1.Container{Name: name, Image: image, Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("50m"), "memory": resource.MustParse("64Mi")},
	}}
}

func storefront() *appsv1.Deployment {
	count, grace := int32(replicas), int64(10)
	return &appsv1.Deployment{ObjectMeta: meta(Deployment), Spec: appsv1.DeploymentSpec{
		Replicas: &count,
		Selector: &metav1.LabelSelector{MatchLabels: labels(Deployment)},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels(Deployment)}, Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{container("web", WebImage), container("cache", CacheImage)},
			TerminationGracePeriodSeconds: &grace,
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
				LabelSelector: &metav1.LabelSelector{MatchLabels: labels(Deployment)},
			}},
		}},
	}}
}

func budget() *policyv1.PodDisruptionBudget {
	spare := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{ObjectMeta: meta(Budget), Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: &spare,
		Selector:       &metav1.LabelSelector{MatchLabels: labels(Deployment)},
	}}
}

func agent() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: meta(DaemonSet), Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels(DaemonSet)},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels(DaemonSet)}, Spec: corev1.PodSpec{
			Containers:   []corev1.Container{container("agent", AgentImage)},
			NodeSelector: map[string]string{corev1.LabelOSStable: "linux"},
			Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		}},
	}}
}
