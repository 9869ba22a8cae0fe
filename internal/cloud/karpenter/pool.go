package karpenter

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// view is a read of a pool: the class and its NodePools.
type view struct {
	raw   *unstructured.Unstructured
	class nodeClass
	pools []nodePool
	// region of the instances and images; empty before Karpenter has found the subnets.
	region string
	// native is the image's ID, and image its text as in recipes; empty without an image.
	native, image string
}

func (v view) name() string       { return v.class.Metadata.Name }
func (v view) pool() cloud.PoolID { return poolOf(v.name()) }
func (v view) String() string     { return kindClass + " " + v.name() }

// view reads a pool: the class, the NodePools and the name of the image.
func (r *access) view(ctx context.Context, id cloud.PoolID) (v view, err error) {
	name, err := parsePool(id)
	if err != nil {
		return v, err
	}
	if v.raw, err = r.get(ctx, classes, name); err != nil {
		return v, err
	}
	if v.class, err = as[nodeClass](v.raw); err != nil {
		return v, err
	}
	if v.pools, err = r.poolsOfClass(ctx, name); err != nil {
		return v, err
	}
	v.region = v.class.region()
	if v.native = v.class.imageFor(v.architectures()); v.native != "" && v.region != "" {
		v.image, err = r.images.ImageText(ctx, v.region, v.native)
	}
	return v, err
}

// poolsOfClass returns the NodePools that name a class, by name.
func (r *access) poolsOfClass(ctx context.Context, class string) (found []nodePool, err error) {
	all, err := r.list(ctx, pools)
	if err != nil {
		return nil, err
	}
	for i := range all {
		p, err := as[nodePool](&all[i])
		if err != nil {
			return nil, err
		}
		if p.raw = &all[i]; p.Spec.Template.Spec.isOf(class) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b nodePool) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	return found, nil
}

// zoneRegion is the region at the beginning of a zone's name, also of a Local Zone.
var zoneRegion = regexp.MustCompile(`^[a-z]+(?:-[a-z]+)+-[0-9]+`)

// region returns the region of the class's subnets.
func (c nodeClass) region() string {
	for _, s := range c.Status.Subnets {
		if region := zoneRegion.FindString(s.Zone); region != "" {
			return region
		}
	}
	return ""
}

// imageFor returns the AMI of machines without accelerators, of the only architecture. Karpenter resolves all terms but an ID.
func (c nodeClass) imageFor(architectures []string) string {
	if id := c.onlyTerm().ID; id != "" {
		return id
	}
	for _, ami := range c.Status.AMIs {
		fits := !slices.ContainsFunc(ami.Requirements, func(r requirement) bool {
			other := r.Key == labelArch && len(architectures) == 1 && !slices.Contains(r.Values, architectures[0])
			return other || r.Operator == "Exists" // of a variant for accelerators
		})
		if fits {
			return ami.ID
		}
	}
	return ""
}

// onlyTerm returns the term of a class with a single one.
func (c nodeClass) onlyTerm() term {
	if len(c.Spec.AMISelectorTerms) != 1 {
		return term{}
	}
	return c.Spec.AMISelectorTerms[0]
}

// alias returns the alias of the terms, such as al2023@latest; empty without an alias. An alias excludes other terms.
func (c nodeClass) alias() string { return c.onlyTerm().Alias }

// family returns the AMI family, which an alias has as its beginning.
func (c nodeClass) family() string {
	if c.Spec.AMIFamily != "" {
		return c.Spec.AMIFamily
	}
	name, _, _ := strings.Cut(c.alias(), "@")
	for _, family := range []string{"AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", "Windows2025"} {
		if strings.EqualFold(family, name) {
			return family
		}
	}
	return name
}

// architectures returns the architectures that the NodePools may launch. A NodePool without a requirement may launch both.
func (v view) architectures() (found []string) {
	for _, p := range v.pools {
		of := []string{"amd64", "arm64"}
		for _, r := range p.Spec.Template.Spec.Requirements {
			if r.Key == labelArch {
				of = slices.DeleteFunc(of, func(a string) bool { return !r.allows(a) })
			}
		}
		found = append(found, of...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// allows reports whether a value satisfies the requirement.
func (r requirement) allows(value string) bool {
	switch r.Operator {
	case "In":
		return slices.Contains(r.Values, value)
	case "NotIn":
		return !slices.Contains(r.Values, value)
	case "DoesNotExist":
		return false
	}
	return true
}

// types returns the instance types that the NodePools name; nil if one of them names none.
func (v view) types() (found []string) {
	for _, p := range v.pools {
		at := slices.IndexFunc(p.Spec.Template.Spec.Requirements, func(r requirement) bool { return r.Key == labelType && r.Operator == "In" })
		if at < 0 {
			return nil
		}
		found = append(found, p.Spec.Template.Spec.Requirements[at].Values...)
	}
	return found
}

// defaultRootGB is the size of the root volume of the families of Amazon Linux, in GiB. Source: Karpenter, pkg/providers/amifamily.
const defaultRootGB = 20

// rootGB returns the size of the root volume that new nodes get, in GiB; 0 if the image decides.
func (c nodeClass) rootGB() int32 {
	if len(c.Spec.Devices) == 0 {
		if f := c.family(); f == "AL2" || f == "AL2023" {
			return defaultRootGB
		}
		return 0
	}
	root := slices.IndexFunc(c.Spec.Devices, func(d blockDevice) bool { return d.RootVolume })
	if root < 0 {
		root = slices.IndexFunc(c.Spec.Devices, func(d blockDevice) bool { return d.DeviceName == "/dev/xvda" || d.DeviceName == "/dev/sda1" })
	}
	if root < 0 || c.Spec.Devices[root].EBS.VolumeSize == nil {
		return 0
	}
	return int32(min(c.Spec.Devices[root].EBS.VolumeSize.Value()>>30, 1<<30)) //nolint:gosec // bounded
}

// PoolName implements cloud.PoolProvider.
func (r *PoolProvider) PoolName(id cloud.PoolID) string {
	name, err := parsePool(id)
	if err != nil {
		return string(id)
	}
	return name
}

// Family implements cloud.PoolProvider.
func (r *PoolProvider) Family(ctx context.Context, id cloud.PoolID) (cloud.ImageFamily, error) {
	name, err := parsePool(id)
	if err != nil {
		return cloud.ImageFamily{}, err
	}
	o, err := r.get(ctx, classes, name)
	if err != nil {
		return cloud.ImageFamily{}, err
	}
	class, err := as[nodeClass](o)
	if err != nil {
		return cloud.ImageFamily{}, err
	}
	if class.region() == "" {
		return cloud.ImageFamily{}, &cloud.Error{Kind: cloud.Unavailable, Op: opRead, Resource: nameOf(o),
			Message: "Karpenter has not found the subnets of the class, so the region is unknown: check the condition SubnetsReady"}
	}
	return r.familyIn(ctx, class.region(), name)
}

// familyIn returns the image family of a class. Classes of several clusters of an account have equal names.
func (r *access) familyIn(ctx context.Context, region, class string) (cloud.ImageFamily, error) {
	cluster, err := r.clusterUID(ctx)
	return cloud.ImageFamily{Place: region, Name: "karpenter-" + digest(string(cluster)) + "-" + class}, err
}

// Pool implements cloud.PoolProvider. Capacity is the number of NodeClaims: the pool has no size.
func (r *PoolProvider) Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error) {
	ctx = cloud.EnsureReadCache(ctx)
	v, err := r.view(ctx, id)
	if err != nil {
		return cloud.Pool{}, err
	}
	all, err := r.claimsOf(ctx, v.name())
	if err != nil {
		return cloud.Pool{}, err
	}
	pool := cloud.Pool{
		ID: v.pool(), Name: v.name(), Location: v.region, Capacity: int64(len(all)), RootDiskGB: v.class.rootGB(), InstanceType: r.usualType(v, all),
		RootDisks: cloud.RootDisks(v.types()...), Recipe: cloud.Recipe{Image: v.image, Bootstrap: []string{userData.String()}},
		Owner: v.owner(), Refusals: v.refusals(), Cautions: v.cautions(),
	}
	if v.region != "" {
		pool.Family, err = r.familyIn(ctx, v.region, v.name())
	}
	return pool, err
}

// usualType returns the type of most of the pool's instances, else the first that a NodePool names; empty if unknown.
func (r *access) usualType(v view, all []nodeClaim) string {
	var kinds []string
	for _, c := range all {
		kinds = append(kinds, c.Metadata.Labels[labelType])
	}
	if len(kinds) == 0 {
		kinds = v.types()
	}
	return cloud.MostFrequent(kinds)
}

// userData is the part of the recipe with which new nodes join. Karpenter makes it for each launch.
var userData = cloud.RecipeField{Kind: cloud.CustomData}

// parameter returns the parameter of the Systems Manager that names the image; empty without one.
func (c nodeClass) parameter() string { return c.onlyTerm().SSMParameter }

// owner names who sets the image if the class reads it from a parameter: GitOps then finds nothing to revert in the class.
func (v view) owner() string {
	if v.class.parameter() == "" {
		return ""
	}
	return "parameter " + v.class.parameter()
}
