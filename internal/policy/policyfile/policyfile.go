// Package policyfile parses policies from a user's file, as strictly as an API server: unknown fields and other kinds are
// errors. The package reads no file, only text.
package policyfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Invalid is the reason why the text contains no valid policy.
type Invalid struct{ err error }

// Invalidf returns an Invalid; its verbs are the verbs of fmt.Errorf.
func Invalidf(format string, args ...any) *Invalid { return &Invalid{fmt.Errorf(format, args...)} }

// Error implements error.
func (i *Invalid) Error() string { return i.err.Error() }

// Unwrap returns the cause.
func (i *Invalid) Unwrap() error { return i.err }

// Parse reads a YAML stream of policies. name is the file's name, for messages. All errors are Invalid.
func Parse(name string, text []byte) ([]v1alpha1.PrototypePolicy, error) {
	var policies []v1alpha1.PrototypePolicy
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, Invalidf("%s: %w", name, err)
		}
		if empty(document) {
			continue
		}
		type strict v1alpha1.PrototypePolicy // without the lenient decoder
		var read strict
		if err := decode(document, &read); err != nil {
			return nil, Invalidf("%s: %w", name, Unquoted(err))
		}
		p := v1alpha1.PrototypePolicy(read)
		if p.Kind != "PrototypePolicy" || p.APIVersion != v1alpha1.GroupVersion.String() {
			return nil, Invalidf("%s contains a %s of %s: only PrototypePolicies of apiVersion %s are allowed",
				name, p.Kind, p.APIVersion, v1alpha1.GroupVersion)
		}
		policies = append(policies, p)
	}
	if len(policies) == 0 {
		return nil, Invalidf("%s contains no policy", name)
	}
	return policies, nil
}

// decode refuses unknown fields. Unlike sigs.k8s.io/yaml, it makes no text of a boolean.
func decode(document []byte, into any) error {
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return err
	}
	unknown, err := kjson.UnmarshalStrict(text, into)
	return errors.Join(append(unknown, err)...)
}

// Unquoted explains the error of a value without quotes that YAML reads as a boolean, and returns other errors as they are.
func Unquoted(err error) error {
	text := err.Error()
	if strings.Contains(text, "cannot unmarshal bool") && (strings.HasSuffix(text, "of type string") || strings.HasSuffix(text, "Mode")) {
		return fmt.Errorf(`%w: YAML reads Off without quotes as false, so write "Off"`, err)
	}
	return err
}

// empty reports whether a document has only comments, separators and blanks.
func empty(document []byte) bool {
	var holds any
	return yaml.Unmarshal(document, &holds) == nil && holds == nil
}

// Rejected converts an API server's refusal of a dry run for the author of the policy: the dry run used a generated name.
func Rejected(policy string, err error) *Invalid {
	_, wrong, cut := strings.Cut(err.Error(), "is invalid: ")
	if !cut {
		wrong = err.Error()
	}
	return Invalidf("policy %s: %s", policy, wrong)
}
