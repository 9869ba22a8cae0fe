package karpenter

import (
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// ofKarpenter are the values of a Node that Karpenter registered.
func ofKarpenter(id string) cloud.NodeValues {
	return cloud.NodeValues{ProviderID: cloud.InstanceID(id), Labels: map[string]string{labelPool: "x", coreGroup + "/registered": "true"}}
}

// TestMembers: the NodeClaim decides the pool of a node, whatever its labels say.
func TestMembers(t *testing.T) {
	e := newTestEnv(t, guarded)
	const one, two, none = "aws:///eu-central-1a/i-00000000000000001", "aws:///eu-central-1a/i-00000000000000002", "aws:///eu-central-1a/i-00000000000000003"
	e.claim("one", one, stock)
	e.claim("two", two, "ami-"+digest("v1"))
	found, err := e.PoolsOf(t.Context(), []cloud.NodeValues{ofKarpenter(two), ofKarpenter(none), ofKarpenter(one)})
	e.must(err)
	if found[0].Pool != e.id || found[2].Pool != e.id || found[1].Pool != "" || !strings.Contains(found[1].Why, "no NodeClaim has its spec.providerID") {
		t.Errorf("the pools are %+v", found)
	}
	all, err := e.Instances(t.Context(), e.id)
	e.must(err)
	images := map[cloud.InstanceID]string{}
	for _, i := range all {
		images[i.ID] = i.Image
		if i.Type != "m6i.large" || i.Zone != "eu-central-1a" || i.Recipe == "" {
			t.Errorf("instance %+v", i)
		}
	}
	if len(images) != 2 || images[one] != stock || images[two] != region+"/v1" {
		t.Errorf("the images are %v", images)
	}
	pool, err := e.Pool(t.Context(), e.id)
	e.must(err)
	if pool.Capacity != 2 || pool.Recipe.Image != stock || pool.Location != region || pool.InstanceType != "m6i.large" || pool.RootDiskGB != defaultRootGB ||
		pool.Family.Place != region || len(pool.Refusals) > 0 {
		t.Errorf("the pool is %+v", pool)
	}
	refusals, err := e.PreflightRecipe(t.Context(), cloud.PreflightSpec{Pool: e.id, Instance: one})
	e.must(err)
	if len(refusals) != 1 || refusals[0].Reason != cloud.StopTerminates {
		t.Errorf("a capture in place: %+v", refusals)
	}
	if refusals, err = e.PreflightRecipe(t.Context(), cloud.PreflightSpec{Pool: e.id, Instance: one, Copies: true}); err != nil || len(refusals) > 0 {
		t.Errorf("a capture by copy: %+v, %v", refusals, err)
	}
	if refusals, err = e.PreflightRecipe(t.Context(), cloud.PreflightSpec{Pool: e.id, Instance: none, Copies: true}); err != nil || refused(refusals, reasonElsewhere) == nil {
		t.Errorf("an instance without a NodeClaim: %+v, %v", refusals, err)
	}
}

// TestRefusals: each property of class or NodePool that an image would break is refused, in one sentence.
func TestRefusals(t *testing.T) {
	byID := `"amiSelectorTerms":[{"id":"ami-0123456789abcdef0"}],"amiFamily":`
	for name, c := range map[string]struct {
		class, pool, reason, says string
	}{
		"bottlerocket": {class: `{"amiSelectorTerms":[{"alias":"bottlerocket@latest"}]}`, reason: cloud.SystemUnsupported, says: "has the AMI family Bottlerocket"},
		"windows":      {class: `{` + byID + `"Windows2022"}`, reason: cloud.SystemUnsupported, says: "has the AMI family Windows2022"},
		"raid0":        {class: `{"instanceStorePolicy":"RAID0"}`, reason: cloud.DiskUnsupported, says: "has the instanceStorePolicy RAID0"},
		"gpu": {pool: `[{"key":"kubernetes.io/arch","operator":"In","values":["amd64"]},{"key":"karpenter.k8s.aws/instance-category","operator":"In","values":["g","m"]}]`,
			reason: cloud.PoolUnsupported, says: "alias al2023@v20260101 of EC2NodeClass"},
		"any-type":           {pool: `[{"key":"kubernetes.io/arch","operator":"In","values":["amd64"]}]`, reason: cloud.PoolUnsupported, says: "gives GPU and Neuron types images with drivers"},
		"several":            {pool: `[{"key":"karpenter.k8s.aws/instance-category","operator":"In","values":["m"]}]`, reason: cloud.PoolUnsupported, says: "may launch amd64 and arm64"},
		"types-without-gpus": {pool: `[{"key":"kubernetes.io/arch","operator":"NotIn","values":["arm64"]},{"key":"node.kubernetes.io/instance-type","operator":"In","values":["m6i.large"]}]`},
		"gpu-of-one-image": {class: `{` + byID + `"AL2023"}`,
			pool: `[{"key":"kubernetes.io/arch","operator":"In","values":["amd64"]},{"key":"node.kubernetes.io/instance-type","operator":"In","values":["g5.xlarge"]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestEnv(t, guarded)
			if c.class != "" {
				e.merge(classes, e.class, `{"spec":`+c.class+`}`)
			}
			if c.pool != "" {
				e.merge(pools, e.class+"-free", `{"spec":{"template":{"spec":{"requirements":`+c.pool+`}}}}`)
			}
			pool, err := e.Pool(t.Context(), e.id)
			e.must(err)
			if c.reason == "" {
				if len(pool.Refusals) > 0 {
					t.Errorf("refused: %+v", pool.Refusals)
				}
				return
			}
			if is := refused(pool.Refusals, c.reason); is == nil || len(pool.Refusals) != 1 || !strings.Contains(is.Message, c.says) {
				t.Errorf("the refusals are %+v, want %s with %q", pool.Refusals, c.reason, c.says)
			}
		})
	}
}

// TestRootSize: the root volume of new nodes is that of the mappings.
func TestRootSize(t *testing.T) {
	e := newTestEnv(t, guarded)
	e.merge(classes, e.class, `{"spec":{"blockDeviceMappings":[{"deviceName":"/dev/xvdb","ebs":{"volumeSize":"300Gi"}},{"deviceName":"/dev/xvda","ebs":{"volumeSize":"80Gi"}}]}}`)
	pool, err := e.Pool(t.Context(), e.id)
	e.must(err)
	if pool.RootDiskGB != 80 {
		t.Errorf("the root volume has %d GiB, want 80", pool.RootDiskGB)
	}
}

// TestBeside: a node of Karpenter is one of its class, and other nodes are of their groups. Without a node of Karpenter, no request is sent.
func TestBeside(t *testing.T) {
	e := newTestEnv(t, guarded)
	const id = "aws:///eu-central-1a/i-00000000000000001"
	e.claim("one", id, stock)
	b := &beside{cloud.PoolProvider{Pools: groups{}}, e.PoolProvider}
	group := cloud.NodeValues{ProviderID: "aws:///eu-central-1a/i-00000000000000009"}
	found, err := b.PoolsOf(t.Context(), []cloud.NodeValues{group})
	if err != nil || found[0].Why != "of groups" || e.PoolProvider.objects != nil {
		t.Errorf("a cluster without Karpenter: %+v, %v, connected %t", found, err, e.PoolProvider.objects != nil)
	}
	found, err = b.PoolsOf(t.Context(), []cloud.NodeValues{group, ofKarpenter(id), group})
	e.must(err)
	if found[0].Why != "of groups" || found[1].Pool != e.id || found[2].Why != "of groups" {
		t.Errorf("the pools are %+v", found)
	}
	pool, err := b.Pool(t.Context(), e.id)
	e.must(err)
	if len(pool.Refusals) > 0 {
		t.Errorf("the refusals are %+v", pool.Refusals)
	}
	e.must(b.SetRecipe(t.Context(), e.changeTo("v1")))
	if pool, err = b.Pool(t.Context(), e.id); err != nil || pool.Recipe.Image != region+"/v1" {
		t.Errorf("the recipe is %+v, %v", pool.Recipe, err)
	}
}
