// Package registry knows the clouds that there are, by the schemes of their nodes' provider IDs. It is the one package
// above the providers that imports them; whoever needs a cloud asks here.
package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/aws"
	"github.com/kamino-dev/kamino/internal/cloud/azure"
)

// Registry is a list of clouds, each with names and schemes of its own.
type Registry []cloud.Description

// All are the clouds that this program knows.
func All() Registry { return Registry{azure.Describe(), aws.Describe()} }

// Names of the clouds, in the order of the registry.
func (r Registry) Names() (names []string) {
	for _, d := range r {
		names = append(names, d.Name)
	}
	return names
}

// Named is the cloud of that name.
func (r Registry) Named(name string) (cloud.Description, error) {
	for _, d := range r {
		if d.Name == name {
			return d, nil
		}
	}
	return cloud.Description{}, fmt.Errorf("there is no cloud %q: choose %s", name, strings.Join(r.Names(), " or "))
}

// few is how many of a cluster's nodes may be of other clouds, as one in so many of all: a node that strayed in, or that says what
// it is not, changes nothing for the others.
const few = 10

// Of is the cloud whose nodes carry such provider IDs, but for a few. Those without one, and of a scheme that nobody knows, say
// nothing, as long as others do. An error, in one sentence, if none or several match.
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
		return cloud.Description{}, fmt.Errorf("the cluster's nodes are of several clouds: name one with --cloud %s", strings.Join(found, " or --cloud "))
	case len(unknown) > 0:
		return cloud.Description{}, fmt.Errorf("the cluster's nodes are of %s, and the clouds that Kamino knows are %s: name one with --cloud if that is wrong",
			strings.Join(unknown, ", "), strings.Join(r.Names(), ", "))
	}
	return cloud.Description{}, fmt.Errorf("no node of the cluster has a spec.providerID that says which cloud it is in: name one with --cloud (%s)", strings.Join(r.Names(), ", "))
}

// Choose is the cloud that is named, else the only one that there is, else the one of the cluster's nodes, for which
// alone their provider IDs are asked for. Where nobody can be asked, one must be named.
func (r Registry) Choose(name string, providerIDs func() ([]string, error)) (cloud.Description, error) {
	if name != "" {
		return r.Named(name)
	}
	if len(r) == 1 {
		return r[0], nil
	}
	if providerIDs == nil {
		return cloud.Description{}, fmt.Errorf("no cluster is asked which cloud it is in: name it with --cloud %s", strings.Join(r.Names(), " or --cloud "))
	}
	ids, err := providerIDs()
	if err != nil {
		return cloud.Description{}, fmt.Errorf("which cloud the cluster is in cannot be told by its nodes: %w", err)
	}
	return r.Of(ids)
}
