package aws

import (
	"slices"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	scaling "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

func reasons(refusals []cloud.Refusal) []string {
	var out []string
	for _, r := range refusals {
		if r.Remedy == "" {
			out = append(out, "without a remedy:")
		}
		out = append(out, r.Reason)
	}
	return out
}

func TestInstanceRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		m    types.Instance
		want []string
	}{
		"one of today's": {types.Instance{RootDeviceType: types.DeviceTypeEbs}, nil},
		"spot":           {types.Instance{InstanceLifecycle: types.InstanceLifecycleTypeSpot}, []string{cloud.StopTerminates}},
		"scheduled":      {types.Instance{InstanceLifecycle: types.InstanceLifecycleTypeScheduled}, nil},
		"its root goes":  {types.Instance{RootDeviceType: types.DeviceTypeInstanceStore}, []string{cloud.DiskUnsupported}},
		"Windows":        {types.Instance{Platform: types.PlatformValuesWindows}, []string{cloud.SystemUnsupported}},
		"of a product": {types.Instance{ProductCodes: []types.ProductCode{{ProductCodeId: sdk.String("p"),
			ProductCodeType: types.ProductCodeValuesMarketplace}}}, nil},
		"of a free code": {types.Instance{ProductCodes: []types.ProductCode{{ProductCodeId: sdk.String("p"),
			ProductCodeType: types.ProductCodeValuesDevpay}}}, nil},
		"all that can be": {types.Instance{InstanceLifecycle: types.InstanceLifecycleTypeSpot, RootDeviceType: types.DeviceTypeInstanceStore},
			[]string{cloud.StopTerminates, cloud.DiskUnsupported}},
	} {
		if got := reasons(refusalsOf(instance{id: "i-1"}, test.m)); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestForeignGroups: the owner of a group is reported once, from the tags and from AWS itself.
func TestForeignGroups(t *testing.T) {
	good := recipe{spec: &scaling.LaunchTemplateSpecification{}, data: &types.ResponseLaunchTemplateData{ImageId: sdk.String("ami-1")}}
	tagged := func(key string) func(*recipe) {
		return func(r *recipe) { r.group.Tags = []scaling.TagDescription{{Key: sdk.String(key)}} }
	}
	for name, test := range map[string]struct {
		change func(*recipe)
		want   []string
	}{
		"no owner":           {func(*recipe) {}, nil},
		"an operator's":      {func(r *recipe) { r.group.Operator = &scaling.Operator{Principal: sdk.String("x.amazonaws.com")} }, []string{cloud.ManagedElsewhere}},
		"its template is":    {func(r *recipe) { r.operator = "x.amazonaws.com" }, []string{cloud.ManagedElsewhere}},
		"EKS's":              {tagged("eks:nodegroup-name"), []string{cloud.ManagedElsewhere}},
		"EKS's, as operator": {func(r *recipe) { tagged("eks:nodegroup-name")(r); r.operator = "eks.amazonaws.com" }, []string{cloud.ManagedElsewhere}},
		"a tag that begins like one that is compared whole": {tagged("eks:nodegroup-name-of-mine"), nil},
		"Cluster API's":    {tagged("sigs.k8s.io/cluster-api-provider-aws/cluster/c"), []string{cloud.ManagedElsewhere}},
		"being deleted":    {func(r *recipe) { r.group.Status = sdk.String("Delete in progress") }, []string{cloud.PoolBeingDeleted}},
		"without an image": {func(r *recipe) { r.data = &types.ResponseLaunchTemplateData{} }, []string{cloud.TemplateUnsuitable}},
	} {
		r := good
		test.change(&r)
		if got := reasons(refusalsOfGroup(group{name: "workers"}, r)); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func pinnedTo(version string) *scaling.LaunchTemplateSpecification {
	return &scaling.LaunchTemplateSpecification{Version: sdk.String(version)}
}

// TestGroupWarnings: warnings do not prevent a capture.
func TestGroupWarnings(t *testing.T) {
	const day = 24 * 60 * 60
	mapping := func(rate *int32) []types.LaunchTemplateBlockDeviceMapping {
		return []types.LaunchTemplateBlockDeviceMapping{{DeviceName: sdk.String("/dev/sdb"), VirtualName: sdk.String("ephemeral0")},
			{DeviceName: sdk.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDevice{VolumeInitializationRate: rate}}}
	}
	for name, test := range map[string]struct {
		change func(*recipe)
		own    bool
		want   []string
	}{
		"nothing":                 {func(*recipe) {}, false, nil},
		"a version of its own":    {func(*recipe) {}, true, []string{"VolumesLoadLazily"}},
		"a volume without a rate": {func(r *recipe) { r.data.BlockDeviceMappings = mapping(nil) }, true, []string{"VolumesLoadLazily"}},
		"a rate":                  {func(r *recipe) { r.data.BlockDeviceMappings = mapping(sdk.Int32(200)) }, true, nil},
		"no template":             {func(r *recipe) { r.data = nil }, true, nil},
		"a week of life":          {func(r *recipe) { r.group.MaxInstanceLifetime = sdk.Int32(7 * day) }, false, []string{"MaxInstanceLifetime"}},
		"no end of life":          {func(r *recipe) { r.group.MaxInstanceLifetime = sdk.Int32(0) }, false, nil},
		"a stack": {func(r *recipe) {
			r.group.Tags = []scaling.TagDescription{{Key: sdk.String("aws:cloudformation:stack-name"), Value: sdk.String("nodes")}}
		}, false, []string{"StackOwnsGroup"}},
		"a tag of Terraform": {func(r *recipe) {
			r.group.Tags = []scaling.TagDescription{{Key: sdk.String("managed-by"), Value: sdk.String("Terraform")}}
		}, false, []string{"TerraformManaged"}},
		"the default version by its number": {func(r *recipe) { r.number, r.isDefault, r.spec = 2, true, pinnedTo("2") }, false, []string{"TerraformManaged"}},
		"the first version by its number":   {func(r *recipe) { r.number, r.isDefault, r.spec = 1, true, pinnedTo("1") }, false, nil},
		"a later version by its number":     {func(r *recipe) { r.number, r.spec = 3, pinnedTo("3") }, false, nil},
		"the default version by its name":   {func(r *recipe) { r.number, r.isDefault, r.spec = 2, true, pinnedTo("$Default") }, false, nil},
	} {
		r := recipe{spec: &scaling.LaunchTemplateSpecification{}, data: &types.ResponseLaunchTemplateData{ImageId: sdk.String("ami-1")}}
		test.change(&r)
		if got := reasons(r.cautions(group{name: "workers"}, test.own)); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestTrialFailures: the state reason of a terminated instance shows whether the image, the cloud or neither is the
// cause.
func TestTrialFailures(t *testing.T) {
	ended := func(code string, tags ...types.Tag) types.Instance {
		return types.Instance{State: &types.InstanceState{Name: types.InstanceStateNameTerminated},
			StateReason: &types.StateReason{Code: sdk.String(code), Message: sdk.String(code + ": why")}, Tags: tags}
	}
	for name, test := range map[string]struct {
		m    types.Instance
		want cloud.Trial
	}{
		"no room": {ended("Server.InsufficientInstanceCapacity"),
			cloud.Trial{State: cloud.Failed, Trouble: "Server.InsufficientInstanceCapacity: why", LacksCapacity: true}},
		"too many volumes": {ended("Client.VolumeLimitExceeded"),
			cloud.Trial{State: cloud.Failed, Trouble: "Client.VolumeLimitExceeded: why", LacksCapacity: true}},
		"its snapshot is gone": {ended("Client.InvalidSnapshot.NotFound"),
			cloud.Trial{State: cloud.Failed, Trouble: "Client.InvalidSnapshot.NotFound: why", BlamesImage: true}},
		"of itself":   {ended("Server.InternalError"), cloud.Trial{State: cloud.Failed, Trouble: "Server.InternalError: why"}},
		"by a person": {ended("Client.UserInitiatedShutdown"), cloud.Trial{State: cloud.Failed}},
		"by Kamino":   {ended("Client.UserInitiatedShutdown", types.Tag{Key: sdk.String(tagEnding), Value: sdk.String("true")}), cloud.Trial{}},
	} {
		if got := trialFrom(test.m, cloud.Instance{}); got.State != test.want.State || got.Trouble != test.want.Trouble ||
			got.LacksCapacity != test.want.LacksCapacity || got.BlamesImage != test.want.BlamesImage {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestTokens(t *testing.T) {
	for _, lifecycle := range []scaling.LifecycleState{scaling.LifecycleStateInService, scaling.LifecycleStateStandby} {
		for _, protected := range []bool{false, true} {
			now := groupState{lifecycle: string(lifecycle), protected: protected}
			back, err := readToken("", "", now.token())
			if err != nil || back.standby() != now.standby() || back.protected != protected {
				t.Errorf("%+v gives %q, which is read as %+v, %v", now, now.token(), back, err)
			}
		}
	}
	for _, strange := range []string{"", "standby,", "protected,standby", "Standby"} {
		if _, err := readToken("", "", strange); !cloud.Is(err, cloud.Invalid) {
			t.Errorf("%q: %v", strange, err)
		}
	}
}

// TestGroupsOfClusterAPI: recipes of Cluster API need fewer permissions on a group. The tag of Cluster API is no
// obstacle, and all other owners are.
func TestGroupsOfClusterAPI(t *testing.T) {
	tagged := func(key string) scaling.AutoScalingGroup {
		return scaling.AutoScalingGroup{Tags: []scaling.TagDescription{{Key: sdk.String(key)}}}
	}
	const capa, eks = "sigs.k8s.io/cluster-api-provider-aws/cluster/prod", "eks:nodegroup-name"
	for _, test := range []struct {
		key  string
		capa bool
		want bool
	}{{capa, false, true}, {capa, true, false}, {eks, false, true}, {eks, true, true}} {
		found := refusalsOfGroup(group{name: "workers"}, recipe{group: tagged(test.key), capa: test.capa})
		got := slices.Contains(reasons(found), cloud.ManagedElsewhere)
		if got != test.want {
			t.Errorf("%s, beside Cluster API %t: %+v", test.key, test.capa, found)
		}
	}
	for _, capa := range []bool{true, false} {
		if got := slices.ContainsFunc(onGroup(capa), func(n need) bool { return n.action == updateAction }); got == capa {
			t.Errorf("beside Cluster API %t, %s is asked for: %t", capa, updateAction, got)
		}
	}
}
