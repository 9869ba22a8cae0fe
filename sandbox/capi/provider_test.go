package capi_test

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	kubefake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	sandbox "github.com/kamino-dev/kamino/sandbox/capi"
	simulation "github.com/kamino-dev/kamino/sandbox/region"
)

// newAmazonAlone starts the simulated AWS without the controllers of Cluster API.
func newAmazonAlone(t *testing.T) *amazon {
	t.Helper()
	a, err := newAmazon(t.Context(), t.TempDir(), kubefake.NewClientBuilder().Build())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	return a
}

// specOf is the spec of a machine, or of a launch template, with a root volume of a size in GiB.
func specOf(size int64) map[string]any {
	return map[string]any{"instanceType": "m6i.large", "ami": map[string]any{"id": amazonImage}, "rootVolume": map[string]any{"size": size}}
}

// TestHooksOfGroup: the provider deletes lifecycle hooks that its object does not have, and writes the hooks of its object.
func TestHooksOfGroup(t *testing.T) {
	t.Parallel()
	a := newAmazonAlone(t)
	groups, name := simulation.NewGroups(a.ec2, a.scaling, amazonSubnet, "home"), sdk.String("workers")
	pool := sandbox.Machine{Name: *name, Spec: map[string]any{"minSize": int64(0), "maxSize": int64(3), "awsLaunchTemplate": specOf(100)}}
	if err := groups.Publish(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if err := groups.Create(t.Context(), pool, 0); err != nil {
		t.Fatal(err)
	}
	const launching = "autoscaling:EC2_INSTANCE_LAUNCHING"
	_, err := a.scaling.PutLifecycleHook(t.Context(),
		&autoscaling.PutLifecycleHookInput{AutoScalingGroupName: name, LifecycleHookName: sdk.String("by-hand"), LifecycleTransition: sdk.String(launching)})
	if err != nil {
		t.Fatal(err)
	}
	for want, hooks := range map[string][]any{
		"": nil,
		"of-the-object 1m CONTINUE": {map[string]any{"name": "of-the-object", "lifecycleTransition": launching, "heartbeatTimeout": "1m0s",
			"defaultResult": "CONTINUE"}},
	} {
		pool.Spec["lifecycleHooks"] = hooks
		if _, err := groups.Get(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		out, err := a.scaling.DescribeLifecycleHooks(t.Context(), &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: name})
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, h := range out.LifecycleHooks {
			have = append(have, fmt.Sprintf("%s %dm %s", *h.LifecycleHookName, *h.HeartbeatTimeout/60, *h.DefaultResult))
		}
		if got := strings.Join(have, ", "); got != want {
			t.Errorf("the group has the hooks %q, want %q", got, want)
		}
	}
}

// TestRootVolumeOfProvider: the provider gives a machine the root volume of its spec, and refuses a size below the image's disk.
func TestRootVolumeOfProvider(t *testing.T) {
	t.Parallel()
	a := newAmazonAlone(t)
	maker, groups := simulation.NewMaker(a.ec2, "home"), simulation.NewGroups(a.ec2, a.scaling, amazonSubnet, "home")
	_, _, err := maker.Ensure(t.Context(), sandbox.Machine{Name: "small", Spec: specOf(1)})
	const refused = "root volume size (1) must be greater than or equal to snapshot size ("
	if err == nil || !strings.HasPrefix(err.Error(), "failed to create AWSMachine instance: "+refused) {
		t.Errorf("a machine: %v", err)
	}
	err = groups.Publish(t.Context(), sandbox.Machine{Name: "workers", Spec: map[string]any{"awsLaunchTemplate": specOf(1)}})
	if err == nil || !strings.HasPrefix(err.Error(), refused) {
		t.Errorf("a group: %v", err)
	}
	id, _, err := maker.Ensure(t.Context(), sandbox.Machine{Name: "large", Spec: specOf(100)})
	if err != nil {
		t.Fatal(err)
	}
	of := []ec2types.Filter{{Name: sdk.String("attachment.instance-id"), Values: []string{path.Base(id)}}}
	out, err := a.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{Filters: of})
	if err != nil || len(out.Volumes) != 1 || *out.Volumes[0].Size != 100 {
		t.Errorf("the volumes are %+v, %v", out, err)
	}
}

// TestLostAnswerOfProvider: the provider sends no client token of its own. A repeated request makes a second instance while EC2
// does not show the first one, and finds the first one by name afterwards.
func TestLostAnswerOfProvider(t *testing.T) {
	t.Parallel()
	a := newAmazonAlone(t)
	maker, m := simulation.NewMaker(a.ec2, "home"), sandbox.Machine{Name: "one", UID: "u", Spec: specOf(100)}
	ensure := func() string {
		t.Helper()
		id, _, err := maker.Ensure(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := ensure()
	if again := ensure(); again != first {
		t.Errorf("EC2 shows %s, and the provider made %s", first, again)
	}
	if err := a.server.SetLag(1000 * time.Hour); err != nil {
		t.Fatal(err)
	}
	m.Name, m.UID = "two", "v"
	if first, second := ensure(), ensure(); first == second {
		t.Errorf("EC2 does not show %s, and the provider made no second instance", first)
	}
}
