package capi

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// coreGroup is the group of Cluster API's own kinds.
const coreGroup = "cluster.x-k8s.io"

// poolPrefix opens the ID of each pool: cluster.x-k8s.io/NAMESPACE/machinedeployments/NAME.
const poolPrefix = coreGroup + "/"

// Kinds of objects that are pools, as the resources of their IDs.
const (
	deployments  = "machinedeployments"
	sets         = "machinesets"
	machinePools = "machinepools"
)

// kinds by the resources of pools' IDs.
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

// parsePool reads a pool's ID.
func parsePool(id cloud.PoolID) (ref, error) {
	rest, ours := strings.CutPrefix(string(id), poolPrefix)
	parts := strings.Split(rest, "/")
	if ours && len(parts) == 3 && parts[0] != "" && kinds[parts[1]] != "" && parts[2] != "" {
		return ref{parts[0], parts[1], parts[2]}, nil
	}
	return ref{}, &cloud.Error{Kind: cloud.Unsupported, Op: "read", Resource: string(id),
		Message: "this names no pool of Cluster API's (" + poolPrefix + "NAMESPACE/machinedeployments/NAME): copy it from `kamino status -o wide`"}
}

// maxObjectName is how long the name of an object may be that its kind does not limit further. Source: Kubernetes, "Object Names and IDs".
const maxObjectName = 253

// shorten keeps a name within a limit and unique: what is cut off is replaced by its digest.
func shorten(name string, most int) string {
	if len(name) <= most {
		return name
	}
	return strings.TrimRight(name[:most-9], ".-") + "-" + digest([]byte(name))
}

// digest tells content apart from other content.
func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:4])
}
