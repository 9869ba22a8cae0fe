package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/policy"
)

// adHocName is the policy that a command makes up where none was written.
const adHocName = "(default)"

// policySource is where a command's policies come from.
type policySource struct {
	// name of one policy of the cluster; all of them if it is empty.
	name string
	// file with PrototypePolicies that need not exist in the cluster.
	file string
	// pools that an empty policy is made up for.
	pools []string
}

// check finds a contradiction.
func (p policySource) check() error {
	given := 0
	for _, is := range []bool{p.name != "", p.file != "", len(p.pools) > 0} {
		if is {
			given++
		}
	}
	if given > 1 {
		return usagef("give one of --policy, --filename and --pool: each of them says what is decided by")
	}
	return nil
}

// errPoliciesMissing says how to install what is not there.
var errPoliciesMissing = &ending{ExitRefused, errors.New(
	"this cluster doesn't know PrototypePolicies, and nothing was changed: install Kamino's definitions with `kamino crds --apply`")}

// policies that the source names. Those that exist nowhere have no UID.
func (s *session) policies(ctx context.Context, from policySource) ([]v1alpha1.PrototypePolicy, error) {
	switch {
	case from.file != "":
		return s.readPolicies(ctx, from.file)
	case len(from.pools) > 0:
		return s.madeUp(ctx, from.pools)
	}
	var list v1alpha1.PrototypePolicyList
	err := s.cluster.Client.List(ctx, &list)
	switch {
	case apierrors.IsNotFound(err):
		return nil, errPoliciesMissing
	case err != nil:
		return nil, fmt.Errorf("list prototypepolicies: %w", err)
	case from.name == "":
		return list.Items, nil
	}
	for _, p := range list.Items {
		if p.Name == from.name {
			return []v1alpha1.PrototypePolicy{p}, nil
		}
	}
	return nil, refusedf("there is no policy %s, and nothing was changed: `kubectl get prototypepolicies` lists them", from.name)
}

// readPolicies reads a file as strictly as an API server, and has the cluster's own check them where it may.
func (s *session) readPolicies(ctx context.Context, file string) ([]v1alpha1.PrototypePolicy, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("%w", err)
	}
	var policies []v1alpha1.PrototypePolicy
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if err == io.EOF { //nolint:errorlint // the reader gives io.EOF itself
			break
		}
		if err != nil {
			return nil, usagef("%s: %w", file, err)
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		var p v1alpha1.PrototypePolicy
		if err := yaml.UnmarshalStrict(document, &p); err != nil {
			return nil, usagef("%s: %w", file, err)
		}
		if p.Kind != "PrototypePolicy" || p.APIVersion != v1alpha1.GroupVersion.String() {
			return nil, usagef("%s holds a %s of %s: write policies only, of kind PrototypePolicy and apiVersion %s", file, p.Kind, p.APIVersion, v1alpha1.GroupVersion)
		}
		if err := s.validatePolicy(ctx, &p); err != nil {
			return nil, err
		}
		policies = append(policies, p)
	}
	if len(policies) == 0 {
		return nil, usagef("%s holds no policy", file)
	}
	return policies, nil
}

// validatePolicy has the API server check a policy without keeping it. A cluster that has no such kind, or a
// credential that may not make one, checks nothing: then what can't be read is said with the decision.
func (s *session) validatePolicy(ctx context.Context, p *v1alpha1.PrototypePolicy) error {
	trial := &v1alpha1.PrototypePolicy{Spec: p.Spec}
	trial.GenerateName = "check-"
	err := s.cluster.Client.Create(ctx, trial, client.DryRunAll)
	if apierrors.IsInvalid(err) {
		// The trial has a name that the API server made up, which means nothing to whoever wrote the policy.
		_, wrong, _ := strings.Cut(err.Error(), "is invalid: ")
		return usagef("policy %s: %s", p.Name, wrong)
	}
	p.UID, p.ResourceVersion = "", ""
	p.Spec = p.Spec.Defaulted()
	return nil
}

// madeUp is an empty policy for the pools that a person means. One that means none stays as it is, and is told
// beside what comes of the others.
func (s *session) madeUp(ctx context.Context, names []string) ([]v1alpha1.PrototypePolicy, error) {
	pools, err := s.pools().All(ctx)
	if err != nil {
		return nil, err
	}
	known := slices.Collect(maps.Keys(pools))
	ids := make([]string, len(names))
	for i, name := range names {
		ids[i] = name
		if id, err := s.pools().Meant(ctx, name, known); err == nil {
			ids[i] = string(id)
		}
	}
	return []v1alpha1.PrototypePolicy{policy.AdHoc(adHocName, ids...)}, nil
}
