// Package registry lists the supported clouds and finds the cloud of a cluster by the nodes' provider IDs. Only registry
// imports the providers. All other packages get a provider from registry.
package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/aws"
	"github.com/kamino-dev/kamino/internal/cloud/azure"
)

// Registry is a list of clouds. Names and schemes are unique.
type Registry []cloud.Description

// All returns the clouds of this program.
func All() Registry { return Registry{azure.Describe(), aws.Describe()} }

// Names returns the names of the clouds in the order of the registry.
func (r Registry) Names() (names []string) {
	for _, d := range r {
		names = append(names, d.Name)
	}
	return names
}

// Named returns the cloud of the name, or an error with the known names.
func (r Registry) Named(name string) (cloud.Description, error) {
	for _, d := range r {
		if d.Name == name {
			return d, nil
		}
	}
	return cloud.Description{}, fmt.Errorf("unknown cloud %q: use --cloud %s", name, strings.Join(r.Names(), " or "))
}

// few is the share of nodes that may belong to another cloud: 1 in few. A stray node, or a false provider ID, does not
// change the result.
const few = 10

// Of returns the cloud of nearly all provider IDs (see few). Empty IDs and unknown schemes are ignored if other IDs have
// a known scheme. Of returns an error if no cloud or several clouds match.
func (r Registry) Of(providerIDs []string) (cloud.Description, error) {
	count, known := make([]int, len(r)), 0
	var unknown []string
	for _, id := range providerIDs {
		scheme, _, isID := strings.Cut(id, "://")
		if !isID || scheme == "" {
			continue
		}
		i := slices.IndexFunc(r, func(d cloud.Description) bool { return slices.Contains(d.Schemes, scheme) })
		switch {
		case i >= 0:
			count[i]++
			known++
		case !slices.Contains(unknown, scheme):
			unknown = append(unknown, scheme)
		}
	}
	var found []string
	for i, n := range count {
		if n > 0 && (known-n)*few <= known {
			return r[i], nil
		}
		if n > 0 {
			found = append(found, r[i].Name)
		}
	}
	switch {
	case len(found) > 1:
		return cloud.Description{}, fmt.Errorf("the cluster's nodes belong to several clouds: use --cloud %s", strings.Join(found, " or --cloud "))
	case len(unknown) > 0:
		return cloud.Description{}, fmt.Errorf("the cluster's nodes belong to %s, but Kamino supports %s: if that is wrong, use --cloud NAME",
			strings.Join(unknown, ", "), strings.Join(r.Names(), ", "))
	}
	return cloud.Description{}, fmt.Errorf("no node has a spec.providerID of a known cloud: use --cloud NAME (%s)", strings.Join(r.Names(), ", "))
}

// Choose returns the named cloud, else the only cloud of the registry, else the cloud of the cluster's nodes. Choose
// calls providerIDs only in the last case. If providerIDs is nil, a name is required.
func (r Registry) Choose(name string, providerIDs func() ([]string, error)) (cloud.Description, error) {
	if name != "" {
		return r.Named(name)
	}
	if len(r) == 1 {
		return r[0], nil
	}
	if providerIDs == nil {
		return cloud.Description{}, fmt.Errorf("without a cluster the cloud is unknown: use --cloud %s", strings.Join(r.Names(), " or --cloud "))
	}
	ids, err := providerIDs()
	if err != nil {
		return cloud.Description{}, fmt.Errorf("cannot find the cluster's cloud from the nodes: %w", err)
	}
	return r.Of(ids)
}
