package capi

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// infrastructureGroup is the API group of the supported infrastructure providers.
const infrastructureGroup = "infrastructure.cluster.x-k8s.io"

// templateSuffix is the end of a template's kind. Without the suffix the kind is that of the object from the template.
// Source: Cluster API, TemplateSuffix.
const templateSuffix = "Template"

// infrastructure describes the kinds of an infrastructure provider. All functions work without I/O.
type infrastructure struct {
	// cloud is the name of the cloud's description.
	cloud string
	// machine and cluster are the kinds of machines and clusters.
	machine, cluster string
	// root is the field of a machine's spec that holds all fields of the image.
	root string
	// image returns the image of a machine's spec, as the cloud writes the image; empty without an image.
	image func(machine spec) string
	// instanceType is the field of a machine's spec with the instance type.
	instanceType string
	// ended reports whether the status of a machine says that its instance ends, or is gone.
	ended func(status spec) bool
	// setImage sets the image of a machine's spec and removes other fields that select an image.
	setImage func(machine spec, image string) error
	// place returns the place of a cluster's images, in the ImageProvider's words, and the location of the machines.
	place func(cluster spec) (place, location string)
	// rootDisk is the path of the root disk's size in a machine's spec, in GiB.
	rootDisk []string
	// traits returns the properties that an image must share with the machines, in the ImageProvider's words.
	traits func(machine spec) map[string]string
	// refusals returns the reasons against a capture of the spec's machines.
	refusals func(machine spec, of fmt.Stringer) []cloud.Refusal
}

// infrastructures are keyed by machine kind.
var infrastructures = map[string]infrastructure{aws.machine: aws, azure.machine: azure}

// infrastructureOf returns the infrastructure of a machine kind or template kind.
func infrastructureOf(kind schema.GroupKind) (infrastructure, bool) {
	found, known := infrastructures[strings.TrimSuffix(kind.Kind, templateSuffix)]
	return found, known && kind.Group == infrastructureGroup
}

// spec is a part of an object, read and written by paths. A read of a missing path returns the zero value.
type spec map[string]any

// pathOfTemplate is the path of the machines' spec in a template.
var pathOfTemplate = []string{"spec", "template", "spec"}

// specOf returns the part of an object at a path. Writes to the part change the object.
func specOf(o object, path ...string) spec {
	found, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	inner, _ := found.(map[string]any)
	return inner
}

// copyFields copies fields of another spec. carry returns the paths of remaining fields that are not in idle.
func (s spec) copyFields(from spec, at string, fields, idle []string) (without []string) {
	for field, value := range from {
		switch {
		case slices.Contains(fields, field):
			s[field] = value
		case !slices.Contains(idle, field):
			without = append(without, at+field)
		}
	}
	return without
}

func (s spec) text(path ...string) string {
	text, _, _ := unstructured.NestedString(s, path...)
	return text
}

func (s spec) number(path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(s, path...)
	return n
}

func (s spec) has(path ...string) bool {
	value, found, err := unstructured.NestedFieldNoCopy(s, path...)
	return found && err == nil && value != nil
}
