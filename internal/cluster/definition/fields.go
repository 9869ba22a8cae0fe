package definition

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/manifest"
)

// fields are the fields of kinds, such as "Prototype.spec.pool". The value is true if the field is required where its parent is set.
type fields map[string]bool

// Difference says in one clause how the definitions of the cluster differ from those of this build; empty if they are alike. Every
// account that may log in can read the fields, but not the definitions.
func Difference(ctx context.Context, c *cluster.Connection) (string, error) {
	raw, err := c.Kube.CoreV1().RESTClient().Get().AbsPath("/openapi/v3/apis/"+v1alpha1.GroupVersion.String()).
		SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	document := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &document.Object); err != nil {
		return "", err
	}
	wanted, err := manifest.Definitions()
	if err != nil {
		return "", err
	}
	own, served := fieldsOf(wanted), fields{}
	schemas, _, _ := unstructured.NestedMap(document.Object, "components", "schemas")
	for _, d := range wanted {
		kind, _, _ := unstructured.NestedString(d.Object, "spec", "names", "kind")
		for name, schema := range schemas {
			if strings.HasSuffix(name, "."+kind) {
				served.add(kind, schema)
			}
		}
	}
	return own.difference(served), nil
}

// difference names one field: the definitions of a version are replaced as a whole.
func (f fields) difference(served fields) string {
	if lacking := f.without(served); len(lacking) > 0 {
		return "the definitions in the cluster are of another version, and lack " + lacking[0]
	}
	if foreign := served.without(f); len(foreign) > 0 {
		return "the definitions in the cluster are of another version, and have " + foreign[0]
	}
	for _, name := range f.names() {
		if !f[name] && served[name] {
			return "the definitions in the cluster are of another version, and require " + name
		}
	}
	return ""
}

// fieldsOf returns the fields of definitions.
func fieldsOf(definitions []*unstructured.Unstructured) fields {
	all := fields{}
	for _, d := range definitions {
		kind, _, _ := unstructured.NestedString(d.Object, "spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
		for _, version := range versions {
			if of, is := version.(map[string]any); is {
				schema, _, _ := unstructured.NestedMap(of, "schema", "openAPIV3Schema")
				all.add(kind, schema)
			}
		}
	}
	return all
}

// add adds the fields below a schema. What Kubernetes defines is left out: only a definition of a kind has apiVersion, kind and metadata.
func (f fields) add(path string, schema any) {
	of, isSchema := schema.(map[string]any)
	if !isSchema {
		return
	}
	for _, below := range []string{"items", "additionalProperties"} {
		f.add(path, of[below])
	}
	required, _ := of["required"].([]any)
	properties, _ := of["properties"].(map[string]any)
	for name, property := range properties {
		if !strings.Contains(path, ".") && name != "spec" && name != "status" {
			continue
		}
		at := path + "." + name
		f[at] = slices.Contains(required, any(name))
		f.add(at, property)
	}
}

// without lists the fields that the others lack, a parent before its children.
func (f fields) without(others fields) (lacking []string) {
	for _, name := range f.names() {
		if _, has := others[name]; !has {
			lacking = append(lacking, name)
		}
	}
	return lacking
}

func (f fields) names() []string { return slices.Sorted(maps.Keys(f)) }
