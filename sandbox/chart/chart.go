// Package chart renders and checks Kamino's Helm chart with Helm's own code.
package chart

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// KubeVersion for rendering without a cluster: the oldest supported version of the chart.
const KubeVersion = "v1.29.0"

// Values of a release, as in a values file.
type Values = map[string]any

// Dir is the directory of the chart in this checkout.
func Dir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "charts", "kamino")
}

// Load reads the chart.
func Load() (*chartv2.Chart, error) { return loader.LoadDir(Dir()) }

// Rendered holds the objects of a release.
type Rendered struct {
	// Objects in the order of Helm's installation. The chart has no hooks.
	Objects []*unstructured.Unstructured
	Notes   string
}

// Render renders the chart without a cluster, as `helm template` does. The objects lack the definitions.
func Render(ctx context.Context, name, namespace string, values Values) (*Rendered, error) {
	chart, err := Load()
	if err != nil {
		return nil, err
	}
	kube, err := common.ParseKubeVersion(KubeVersion)
	if err != nil {
		return nil, err
	}
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace, install.KubeVersion = name, namespace, kube
	answer, err := install.RunWithContext(ctx, chart, values)
	if err != nil {
		return nil, err
	}
	release, err := releaseOf(answer)
	if err != nil {
		return nil, err
	}
	rendered := &Rendered{Notes: release.Info.Notes}
	if rendered.Objects, err = Objects(release.Manifest); err != nil {
		return nil, err
	}
	return rendered, nil
}

// Find returns the rendered object of a kind and name; nil if not found.
func (r *Rendered) Find(kind, name string) *unstructured.Unstructured {
	for _, object := range r.Objects {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	return nil
}

// Objects splits a YAML stream.
func Objects(stream string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, text := range strings.Split("\n"+stream, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(text), &object.Object); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, text)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

func releaseOf(answer any) (*releasev1.Release, error) {
	release, ok := answer.(*releasev1.Release)
	if !ok {
		return nil, errors.New("the answer of Helm is a release of another version")
	}
	return release, nil
}
