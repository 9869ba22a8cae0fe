// Package policyfile reads policies that somebody wrote into a file, as strictly as an API server: what is not known is refused,
// and nothing but policies is taken. It knows no file, only what stands in one.
package policyfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Invalid says why what was written is no policy, or none that can be decided by.
type Invalid struct{ err error }

// Invalidf makes an Invalid; its verbs are those of fmt.Errorf.
func Invalidf(format string, args ...any) *Invalid { return &Invalid{fmt.Errorf(format, args...)} }

// Error implements error.
func (i *Invalid) Error() string { return i.err.Error() }

// Unwrap gives out what it was made of.
func (i *Invalid) Unwrap() error { return i.err }

// Parse reads a YAML stream of policies. The name is the file's, for sentences. Any error is an Invalid.
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
		type strict v1alpha1.PrototypePolicy // which leaves nothing out
		var read strict
		if err := yaml.UnmarshalStrict(document, &read); err != nil {
			return nil, Invalidf("%s: %w", name, err)
		}
		p := v1alpha1.PrototypePolicy(read)
		if p.Kind != "PrototypePolicy" || p.APIVersion != v1alpha1.GroupVersion.String() {
			return nil, Invalidf("%s contains a %s of %s: only PrototypePolicies of apiVersion %s are allowed", name, p.Kind, p.APIVersion, v1alpha1.GroupVersion)
		}
		policies = append(policies, p)
	}
	if len(policies) == 0 {
		return nil, Invalidf("%s contains no policy", name)
	}
	return policies, nil
}

// empty tells whether a document has nothing but comments, lines that separate it from others, and blanks.
func empty(document []byte) bool {
	var holds any
	return yaml.Unmarshal(document, &holds) == nil && holds == nil
}

// Rejected is what an API server's word on a trial of the policy means to whoever wrote the policy: the trial has a name that
// the server made up.
func Rejected(policy string, err error) *Invalid {
	_, wrong, cut := strings.Cut(err.Error(), "is invalid: ")
	if !cut {
		wrong = err.Error()
	}
	return Invalidf("policy %s: %s", policy, wrong)
}
