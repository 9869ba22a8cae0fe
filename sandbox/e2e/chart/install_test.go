package chart

import (
	stdcmp "cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/sandbox/chart"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestInstallVariants installs and uninstalls the chart with each values file of its own tests. The namespace has
// the highest allowed Pod Security level.
func TestInstallVariants(t *testing.T) {
	skipOtherClouds(t)
	operatorKinds(t)
	paths, err := filepath.Glob("../../chart/testdata/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no values: %v", err)
	}
	firstInstall(t, paths[0])
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		t.Run(name, func(t *testing.T) {
			values := valuesOf(t, path)
			level := "restricted"
			if kind, _, _ := unstructured.NestedString(values, "azure", "credentials", "type"); kind == "hostFile" {
				level = "privileged"
			}
			helm := newHelm(t, "variant-"+name, level)
			if err := helm.install(t.Context(), name, values, false); err != nil {
				t.Fatal(err)
			}
			applyStrictly(t, helm, name, values)
			waitAdmitted(t, helm.Namespace)
			if err := helm.uninstall(name); err != nil {
				t.Fatal(err)
			}
			wantGone(t, name, helm, values)
		})
	}
}

// firstInstall installs the definitions. The release has no policies: an API server serves a kind some time
// after its definition, and Helm does not wait (docs/tasks/install.md).
func firstInstall(t *testing.T, path string) {
	t.Helper()
	values := valuesOf(t, path)
	unstructured.RemoveNestedField(values, "policies")
	helm := newHelm(t, "variant-first", "privileged")
	if err := helm.install(t.Context(), "first", values, false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "PrototypePolicy is served", func() bool {
		list, err := sandbox.Kube().Discovery().ServerResourcesForGroupVersion("kamino.dev/v1alpha1")
		return err == nil && strings.Contains(fmt.Sprint(list.APIResources), "PrototypePolicy")
	})
	if err := helm.uninstall("first"); err != nil {
		t.Fatal(err)
	}
}

// valuesOf reads a values file. The tests only need valid objects, not a working controller.
func valuesOf(t *testing.T, path string) chart.Values {
	t.Helper()
	values := readValues(t, path)
	if err := unstructured.SetNestedField(values, simulated, "image", "repository"); err != nil {
		t.Fatal(err)
	}
	return values
}

func readValues(t *testing.T, path string) chart.Values {
	t.Helper()
	values := chart.Values{}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// operatorKinds creates definitions for the kinds of the Prometheus operator, without schemas.
func operatorKinds(t *testing.T) {
	t.Helper()
	yes := true
	for plural, kind := range map[string]string{"servicemonitors": "ServiceMonitor", "prometheusrules": "PrometheusRule"} {
		d := &apiextensionsv1.CustomResourceDefinition{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
			ObjectMeta: metav1.ObjectMeta{Name: plural + ".monitoring.coreos.com"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "monitoring.coreos.com", Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: &yes,
					}},
				}},
			},
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
		if err != nil {
			t.Fatal(err)
		}
		delete(fields, "status")
		if _, err := objects(t).Resource(definitions).Create(t.Context(), &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, kind+" is served", func() bool {
			list, err := sandbox.Kube().Discovery().ServerResourcesForGroupVersion("monitoring.coreos.com/v1")
			return err == nil && strings.Contains(fmt.Sprint(list.APIResources), kind)
		})
	}
}

// applyStrictly sends every object to the API server with strict validation, so that an unknown field is an error
// instead of dropped.
func applyStrictly(t *testing.T, helm helmClient, name string, values chart.Values) {
	t.Helper()
	rendered, err := chart.Render(t.Context(), name, helm.Namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(sandbox.Kube().Discovery()))
	for _, object := range rendered.Objects {
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Errorf("%s %s: %v", kind.Kind, object.GetName(), err)
			continue
		}
		text, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		force := true
		options := metav1.PatchOptions{
			FieldManager: "test", Force: &force, DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
		}
		resource := objects(t).Resource(mapping.Resource)
		of := dynamic.ResourceInterface(resource)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			of = resource.Namespace(object.GetNamespace())
		}
		applied, err := of.Patch(t.Context(), object.GetName(), "application/apply-patch+yaml", text, options)
		if err != nil {
			t.Errorf("%s %s: %v", kind.Kind, object.GetName(), err)
			continue
		}
		wantNoDrift(t, of, applied)
	}
}

// wantNoDrift compares an object of the cluster with the result of another application, as Flux does.
func wantNoDrift(t *testing.T, of dynamic.ResourceInterface, applied *unstructured.Unstructured) {
	t.Helper()
	live, err := of.Get(t.Context(), applied.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range []*unstructured.Unstructured{live, applied} {
		object.SetManagedFields(nil)
		object.SetResourceVersion("")
		object.SetGeneration(0)
		unstructured.RemoveNestedField(object.Object, "status")
	}
	if diff := cmp.Diff(live.Object, applied.Object); diff != "" {
		t.Errorf("%s %s drifts (-cluster +chart):\n%s", live.GetKind(), live.GetName(), diff)
	}
}

// waitAdmitted waits for the pods of a Deployment, which Pod Security must admit. A Job or CronJob has no pods
// here, so warnings of the namespace are checked.
func waitAdmitted(t *testing.T, namespace string) {
	t.Helper()
	deployments, err := sandbox.Kube().AppsV1().Deployments(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deployments.Items {
		eventually(t, "Deployment "+d.Name+" has its pods", func() bool {
			now, err := sandbox.Kube().AppsV1().Deployments(namespace).Get(t.Context(), d.Name, metav1.GetOptions{})
			if err != nil {
				return false
			}
			for _, c := range now.Status.Conditions {
				if c.Type == "ReplicaFailure" {
					t.Fatalf("%s: %s", d.Name, c.Message)
				}
			}
			return now.Status.Replicas == *d.Spec.Replicas
		})
	}
	jobs, err := sandbox.Kube().BatchV1().Jobs(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs.Items {
		eventually(t, "Job "+j.Name+" has its pod", func() bool {
			now, err := sandbox.Kube().BatchV1().Jobs(namespace).Get(t.Context(), j.Name, metav1.GetOptions{})
			return err == nil && now.Status.Active+now.Status.Succeeded == 1
		})
	}
}

// wantGone requires that only the definitions are left of a release, because their deletion would delete all
// objects.
func wantGone(t *testing.T, name string, helm helmClient, values chart.Values) {
	t.Helper()
	rendered, err := chart.Render(t.Context(), name, helm.Namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(sandbox.Kube().Discovery()))
	for _, object := range rendered.Objects {
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, fmt.Sprintf("%s %s is gone", kind.Kind, object.GetName()), func() bool {
			if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
				_, err = objects(t).Resource(mapping.Resource).Namespace(object.GetNamespace()).Get(t.Context(), object.GetName(), metav1.GetOptions{})
			} else {
				_, err = objects(t).Resource(mapping.Resource).Get(t.Context(), object.GetName(), metav1.GetOptions{})
			}
			return missing(err)
		})
	}
	if _, err := objects(t).Resource(definitions).Get(t.Context(), "prototypes.kamino.dev", metav1.GetOptions{}); err != nil {
		t.Errorf("the definition went with the release: %v", err)
	}
}

// TestAdmissionPolicyRefusals: a policy that only the validation rules refuse creates nothing.
func TestAdmissionPolicyRefusals(t *testing.T) {
	skipOtherClouds(t)
	helm := newHelm(t, "refused", "restricted")
	values := chart.Values{
		"image":    chart.Values{"repository": simulated},
		"policies": chart.Values{"bad": chart.Values{"patched": chart.Values{"preset": "kured", "rebootPending": "example.test/x"}}},
	}
	err := helm.install(t.Context(), "refused", values, false)
	if err == nil || !strings.Contains(err.Error(), "set either preset, or both") {
		t.Fatalf("error %v, want the rule's own sentence", err)
	}
	if err := helm.uninstall("refused"); err != nil {
		t.Fatal(err)
	}
}

// helmClient installs the chart into a cluster, as the command `helm` does.
type helmClient struct {
	// Kubeconfig is the path of the cluster's.
	Kubeconfig string
	// Namespace of the releases. The namespace must exist.
	Namespace string
	// Timeout of each action; five minutes if zero.
	Timeout time.Duration
	// Chart is the directory of another chart than that of this checkout.
	Chart string
}

// install installs a release. With wait, install also waits for the pods.
func (h helmClient) install(ctx context.Context, name string, values chart.Values, wait bool) error {
	config, err := h.configuration()
	if err != nil {
		return err
	}
	loaded, err := h.loadForAnyVersion()
	if err != nil {
		return err
	}
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace, install.Timeout, install.WaitStrategy = name, h.Namespace, h.timeout(), strategy(wait)
	if _, err := install.RunWithContext(ctx, loaded, values); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	return nil
}

// upgrade changes the values of a release; omitted values get the chart's defaults.
func (h helmClient) upgrade(ctx context.Context, name string, values chart.Values, wait bool) error {
	config, err := h.configuration()
	if err != nil {
		return err
	}
	loaded, err := h.loadForAnyVersion()
	if err != nil {
		return err
	}
	upgrade := action.NewUpgrade(config)
	upgrade.Namespace, upgrade.Timeout, upgrade.WaitStrategy, upgrade.ResetValues = h.Namespace, h.timeout(), strategy(wait), true
	if _, err := upgrade.RunWithContext(ctx, name, loaded, values); err != nil {
		return fmt.Errorf("upgrade %s: %w", name, err)
	}
	return nil
}

// rollback brings a release back to an earlier revision.
func (h helmClient) rollback(name string, revision int) error {
	config, err := h.configuration()
	if err != nil {
		return err
	}
	rollback := action.NewRollback(config)
	rollback.Version, rollback.Timeout, rollback.WaitStrategy, rollback.ServerSideApply = revision, h.timeout(), strategy(true), "auto"
	if err := rollback.Run(name); err != nil {
		return fmt.Errorf("roll back %s: %w", name, err)
	}
	return nil
}

// uninstall removes a release, and does not wait for the removal.
func (h helmClient) uninstall(name string) error {
	config, err := h.configuration()
	if err != nil {
		return err
	}
	uninstall := action.NewUninstall(config)
	uninstall.Timeout, uninstall.WaitStrategy = h.timeout(), kube.HookOnlyStrategy
	if _, err := uninstall.Run(name); err != nil {
		return fmt.Errorf("uninstall %s: %w", name, err)
	}
	return nil
}

// loadForAnyVersion reads the chart without the required version of the API server: an API server inside a test does
// not know its version.
func (h helmClient) loadForAnyVersion() (*chartv2.Chart, error) {
	loaded, err := loader.LoadDir(stdcmp.Or(h.Chart, chart.Dir()))
	if err == nil {
		loaded.Metadata.KubeVersion = ""
	}
	return loaded, err
}

func (h helmClient) timeout() time.Duration {
	if h.Timeout == 0 {
		return 5 * time.Minute
	}
	return h.Timeout
}

func strategy(wait bool) kube.WaitStrategy {
	if wait {
		return kube.StatusWatcherStrategy
	}
	return kube.HookOnlyStrategy
}

func (h helmClient) configuration() (*action.Configuration, error) {
	config := action.NewConfiguration()
	config.SetLogger(slog.NewTextHandler(io.Discard, nil))
	getter := genericclioptions.NewConfigFlags(true)
	getter.KubeConfig, getter.Namespace = &h.Kubeconfig, &h.Namespace
	if err := config.Init(getter, h.Namespace, "secret"); err != nil {
		return nil, err
	}
	return config, nil
}

// eventually waits until done returns true. A test that gives up shows the workloads and events.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	reached := false
	defer func() {
		if !reached {
			t.Log(sandbox.Run(t, nil, "kubectl", "get", "all,events,prototypes,prototypepolicies", "--all-namespaces"))
		}
	}()
	sandboxtest.Eventually(t, what, func() (bool, string) {
		reached = done()
		return reached, "the workloads and events are below"
	})
}
