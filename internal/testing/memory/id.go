package memory

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// IDs ignore case, like Azure's, and are always returned in lower case.
const (
	poolPrefix     = "memory:///pools/"
	instancesPart  = "/instances/"
	versionsPart   = "/versions/"
	snapshotPrefix = "memory:///snapshots/"
)

func poolID(name string) cloud.PoolID { return cloud.PoolID(poolPrefix + strings.ToLower(name)) }

func instanceID(pool cloud.PoolID, id string) cloud.InstanceID {
	return cloud.InstanceID(string(pool) + instancesPart + strings.ToLower(id))
}

func versionID(family cloud.ImageFamily, version string) string {
	return lineID(family) + versionsPart + version
}

// SameInstance ignores case, as Azure does.
func (c *ImageProvider) SameInstance(a, b cloud.InstanceID) bool {
	return sameInstance(a, b)
}

func sameInstance(a, b cloud.InstanceID) bool { return strings.EqualFold(string(a), string(b)) }

// familyOf returns the image family of a pool. The IDs of the versions begin with the pool's ID.
func familyOf(id cloud.PoolID) cloud.ImageFamily {
	return cloud.ImageFamily{Place: poolPrefix, Name: strings.TrimPrefix(strings.ToLower(string(id)), poolPrefix)}
}

func lineID(family cloud.ImageFamily) string { return family.Place + family.Name }

// machinePrefix begins the IDs of instances without a pool in the ID.
const machinePrefix = "memory:///machines/"

// isInstance reports whether an ID has the form of an instance ID of this cloud.
func isInstance(id cloud.InstanceID) bool {
	if name, ok := strings.CutPrefix(strings.ToLower(string(id)), machinePrefix); ok {
		return name != "" && !strings.Contains(name, "/")
	}
	_, ok := poolIn(id)
	return ok || isApart(id)
}

// poolIn returns the pool of memory:///pools/POOL/instances/ID.
func poolIn(id cloud.InstanceID) (cloud.PoolID, bool) {
	rest, ok := strings.CutPrefix(strings.ToLower(string(id)), poolPrefix)
	if !ok {
		return "", false
	}
	name, instance, found := strings.Cut(rest, instancesPart)
	return poolID(name), found && name != "" && instance != "" && !strings.Contains(name+instance, "/")
}

// PoolsOf returns the pools of memory:///pools/POOL/instances/ID.
func (c *PoolProvider) PoolsOf(ctx context.Context, nodes []cloud.NodeValues) ([]cloud.Membership, error) {
	defer c.enter()()
	if err := c.admit(ctx, opPoolsOf, ""); err != nil {
		return nil, err
	}
	found := make([]cloud.Membership, len(nodes))
	for i, node := range nodes {
		pool, err := c.PoolOf(node.ProviderID)
		var none *cloud.Error
		if errors.As(err, &none) {
			found[i].Why = none.Message
			continue
		}
		found[i].Pool = pool
	}
	return found, nil
}

// PoolOf returns the pool of one instance, for tests.
func (c *pools) PoolOf(id cloud.InstanceID) (cloud.PoolID, error) {
	if pool, ok := poolIn(id); ok {
		return pool, nil
	}
	if isApart(id) {
		return "", refused(cloud.Unsupported, opPoolsOf, string(id), "Trial", "the instance is a trial node or a workshop, and belongs to no pool")
	}
	message := "not an instance of a pool in this cloud; choose a node with a providerID like " +
		poolPrefix + "POOL" + instancesPart + "ID"
	return "", refused(cloud.Unsupported, opPoolsOf, string(id), "ForeignInstance", message)
}

// PoolName returns the last part of the ID.
func (c *PoolProvider) PoolName(id cloud.PoolID) string {
	return strings.TrimPrefix(strings.ToLower(string(id)), poolPrefix)
}

// number is a version as the cloud compares it: three numbers. 2026.9.30 is before 2026.10.01, and 2026.01.09 equals
// 2026.1.9.
type number [3]int32

func parseVersion(version string) (number, bool) {
	var n number
	parts := strings.Split(version, ".")
	if len(parts) != len(n) {
		return n, false
	}
	for i, part := range parts {
		v, err := strconv.ParseInt(part, 10, 32)
		if err != nil || v < 0 || part[0] == '+' || part[0] == '-' {
			return n, false
		}
		n[i] = int32(v)
	}
	return n, true
}
