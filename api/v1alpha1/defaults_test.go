package v1alpha1_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// TestDefaultsAgree holds the API server's defaults against those that a caller without one fills in.
func TestDefaultsAgree(t *testing.T) {
	c := apitest.Client(t)
	if err := c.Create(t.Context(), prototype("defaults")); err != nil {
		t.Fatal(err)
	}
	stored := get(t, c, "defaults")
	if diff := cmp.Diff(v1alpha1.Settings{}.Defaulted(), stored.Spec.Settings); diff != "" {
		t.Errorf("the API server fills in other values than Defaulted (-Defaulted +API server):\n%s", diff)
	}
	share := intstr.FromString("10%")
	want := v1alpha1.Settings{
		Drain:      v1alpha1.DrainSettings{Timeout: metav1.Duration{Duration: 15 * time.Minute}},
		Generalize: v1alpha1.GeneralizeSettings{UnknownFiles: v1alpha1.UnknownFilesReportDifferent},
		OutOfService: v1alpha1.OutOfServiceSettings{Deadline: metav1.Duration{Duration: 30 * time.Minute},
			ReadyTimeout: metav1.Duration{Duration: 15 * time.Minute}, MaxUnavailable: &share},
		Trial: v1alpha1.TrialSettings{Soak: &metav1.Duration{Duration: 10 * time.Minute}, Reboot: new(true),
			Timeout: metav1.Duration{Duration: 2 * time.Hour}},
		Promotion: v1alpha1.PromotionSettings{Mode: v1alpha1.PromotionAutomatic, Timeout: metav1.Duration{Duration: 168 * time.Hour}},
		Keep:      3,
	}
	if diff := cmp.Diff(want, stored.Spec.Settings); diff != "" {
		t.Errorf("not the documented defaults (-want +got):\n%s", diff)
	}
}

// TestDefaultsFillGaps sets one value of each group: its neighbours are still filled in, and it stays.
func TestDefaultsFillGaps(t *testing.T) {
	c := apitest.Client(t)
	u := with(t, prototype("gaps"), "settings.drain.force", true)
	with(t, u, "settings.generalize.image", "registry.example/kamino:v1")
	with(t, u, "settings.outOfService.deadline", "10m")
	if err := c.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.Settings{
		Drain:        v1alpha1.DrainSettings{Force: true},
		Generalize:   v1alpha1.GeneralizeSettings{Image: "registry.example/kamino:v1"},
		OutOfService: v1alpha1.OutOfServiceSettings{Deadline: metav1.Duration{Duration: 10 * time.Minute}},
	}.Defaulted()
	if diff := cmp.Diff(want, get(t, c, "gaps").Spec.Settings); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

// TestDefaultedKeepsSetFields also says that filling in twice changes nothing.
func TestDefaultedKeepsSetFields(t *testing.T) {
	two := intstr.FromInt32(2)
	set := v1alpha1.Settings{
		Donor: v1alpha1.DonorSettings{Method: v1alpha1.MethodInPlace},
		Drain: v1alpha1.DrainSettings{
			GracePeriod: &metav1.Duration{Duration: time.Second}, Timeout: metav1.Duration{Duration: time.Minute}, Force: true,
		},
		Generalize: v1alpha1.GeneralizeSettings{Profile: v1alpha1.ProfileBootstrap, UnknownFiles: v1alpha1.UnknownFilesAllow, Image: "i"},
		OutOfService: v1alpha1.OutOfServiceSettings{Deadline: metav1.Duration{Duration: time.Minute},
			ReadyTimeout: metav1.Duration{Duration: time.Hour}, MaxUnavailable: &two},
		Trial: v1alpha1.TrialSettings{
			Mode: v1alpha1.TrialApart, Soak: &metav1.Duration{}, Reboot: new(false), Timeout: metav1.Duration{Duration: time.Hour},
			IgnoreDaemonSets: []string{"kube-system/agent"}, IgnoreDifferences: []string{"clock"},
			KeepFailed: metav1.Duration{Duration: time.Hour}, Job: "check",
			Expect: []v1alpha1.TrialExpectation{{Name: "Devices", Expression: "true"}},
		},
		Promotion: v1alpha1.PromotionSettings{Mode: v1alpha1.PromotionManual, Timeout: metav1.Duration{Duration: time.Hour}},
		Recipe:    v1alpha1.RecipeSettings{CustomDataFrom: &v1alpha1.SecretKey{Name: "data"}},
		Keep:      7,
	}
	if diff := cmp.Diff(set, set.Defaulted()); diff != "" {
		t.Errorf("Defaulted changed what was set (-set +got):\n%s", diff)
	}
	once := v1alpha1.Settings{}.Defaulted()
	if diff := cmp.Diff(once, once.Defaulted()); diff != "" {
		t.Errorf("Defaulted is not idempotent (-once +twice):\n%s", diff)
	}
}

// TestGoClientMayLeaveSettingsOut: a zero Go struct must reach the API server as absent, not as a refused duration of zero.
func TestGoClientMayLeaveSettingsOut(t *testing.T) {
	c := apitest.Client(t)
	p := &v1alpha1.Prototype{
		ObjectMeta: metav1.ObjectMeta{Name: "typed"},
		Spec: v1alpha1.PrototypeSpec{
			Pool:    "workers",
			Version: "2026.11.21",
			Donor:   v1alpha1.Donor{NodeName: "workers000003", ProviderID: "azure:///x"},
		},
	}
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v1alpha1.Settings{}.Defaulted(), p.Spec.Settings); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

// TestGoClientPatchesMetadata: a Go struct changes "300s" into "5m0s", and drops an explicit false. A patch leaves both
// alone; an update would be refused as a change of the spec.
func TestGoClientPatchesMetadata(t *testing.T) {
	c := apitest.Client(t)
	u := with(t, prototype("patched"), "settings.drain.gracePeriod", "300s")
	with(t, u, "settings.drain.force", false)
	if err := c.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	before := get(t, c, "patched")
	after := before.DeepCopy()
	after.Annotations = map[string]string{v1alpha1.BegunAnnotation: "uid"}
	after.Finalizers = []string{v1alpha1.CaptureFinalizer}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(t.Context(), after, patch); err != nil {
		t.Errorf("a patch that leaves the spec alone was refused: %v", err)
	}
	after.Status.Phase = v1alpha1.PhasePending
	if err := c.Status().Update(t.Context(), after); err != nil {
		t.Errorf("a status update was refused: %v", err)
	}
	after.Finalizers = nil
	if err := c.Patch(t.Context(), after, client.MergeFrom(get(t, c, "patched"))); err != nil {
		t.Fatal(err)
	}
}

func TestUnknownFieldsArePruned(t *testing.T) {
	c := apitest.Client(t)
	u := with(t, prototype("pruned"), "settings.drain.patience", "endless")
	with(t, u, "colour", "blue")
	if err := c.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	for _, path := range [][]string{{"spec", "settings", "drain", "patience"}, {"spec", "colour"}} {
		if value, found, _ := unstructured.NestedFieldNoCopy(u.Object, path...); found {
			t.Errorf("%v was stored as %v", path, value)
		}
	}
	strict := client.WithFieldValidation(c, "Strict")
	err := strict.Create(t.Context(), with(t, prototype("strict"), "colour", "blue"))
	if err == nil {
		t.Error("strict validation, which is kubectl's default, took an unknown field")
	}
}

// TestStatusIsApart: different accounts write spec and status.
func TestStatusIsApart(t *testing.T) {
	c := apitest.Client(t)
	u := prototype("apart")
	u.Object["status"] = map[string]any{"phase": "Succeeded"}
	if err := c.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	if phase := get(t, c, "apart").Status.Phase; phase != "" {
		t.Errorf("a created Prototype has phase %q; its creator must not be able to report on it", phase)
	}
}

// TestPrinterColumns reads the table that `kubectl get prototypes` prints.
func TestPrinterColumns(t *testing.T) {
	c := apitest.Client(t)
	u := prototype("columns")
	if err := c.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	u.Object["status"] = map[string]any{
		"phase": "Publishing", "progress": "replicating 40%",
		"image": map[string]any{"id": "/galleries/g/versions/2026.11.21"},
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "Unknown", "reason": "Publishing", "message": "the image is being made",
			"lastTransitionTime": "2026-11-21T00:00:00Z",
		}},
	}
	if err := c.Status().Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}

	table := tableOf(t.Context(), t, "prototypes", "columns")
	got := map[string]any{}
	var usual []string
	for i, column := range table.ColumnDefinitions {
		got[column.Name] = table.Rows[0].Cells[i]
		if column.Priority == 0 {
			usual = append(usual, column.Name)
		}
	}
	age, _ := got["Age"].(string)
	if age == "" || age == "<unknown>" {
		t.Errorf("Age is %q", age)
	}
	delete(got, "Age")
	want := map[string]any{
		"Name": "columns", "Pool": "workers", "Version": "2026.11.21", "Donor": "workers000003", "Phase": "Publishing",
		"Progress": "replicating 40%", "Ready": "Unknown", "Reason": "Publishing", "In Use": nil, "Message": "the image is being made",
		"Image": "/galleries/g/versions/2026.11.21",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Name", "Pool", "Version", "Donor", "Phase", "Progress", "Ready", "Reason", "In Use", "Age"}, usual); diff != "" {
		t.Errorf("columns without -o wide (-want +got):\n%s", diff)
	}
}

func tableOf(ctx context.Context, t *testing.T, resource, name string) metav1.Table {
	t.Helper()
	config := rest.CopyConfig(apitest.Server(t))
	config.GroupVersion = &v1alpha1.GroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
	api, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := api.Get().Resource(resource).Name(name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	return table
}

func get(t *testing.T, c client.Client, name string) *v1alpha1.Prototype {
	t.Helper()
	p := &v1alpha1.Prototype{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, p); err != nil {
		t.Fatal(err)
	}
	return p
}
