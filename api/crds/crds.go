// Package crds holds the CustomResourceDefinitions of the group kamino.dev, generated from api/v1alpha1.
package crds

import "embed"

// Files are the CustomResourceDefinitions as YAML, one file a kind.
//
//go:embed *.yaml
var Files embed.FS
