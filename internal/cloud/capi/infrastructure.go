package capi

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// infrastructureGroup is the group of the kinds of all infrastructure providers that are known here.
const infrastructureGroup = "infrastructure.cluster.x-k8s.io"

// templateSuffix ends the kind of a template; without it, it is the kind of what is made from it. Source: Cluster API, TemplateSuffix.
const templateSuffix = "Template"

// infrastructure is what one provider's kinds say, all of it without I/O.
type infrastructure struct {
	// cloud that its machines are of, by its description's name.
	cloud string
	// machine and cluster are the kinds of its machines and clusters.
	machine, cluster string
	// root is the field of a machine's spec that has all that names its image.
	root string
	// image reads how the spec of a machine names its image, as the cloud does; empty where it names none.
	image func(machine spec) string
	// setImage has the spec name an image and nothing else that would choose one.
	setImage func(machine spec, image string) error
	// place of the images of a cluster, in the words of the cloud's ImageProvider, and the location of its machines.
	place func(cluster spec) (place, location string)
	// traits that an image must share with machines of the spec, in the words of the cloud's ImageProvider.
	traits func(machine spec) map[string]string
	// refusals say why no machine of the spec can be captured.
	refusals func(machine spec, of fmt.Stringer) []cloud.Refusal
}

// infrastructures by the kinds of their machines.
var infrastructures = map[string]infrastructure{aws.machine: aws, azure.machine: azure}

// infrastructureOf is that of a template's, or a machine's, kind.
func infrastructureOf(kind schema.GroupKind) (infrastructure, bool) {
	found, known := infrastructures[strings.TrimSuffix(kind.Kind, templateSuffix)]
	return found, known && kind.Group == infrastructureGroup
}

// spec is a part of an object, read and written by paths. Reading where nothing is gives nothing.
type spec map[string]any

// pathOfTemplate is where a template has the spec of its machines.
var pathOfTemplate = []string{"spec", "template", "spec"}

// specOf is the part of an object under a path; what is written to it is written to the object.
func specOf(o object, path ...string) spec {
	found, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	inner, _ := found.(map[string]any)
	return inner
}

// carry takes over fields of another spec, and tells which others it has that are not idle, with where they are.
func (s spec) carry(from spec, at string, fields, idle []string) (without []string) {
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

func (s spec) has(path ...string) bool {
	value, found, err := unstructured.NestedFieldNoCopy(s, path...)
	return found && err == nil && value != nil
}
