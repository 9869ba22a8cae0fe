package chart

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/internal/cli"
	"github.com/kamino-dev/kamino/internal/cloud/karpenter"
	"github.com/kamino-dev/kamino/internal/manifest"
	"github.com/kamino-dev/kamino/internal/trial/probe"
)

const (
	release   = "kamino"
	namespace = "kamino-system"
)

// variant is one way to use the chart: a file of testdata.
type variant struct {
	name   string
	values Values
}

// variants returns all files of testdata. This package renders each file, and sandbox/e2e/chart installs each file.
func variants(t *testing.T) []variant {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no values: %v", err)
	}
	var all []variant
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		v := variant{name: strings.TrimSuffix(filepath.Base(path), ".yaml"), values: Values{}}
		if err := yaml.Unmarshal(text, &v.values); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func render(t *testing.T, values Values) *Rendered {
	t.Helper()
	r, err := Render(t.Context(), release, namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// as decodes an object strictly: an unknown field is an error.
func as[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	if object == nil {
		t.Fatal("there is no such object")
	}
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return typed
}

// podOf returns the pod template of the variant.
func podOf(t *testing.T, r *Rendered) corev1.PodSpec {
	t.Helper()
	for _, object := range r.Objects {
		switch object.GetKind() {
		case "Deployment":
			return as[appsv1.Deployment](t, object).Spec.Template.Spec
		case "CronJob":
			return as[batchv1.CronJob](t, object).Spec.JobTemplate.Spec.Template.Spec
		case "Job":
			return as[batchv1.Job](t, object).Spec.Template.Spec
		}
	}
	t.Fatal("nothing runs")
	return corev1.PodSpec{}
}

func TestLint(t *testing.T) {
	for _, v := range append(variants(t), variant{name: "defaults"}) {
		t.Run(v.name, func(t *testing.T) {
			for _, message := range lint.RunAll(Dir(), v.values, namespace).Messages {
				if message.Severity > support.InfoSev {
					t.Error(message)
				}
			}
		})
	}
}

// TestPods: every pod of every variant meets the restricted Pod Security level, as far as possible.
func TestPods(t *testing.T) {
	for _, v := range append(variants(t), variant{name: "defaults"}) {
		t.Run(v.name, func(t *testing.T) {
			r := render(t, v.values)
			pod := podOf(t, r)
			hostFile, _, _ := unstructured.NestedString(v.values, "azure", "credentials", "type")
			if got := *pod.SecurityContext.RunAsNonRoot; got != (hostFile != "hostFile") {
				t.Errorf("runAsNonRoot is %t", got)
			}
			checkContainer(t, pod)
		})
	}
}

func checkContainer(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	c := pod.Containers[0]
	security := c.SecurityContext
	switch {
	case pod.HostNetwork || pod.HostPID:
		t.Error("it shares the host's namespaces")
	case pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
		t.Error("no seccomp profile")
	case *security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem || !slices.Contains(security.Capabilities.Drop, "ALL"):
		t.Errorf("security context = %+v", security)
	case c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero():
		t.Error("no memory is asked for, or it has no limit")
	}
}

// TestModes renders each mode with more flags for the controller and for the one-shot modes. The command of each mode knows all flags that
// the mode renders.
func TestModes(t *testing.T) {
	extra := Values{"extraArgs": []any{"--pprof-bind-address=0"}, "oneShot": Values{"extraArgs": []any{"--log-format=text"}}}
	for name, test := range map[string]struct {
		values Values
		args   []string
		kind   string
		never  []string
	}{
		"controller": {Values{}, []string{"controller", "--namespace=kamino-system", "--generalize-namespace=kamino-generalize",
			"--metrics-bind-address=:8080", "--pprof-bind-address=0"},
			"Deployment", []string{"Job", "CronJob"}},
		"cronjob": {Values{"mode": "cronjob"}, []string{"auto", "--namespace=kamino-system", "--log-format=text"}, "CronJob",
			[]string{"Job", "Deployment", "Service"}},
		"job for a node": {Values{"mode": "job", "job": Values{"node": "n1", "captureArgs": []any{"--trial=Off"}, "settings": Values{"keep": 5}}},
			[]string{"capture", "n1", "--trial=Off", "--filename=/etc/kamino-settings/settings.yaml", "--log-format=text"}, "Job",
			[]string{"CronJob", "Deployment"}},
		"job": {Values{"mode": "job"}, []string{"auto"}, "Job", []string{"CronJob", "Deployment"}},
	} {
		t.Run(name, func(t *testing.T) {
			maps.Copy(test.values, extra)
			r := render(t, test.values)
			args := podOf(t, r).Containers[0].Args
			factory := cli.NewFactory()
			factory.Out, factory.Err = io.Discard, t.Output()
			if code := factory.Run(t.Context(), append(slices.Clone(args), "--help")); code != 0 {
				t.Errorf("kamino does not know these flags: %q", args)
			}
			for _, want := range test.args {
				if !slices.Contains(args, want) {
					t.Errorf("args = %q, without %s", args, want)
				}
			}
			kinds := map[string]bool{}
			for _, object := range r.Objects {
				kinds[object.GetKind()] = true
			}
			for _, kind := range test.never {
				if kinds[kind] {
					t.Errorf("there is a %s", kind)
				}
			}
			if !kinds[test.kind] {
				t.Errorf("there is no %s", test.kind)
			}
		})
	}
}

// Two releases in one cluster must not share an object.
func TestReleaseNames(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"kamino", "blue"} {
		r, err := Render(t.Context(), name, "ns-"+name, Values{})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range r.Objects {
			key := strings.Join([]string{object.GetKind(), object.GetNamespace(), object.GetName()}, "/")
			if seen[key] {
				t.Errorf("%s is both releases'", key)
			}
			seen[key] = true
		}
	}
}

func TestCredentials(t *testing.T) {
	for kind, test := range map[string]struct {
		values Values
		arg    string
		env    string
	}{
		"managedIdentity":  {Values{"managedIdentity": Values{"clientID": "c"}}, "", "AZURE_CLIENT_ID"},
		"workloadIdentity": {Values{"workloadIdentity": Values{"clientID": "c", "tenantID": "t"}}, "", "AZURE_FEDERATED_TOKEN_FILE"},
		"secret":           {Values{"secret": Values{"name": "s"}}, "--cloud-config=/etc/kamino/azure.json", ""},
		"environment":      {Values{"environment": Values{"secretName": "s"}}, "", ""},
		"hostFile":         {Values{}, "--cloud-config=/etc/kamino/azure.json", ""},
	} {
		t.Run(kind, func(t *testing.T) {
			test.values["type"] = kind
			pod := podOf(t, render(t, Values{"azure": Values{"credentials": test.values}}))
			c := pod.Containers[0]
			named := slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == test.env })
			if test.env != "" && !named {
				t.Errorf("env = %+v, without %s", c.Env, test.env)
			}
			if test.arg != "" && !slices.Contains(c.Args, test.arg) {
				t.Errorf("args = %q, without %s", c.Args, test.arg)
			}
			if got := len(c.EnvFrom) > 0; got != (kind == "environment") {
				t.Errorf("envFrom = %+v", c.EnvFrom)
			}
			for _, mount := range c.VolumeMounts {
				if !mount.ReadOnly {
					t.Errorf("%s can be written", mount.Name)
				}
			}
		})
	}
}

// TestPageAndNotices: the page listens on the loopback address, and the URLs are in a file and in no argument or variable.
func TestPageAndNotices(t *testing.T) {
	pod := podOf(t, render(t, Values{
		"dashboard": Values{"enabled": true, "port": 9000}, "notify": Values{"secretName": "hooks", "key": "all"}, "clusterName": "prod-1",
	}))
	c := pod.Containers[0]
	for _, want := range []string{"--dashboard-bind-address=127.0.0.1:9000", "--notify-url-file=/etc/kamino-notify/all", "--cluster-name=prod-1"} {
		if !slices.Contains(c.Args, want) {
			t.Errorf("args = %q, without %s", c.Args, want)
		}
	}
	at := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/kamino-notify" && m.ReadOnly })
	if at < 0 || !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.Name == c.VolumeMounts[at].Name && v.Secret != nil && v.Secret.SecretName == "hooks"
	}) {
		t.Errorf("mounts = %+v, volumes = %+v", c.VolumeMounts, pod.Volumes)
	}
	factory := cli.NewFactory()
	factory.Out, factory.Err = io.Discard, t.Output()
	if code := factory.Run(t.Context(), append(slices.Clone(c.Args), "--help")); code != 0 {
		t.Errorf("kamino does not know these flags: %q", c.Args)
	}
	for _, values := range []Values{
		{}, {"mode": "cronjob", "notify": Values{"secretName": "hooks"}, "dashboard": Values{"enabled": true}}, {"dashboard": nil, "notify": nil},
	} {
		c := podOf(t, render(t, values)).Containers[0]
		if joined := strings.Join(c.Args, " "); strings.Contains(joined, "--dashboard") || strings.Contains(joined, "--notify") {
			t.Errorf("%v: args = %q", values, c.Args)
		}
	}
}

// TestManagement: the command gets the kubeconfig of the management cluster with all files of the same directory.
func TestManagement(t *testing.T) {
	for _, key := range []string{"kubeconfig", "value"} {
		pod := podOf(t, render(t, Values{"clusterAPI": Values{"kubeconfig": Values{"secretName": "kamino-management", "key": key}}}))
		c := pod.Containers[0]
		if !slices.Contains(c.Args, "--management-kubeconfig=/etc/kamino-management/"+key) {
			t.Errorf("args = %q", c.Args)
		}
		at := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/kamino-management" && m.ReadOnly })
		if at < 0 || !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.Name == c.VolumeMounts[at].Name && v.Secret != nil && v.Secret.SecretName == "kamino-management"
		}) {
			t.Errorf("mounts = %+v, volumes = %+v", c.VolumeMounts, pod.Volumes)
		}
	}
	if args := podOf(t, render(t, Values{"clusterAPI": nil})).Containers[0].Args; strings.Contains(strings.Join(args, " "), "management") {
		t.Errorf("args = %q", args)
	}
}

func TestBadValuesAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		values Values
		says   string
	}{
		"an unknown value":          {Values{"replicas": 2}, "replicas"},
		"an unknown mode":           {Values{"mode": "daemon"}, "mode"},
		"an unknown policy field":   {Values{"policies": Values{"p": Values{"minReady": "1h"}}}, "minReady"},
		"a policy's bad value":      {Values{"policies": Values{"p": Values{"settings": Values{"azure": Values{"keep": 1}}}}}, "keep"},
		"a policy's bad name":       {Values{"policies": Values{"Bad_Name": Values{}}}, "Bad_Name"},
		"a Secret without a name":   {Values{"azure": Values{"credentials": Values{"type": "secret"}}}, "name"},
		"the former credentials":    {Values{"credentials": Values{"type": "secret"}}, "credentials"},
		"an identity without IDs":   {Values{"azure": Values{"credentials": Values{"type": "workloadIdentity"}}}, "clientID"},
		"a relative path":           {Values{"azure": Values{"credentials": Values{"hostFile": Values{"path": "azure.json"}}}}, "path"},
		"a cloud that there is not": {Values{"azure": Values{"credentials": Values{"cloud": "Cirrus"}}}, "cloud"},
		"a positional argument":     {Values{"extraArgs": []any{"capture"}}, "extraArgs"},
		"one for a one-shot mode":   {Values{"oneShot": Values{"extraArgs": []any{"capture"}}}, "extraArgs"},
		"one namespace for both":    {Values{"generalize": Values{"namespace": namespace}}, "own namespace"},
		"no account to bind to":     {Values{"serviceAccount": Values{"create": false}}, "serviceAccount.name"},
		"a port that is none":       {Values{"metrics": Values{"port": 0}}, "port"},
		"a digest that is a tag":    {Values{"image": Values{"digest": "v1"}}, "digest"},
		"not a number of replicas":  {Values{"controller": Values{"replicas": "two"}}, "replicas"},
		"an alert's age of no days": {Values{"metrics": Values{"rules": Values{"imageAgeDays": 0}}}, "imageAgeDays"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(t.Context(), release, namespace, test.values)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want one about %s", err, test.says)
			}
		})
	}
}

// TestPolicyOfNodeLabels: the chart and `kamino manifests` limit the writes of Nodes alike. Package manifest tests the policy of
// `kamino manifests` on a real API server.
func TestPolicyOfNodeLabels(t *testing.T) {
	want, err := manifest.Installation(manifest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	values := Values{"generalize": Values{"admissionPolicy": "always"}}
	for _, field := range []string{"variables", "validations"} {
		if diff := cmp.Diff(policyOfNodeLabels(t, &Rendered{Objects: want}, field), policyOfNodeLabels(t, render(t, values), field)); diff != "" {
			t.Errorf("%s (-manifest +chart):\n%s", field, diff)
		}
	}
}

func policyOfNodeLabels(t *testing.T, r *Rendered, field string) []any {
	t.Helper()
	policy := r.Find("ValidatingAdmissionPolicy", "kamino-node-labels."+namespace)
	if policy == nil {
		t.Fatal("there is no policy")
	}
	found, _, err := unstructured.NestedSlice(policy.Object, "spec", field)
	if err != nil || len(found) == 0 {
		t.Fatalf("the policy has no %s: %v", field, err)
	}
	return found
}

// TestKarpenter: with rbac.karpenter, the chart has the policies of `kamino manifests --karpenter` for its own account, and the rights.
func TestKarpenter(t *testing.T) {
	want, err := manifest.Installation(manifest.Options{Namespace: namespace, KarpenterRules: karpenter.Rules()})
	if err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []bool{false, true} {
		r := render(t, Values{"generalize": Values{"admissionPolicy": "always"}, "rbac": Values{"karpenter": wanted}})
		text, _ := json.Marshal(r.Find("ClusterRole", release).Object["rules"])
		if granted := strings.Contains(string(text), `"resources":["ec2nodeclasses"],"verbs":["get","list","patch","create","delete"]`); granted != wanted {
			t.Errorf("rbac.karpenter=%t: the rules are %s", wanted, text)
		}
		for _, o := range want {
			if !strings.HasPrefix(o.GetName(), "kamino-karpenter") {
				continue
			}
			have := r.Find(o.GetKind(), o.GetName())
			if (have != nil) != wanted {
				t.Errorf("rbac.karpenter=%t: %s %s exists: %t", wanted, o.GetKind(), o.GetName(), have != nil)
			}
			if have == nil {
				continue
			}
			spec, _ := json.Marshal(o.Object["spec"])
			ours := strings.ReplaceAll(string(spec), ":kamino-engine'", ":"+release+"'")
			if theirs, _ := json.Marshal(have.Object["spec"]); ours != string(theirs) || have.GetLabels()["app.kubernetes.io/instance"] == "" {
				t.Errorf("%s %s has the labels %v and the spec\n%s\nwant\n%s", o.GetKind(), o.GetName(), have.GetLabels(), theirs, ours)
			}
		}
	}
}

// TestValuesMatchSchema: values.yaml and its schema have the same fields, so every documented field can be set.
func TestValuesMatchSchema(t *testing.T) {
	chart, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	schema := map[string]any{}
	if err := yaml.Unmarshal(chart.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	compareFields(t, "", chart.Values, schema)
}

func compareFields(t *testing.T, path string, values, schema map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	for name := range properties {
		if _, found := values[name]; !found && path+name != "global" {
			t.Errorf("values.yaml does not have %s%s, which its schema has", path, name)
		}
	}
	for name, value := range values {
		property, found := properties[name].(map[string]any)
		if !found {
			t.Errorf("the schema does not have %s%s, which values.yaml has", path, name)
			continue
		}
		if below, nested := value.(map[string]any); nested && property["properties"] != nil {
			compareFields(t, path+name+".", below, property)
		}
	}
}

func TestNotes(t *testing.T) {
	for want, values := range map[string]Values{
		"Kamino captures nothing automatically": {},
		"kamino plan":                           {"policies": Values{"all": Values{}}},
		"create job --from=cronjob/kamino":      {"mode": "cronjob"},
		"logs job/kamino-":                      {"mode": "job"},
		"run as root":                           {"azure": Values{"credentials": Values{"type": "hostFile"}}},
	} {
		if notes := render(t, values).Notes; !strings.Contains(notes, want) {
			t.Errorf("the notes don't say %q:\n%s", want, notes)
		}
	}
}

// TestNoDrift: Argo CD renders each sync as revision 1, and Flux renders each upgrade as another revision. Both must render
// the same text for the same values.
func TestNoDrift(t *testing.T) {
	for _, v := range append(variants(t), variant{name: "defaults"}) {
		t.Run(v.name, func(t *testing.T) {
			first := renderAs(t, v.values, common.ReleaseOptions{Revision: 1, IsInstall: true})
			if diff := cmp.Diff(first, renderAs(t, v.values, common.ReleaseOptions{Revision: 7, IsUpgrade: true})); diff != "" {
				t.Errorf("revision 7 differs from revision 1:\n%s", diff)
			}
		})
	}
}

// objectsOf is a cluster for the function lookup of templates.
type objectsOf struct{ *fake.FakeDynamicClient }

// GetClientFor implements engine.ClientProvider.
func (o objectsOf) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	of, err := schema.ParseGroupVersion(apiVersion)
	return o.Resource(of.WithResource(strings.ToLower(kind) + "s")), kind != "ClusterRole", err
}

// TestManifestsAreRefused: over the objects of `kamino manifests`, the chart names the commands that remove these objects. The
// chart's own objects, and objects of other tools, are no obstacle.
func TestManifestsAreRefused(t *testing.T) {
	var text strings.Builder
	if err := manifest.Write(&text, manifest.Options{}); err != nil {
		t.Fatal(err)
	}
	all, err := Objects(text.String())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kind, refused string
		change        func(*unstructured.Unstructured)
	}{
		"roles of the manifests":   {"ClusterRole", "ClusterRole kamino-viewer is of an installation by `kamino manifests`", nil},
		"account of the manifests": {"ServiceAccount", "ServiceAccount kamino-generalize is of an installation by `kamino manifests`", nil},
		"objects of the chart": {"ClusterRole", "", func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{"app.kubernetes.io/name": "kamino", "app.kubernetes.io/instance": release})
		}},
		"objects of other tools": {"ClusterRole", "", func(o *unstructured.Unstructured) { o.SetLabels(nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewSimpleDynamicClient(runtime.NewScheme())
			for _, object := range all {
				if object.GetKind() != c.kind {
					continue
				}
				object = object.DeepCopy()
				if c.change != nil {
					c.change(object)
				}
				of := schema.GroupVersionResource{Group: object.GroupVersionKind().Group, Version: "v1", Resource: strings.ToLower(c.kind) + "s"}
				if err := client.Tracker().Create(of, object, object.GetNamespace()); err != nil {
					t.Fatal(err)
				}
			}
			chart, values := renderValues(t, Values{}, common.ReleaseOptions{IsInstall: true})
			_, err := engine.RenderWithClientProvider(chart, values, objectsOf{client})
			if c.refused == "" && err != nil {
				t.Error(err)
			}
			if c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused) || strings.Count(err.Error(), "\n  k") != 4) {
				t.Errorf("%v, want %q and four commands", err, c.refused)
			}
		})
	}
}

// TestReplacementsAreRefused: the chart waits for captures that only an earlier version can end. Without the definitions, as before a
// first installation, there are none, and a lookup would fail.
func TestReplacementsAreRefused(t *testing.T) {
	held := map[string]any{"uid": "u", "reservation": map[string]any{"replacement": map[string]any{"growFirst": true}}}
	donor := map[string]any{"nodeName": "n", "providerID": "azure:///n"}
	for name, c := range map[string]struct {
		donor, record any
		phase         string
		refused       bool
	}{
		"its donor is replaced": {donor, held, "Draining", true},
		"its pool grows":        {nil, map[string]any{"uid": "u"}, "Growing", true},
		"its donor returns":     {donor, map[string]any{"uid": "u", "reservation": map[string]any{"uid": "u"}}, "Draining", false},
		"not begun":             {donor, nil, "", false},
		"failed":                {donor, held, "Failed", false},
		"succeeded":             {nil, held, "Succeeded", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := map[string]any{"apiVersion": "kamino.dev/v1alpha1", "kind": "Prototype", "metadata": map[string]any{"name": "pool1-2026.03.14"},
				"spec": map[string]any{"donor": c.donor}, "status": map[string]any{"phase": c.phase, "record": c.record}}
			of := schema.GroupVersionResource{Group: "kamino.dev", Version: "v1alpha1", Resource: "prototypes"}
			client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{of: "PrototypeList"},
				&unstructured.Unstructured{Object: p})
			chart, values := renderValues(t, Values{}, common.ReleaseOptions{IsUpgrade: true})
			if _, err := engine.RenderWithClientProvider(chart, values, objectsOf{client}); err != nil {
				t.Fatalf("a cluster without the definitions: %v", err)
			}
			known := common.DefaultCapabilities.Copy()
			known.APIVersions = append(slices.Clone(known.APIVersions), "kamino.dev/v1alpha1/Prototype")
			values["Capabilities"] = known
			_, err := engine.RenderWithClientProvider(chart, values, objectsOf{client})
			if c.refused != (err != nil) || c.refused && !strings.Contains(err.Error(), "prototype pool1-2026.03.14 (phase "+c.phase+")") {
				t.Errorf("%v, want a refusal: %t", err, c.refused)
			}
		})
	}
}

// renderValues loads the chart, and returns all values for its templates.
func renderValues(t *testing.T, values Values, options common.ReleaseOptions) (*chartv2.Chart, common.Values) {
	t.Helper()
	chart, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	options.Name, options.Namespace = release, namespace
	all, err := util.ToRenderValues(chart, values, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	return chart, all
}

// renderAs renders all templates but the notes as the release of the options.
func renderAs(t *testing.T, values Values, options common.ReleaseOptions) map[string]string {
	t.Helper()
	chart, all := renderValues(t, values, options)
	texts, err := engine.Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(texts, func(path, _ string) bool { return strings.HasSuffix(path, "NOTES.txt") })
	return texts
}

// TestJobName: another content of the Job, or another job.run, makes another Job. A Job without a time to live stays, so
// that no tool makes the Job again.
func TestJobName(t *testing.T) {
	names := map[string]string{}
	for name, values := range map[string]Values{
		"a node":        {"job": Values{"node": "n1"}},
		"another node":  {"job": Values{"node": "n2"}},
		"a flag":        {"job": Values{"node": "n1", "captureArgs": []any{"--trial=Off"}}},
		"settings":      {"job": Values{"node": "n1", "settings": Values{"keep": 5}}},
		"more settings": {"job": Values{"node": "n1", "settings": Values{"keep": 6}}},
		"an image":      {"job": Values{"node": "n1"}, "image": Values{"tag": "v2"}},
		"another run":   {"job": Values{"node": "n1", "run": 2}},
		"a third run":   {"job": Values{"node": "n1", "run": "3"}},
	} {
		values["mode"] = "job"
		for _, object := range render(t, values).Objects {
			if object.GetKind() != "Job" {
				continue
			}
			if other, found := names[object.GetName()]; found {
				t.Errorf("%s and %s have the same Job %s", name, other, object.GetName())
			}
			names[object.GetName()] = name
			if as[batchv1.Job](t, object).Spec.TTLSecondsAfterFinished != nil {
				t.Errorf("%s: Kubernetes deletes the ended Job", name)
			}
		}
	}
	if len(names) != 8 {
		t.Errorf("%d Jobs, want 8", len(names))
	}
}

// TestPodsOfATrialReachEachOther: the network policies allow traffic between the pods of a trial, on their port and
// by their labels.
func TestPodsOfATrialReachEachOther(t *testing.T) {
	r := render(t, Values{"networkPolicy": map[string]any{"enabled": true}})
	var found []string
	for _, object := range r.Objects {
		if object.GetKind() != "NetworkPolicy" {
			continue
		}
		policy := as[networkingv1.NetworkPolicy](t, object)
		if policy.Spec.PodSelector.MatchLabels["app.kubernetes.io/component"] != "trial" {
			continue
		}
		found = append(found, policy.Name)
		to := policy.Spec.Egress[0]
		for _, port := range []networkingv1.NetworkPolicyPort{policy.Spec.Ingress[0].Ports[0], to.Ports[0]} {
			if port.Port.IntValue() != probe.Port {
				t.Errorf("%s opens port %s, and they listen on %d", policy.Name, port.Port, probe.Port)
			}
		}
		for _, peer := range []networkingv1.NetworkPolicyPeer{policy.Spec.Ingress[0].From[0], to.To[0]} {
			if diff := cmp.Diff(&policy.Spec.PodSelector, peer.PodSelector); diff != "" {
				t.Errorf("%s: pods reach others than themselves:\n%s", policy.Name, diff)
			}
		}
	}
	if len(found) != 1 {
		t.Errorf("policies for a trial's pods: %v", found)
	}
}
