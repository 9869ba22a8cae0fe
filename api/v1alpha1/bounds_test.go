package v1alpha1_test

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kamino-dev/kamino/internal/testing/apitest"
)

// exact is the largest integer that each JSON reader keeps exactly. An API server compares larger numbers as floating point.
const exact = 1<<53 - 1

// engineOnly are the fields that only the engine's account writes, and from which it alone reads: see Unreadable.
var engineOnly = []string{"Prototype.status.record", "Prototype.status.proof", "Prototype.status.unproven"}

// TestNumbersAreBounded demands an upper bound for each number of the definitions. Without one the API server stores numbers that no
// client can decode.
func TestNumbersAreBounded(t *testing.T) {
	definitions, err := apitest.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	numbers := 0
	for _, definition := range definitions {
		for _, version := range definition.Spec.Versions {
			numbers += bounded(t, definition.Spec.Names.Kind, version.Schema.OpenAPIV3Schema, nil)
		}
	}
	if numbers < 30 {
		t.Errorf("only %d numbers were found", numbers)
	}
}

// bounded counts the numbers below a schema and reports those without a bound. rules are those of the schema around it.
func bounded(t *testing.T, path string, schema *apiextensionsv1.JSONSchemaProps, around apiextensionsv1.ValidationRules) int {
	t.Helper()
	numbers := 0
	switch {
	case schema.XIntOrString:
		numbers++
		if !hasUpperBound(schema.XValidations, "self") {
			t.Errorf("%s is an integer or a string, and no rule bounds the integer", path)
		}
	case schema.Type == "number":
		t.Errorf("%s is no integer", path)
	case schema.Type == "integer":
		numbers++
		most := float64(exact)
		if schema.Format == "int32" {
			most = math.MaxInt32
		}
		if (schema.Maximum == nil || *schema.Maximum > most) && !hasUpperBound(around, "self"+path[strings.LastIndex(path, "."):]) {
			t.Errorf("%s has no maximum of at most %.0f", path, most)
		}
	case slices.Contains(engineOnly, path):
	case schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields:
		t.Errorf("%s takes anything", path)
	}
	for name, property := range schema.Properties {
		numbers += bounded(t, path+"."+name, &property, schema.XValidations)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		numbers += bounded(t, path+"[]", schema.Items.Schema, nil)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		numbers += bounded(t, path+"{}", schema.AdditionalProperties.Schema, nil)
	}
	return numbers
}

// hasUpperBound reports whether a rule bounds a field from above.
func hasUpperBound(rules apiextensionsv1.ValidationRules, field string) bool {
	for _, rule := range rules {
		if regexp.MustCompile(`(^|\W)` + regexp.QuoteMeta(field) + ` <= [0-9]+`).MatchString(rule.Rule) {
			return true
		}
	}
	return false
}
