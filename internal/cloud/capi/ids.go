package capi

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// coreGroup is the API group of Cluster API's core.
const coreGroup = "cluster.x-k8s.io"

// poolPrefix is the beginning of pool IDs: cluster.x-k8s.io/NAMESPACE/machinedeployments/NAME.
const poolPrefix = coreGroup + "/"

// Resources of pools, as in pool IDs.
const (
	deployments  = "machinedeployments"
	sets         = "machinesets"
	machinePools = "machinepools"
)

// kinds are the kinds of pools by resource.
var kinds = map[string]string{deployments: kindDeployment, sets: kindSet, machinePools: kindPool}

// ref names a pool: an object of the management cluster.
type ref struct {
	namespace, resource, name string
}

func (r ref) pool() cloud.PoolID {
	return cloud.PoolID(poolPrefix + strings.Join([]string{r.namespace, r.resource, r.name}, "/"))
}

func (r ref) kind() string { return kinds[r.resource] }

func (r ref) String() string { return r.kind() + " " + r.namespace + "/" + r.name }

// parsePool parses a pool's ID.
func parsePool(id cloud.PoolID) (ref, error) {
	rest, ours := strings.CutPrefix(string(id), poolPrefix)
	parts := strings.Split(rest, "/")
	if ours && len(parts) == 3 && parts[0] != "" && kinds[parts[1]] != "" && parts[2] != "" {
		return ref{parts[0], parts[1], parts[2]}, nil
	}
	return ref{}, &cloud.Error{Kind: cloud.Unsupported, Op: "read", Resource: string(id),
		Message: "not a pool of Cluster API (" + poolPrefix + "NAMESPACE/machinedeployments/NAME): copy the ID from `kamino status -o wide`"}
}

// maxObjectName is the longest name of an object without a stricter kind. Source: Kubernetes, "Object Names and IDs".
const maxObjectName = 253

// shorten limits a name. A digest replaces the end, so that names stay unique.
func shorten(name string, most int) string {
	if len(name) <= most {
		return name
	}
	return strings.TrimRight(name[:most-9], ".-") + "-" + digest([]byte(name))
}

// digest returns a short digest of the content.
func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:4])
}
