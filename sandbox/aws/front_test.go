package aws

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// send sends an unsigned query without the SDK, and returns the response.
func (c *testCloud) send(t *testing.T, query string) (int, string) {
	t.Helper()
	form, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.web.Client().PostForm(c.web.URL, form)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestAuthentication(t *testing.T) {
	c := newCloud(t, nil)
	good := c.ec2
	who := ok(c.sts.GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{}))(t)
	if *who.Account != testAccount || *who.Arn != "arn:aws:iam::"+testAccount+":user/kamino" {
		t.Errorf("caller is %s of %s", *who.Arn, *who.Account)
	}
	c.use(credentials.NewStaticCredentialsProvider(testKey, "guessed", ""))
	_, err := c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	wantCode(t, err, http.StatusUnauthorized, "AuthFailure")
	_, err = c.asg.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
	wantCode(t, err, http.StatusForbidden, "SignatureDoesNotMatch")
	_, err = c.sts.GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	wantCode(t, err, http.StatusForbidden, "SignatureDoesNotMatch")
	c.use(credentials.NewStaticCredentialsProvider("AKIANOBODY", "x", ""))
	_, err = c.asg.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
	wantCode(t, err, http.StatusForbidden, "InvalidClientTokenId")
	if status, body := c.send(t, "Action=DescribeInstances&Version=2016-11-15"); status != refused ||
		!strings.Contains(body, "<Code>MissingAuthenticationToken</Code>") {
		t.Errorf("unsigned: %d %s", status, body)
	}
	if status, body := c.send(t, "Action=DescribeAutoScalingGroups&Version=2011-01-01"); status != http.StatusForbidden ||
		!strings.Contains(body, "<ErrorResponse xmlns=") {
		t.Errorf("unsigned: %d %s", status, body)
	}
	_, err = good.DescribeVpnGateways(t.Context(), &ec2.DescribeVpnGatewaysInput{})
	wantCode(t, err, refused, "InvalidAction")
}

func TestSessionsOfARole(t *testing.T) {
	c := newCloud(t, nil)
	assume := &sts.AssumeRoleInput{RoleArn: sdk.String("arn:aws:iam::" + testAccount + ":role/node"), RoleSessionName: sdk.String("test")}
	out := ok(c.sts.AssumeRole(t.Context(), assume))(t)
	_, err := c.sts.AssumeRole(t.Context(), &sts.AssumeRoleInput{RoleArn: sdk.String("arn:aws:iam::1:role/other"), RoleSessionName: sdk.String("test")})
	wantCode(t, err, http.StatusForbidden, "AccessDenied")
	assume.DurationSeconds = sdk.Int32(1)
	_, err = c.sts.AssumeRole(t.Context(), assume)
	wantCode(t, err, refused, "ValidationError")
	k := out.Credentials
	c.use(credentials.NewStaticCredentialsProvider(*k.AccessKeyId, *k.SecretAccessKey, *k.SessionToken))
	if who := ok(c.sts.GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{}))(t); *who.Arn != "arn:aws:sts::"+testAccount+":assumed-role/node/test" {
		t.Errorf("caller is %s", *who.Arn)
	}
	ok(c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{}))(t)
	if err := c.ExpireSessions(); err != nil {
		t.Fatal(err)
	}
	_, err = c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	wantCode(t, err, refused, "RequestExpired")
	_, err = c.asg.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
	wantCode(t, err, http.StatusForbidden, "ExpiredToken")
	c.use(credentials.NewStaticCredentialsProvider(*k.AccessKeyId, *k.SecretAccessKey, "another token"))
	_, err = c.sts.GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	wantCode(t, err, http.StatusForbidden, "InvalidClientTokenId")
}

func TestDeniedActions(t *testing.T) {
	c := newCloud(t, nil)
	c.group(t, 2, nil)
	id := *c.currentGroup(t).Instances[0].InstanceId
	deny := func(action, by string) {
		if _, err := c.AddFault(fault.Fault{Name: action, Deny: action, Code: by}); err != nil {
			t.Fatal(err)
		}
	}
	deny("ec2:StopInstances", "scp")
	deny("autoscaling:EnterStandby", "")
	stop := &ec2.StopInstancesInput{InstanceIds: []string{id}, DryRun: sdk.Bool(true)}
	_, err := c.ec2.StopInstances(t.Context(), stop)
	wantCode(t, err, http.StatusForbidden, "UnauthorizedOperation")
	for _, want := range []string{"ec2:StopInstances", "explicit deny in a service control policy", "Encoded authorization failure message: ", "user/kamino"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	err = c.enter(t, id, true)
	wantCode(t, err, http.StatusForbidden, "AccessDenied")
	if !strings.Contains(err.Error(), "no identity-based policy allows the autoscaling:EnterStandby action") {
		t.Errorf("error is %v", err)
	}
	c.advance(time.Minute)
	c.wantLifecycles(t, "2: InService InService")
	c.wantState(t, id, types.InstanceStateNameRunning)
	deny("iam:PassRole", "boundary")
	in := &ec2.RunInstancesInput{ImageId: sdk.String(testImage), InstanceType: testType, MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1), DryRun: sdk.Bool(true)}
	_, err = c.ec2.RunInstances(t.Context(), in)
	wantCode(t, err, http.StatusPreconditionFailed, "DryRunOperation")
	in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Name: sdk.String("node")}
	_, err = c.ec2.RunInstances(t.Context(), in)
	wantCode(t, err, http.StatusForbidden, "UnauthorizedOperation")
}

func TestRateLimits(t *testing.T) {
	c := newCloud(t, func(c *Config) {
		c.Throttle = Throttle{ReadBurst: 2, ReadRate: 0.01, WriteBurst: 1, WriteRate: 0.01, GroupBurst: 1, GroupRate: 0.01}
	})
	read := func() error {
		_, err := c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
		return err
	}
	group := func() error {
		_, err := c.asg.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
		return err
	}
	for range 2 {
		if err := read(); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, read(), http.StatusServiceUnavailable, "RequestLimitExceeded")
	if _, err := c.ec2.CreateVolume(t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: sdk.String(testRegion + "a"), Size: sdk.Int32(1)}); err != nil {
		t.Errorf("what changes has the patience of what looks: %v", err)
	}
	if err := group(); err != nil {
		t.Fatal(err)
	}
	wantCode(t, group(), refused, "Throttling")
	if got := c.Stats(); got.Throttled != 2 || got.Writes != 1 {
		t.Errorf("counted are %+v, want two throttled and one write", got)
	}
	c.advance(100 * time.Second)
	if err := errors.Join(read(), group()); err != nil {
		t.Errorf("after a while: %v", err)
	}
}

// TestLag: a new resource is neither found by ID nor listed nor usable for a while, but its name is reserved.
func TestLag(t *testing.T) {
	c := newCloud(t, nil)
	donor := c.run(t, 1, nil)[0]
	snap := c.shoot(t, *donor.InstanceId)
	if err := c.SetLag(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	n := int32(1)
	i := ok(c.ec2.RunInstances(t.Context(),
		&ec2.RunInstancesInput{ImageId: sdk.String(testImage), InstanceType: testType, MinCount: &n, MaxCount: &n,
			ClientToken: sdk.String("c")}))(t).Instances[0]
	image := ok(c.ec2.RegisterImage(t.Context(), like("lagging", snap)))(t)
	_, err := c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{*i.InstanceId}})
	wantCode(t, err, refused, "InvalidInstanceID.NotFound")
	_, err = c.ec2.CreateTags(t.Context(),
		&ec2.CreateTagsInput{Resources: []string{*i.InstanceId}, Tags: []types.Tag{{Key: sdk.String("a"), Value: sdk.String("b")}}})
	wantCode(t, err, refused, "InvalidInstanceID.NotFound")
	_, err = c.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{*image.ImageId}})
	wantCode(t, err, refused, "InvalidAMIID.NotFound")
	if all := ok(c.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{"self"}}))(t).Images; len(all) != 0 {
		t.Error("the image is listed")
	}
	_, err = c.ec2.RegisterImage(t.Context(), like("lagging", snap))
	wantCode(t, err, refused, "InvalidAMIName.Duplicate")
	c.advance(time.Minute)
	c.wantState(t, *i.InstanceId, types.InstanceStateNameRunning)
	if got := c.image(t, *image.ImageId); got.State != types.ImageStateAvailable {
		t.Errorf("image is %s", got.State)
	}
}

// TestDroppedConnection: a connection that drops before the effect changes nothing. After the effect, the change
// stays.
func TestDroppedConnection(t *testing.T) {
	for phase, want := range map[fault.Phase]int{fault.Before: 0, fault.After: 1} {
		for how, f := range map[string]fault.Fault{"dropped": {Drop: true}, "an error": {Status: 500}} {
			c := newCloud(t, nil)
			f.Operation, f.Phase, f.Count = "CreateVolume", phase, 1
			if _, err := c.AddFault(f); err != nil {
				t.Fatal(err)
			}
			in := &ec2.CreateVolumeInput{AvailabilityZone: sdk.String(testRegion + "a"), Size: sdk.Int32(1)}
			_, err := c.ec2.CreateVolume(t.Context(), in)
			var api smithy.APIError
			if err == nil || how == "dropped" && errors.As(err, &api) {
				t.Errorf("%s %s: %v", how, phase, err)
			}
			if all := ok(c.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{}))(t).Volumes; len(all) != want {
				t.Errorf("%s %s its effect: %d volumes, want %d", how, phase, len(all), want)
			}
			ok(c.ec2.CreateVolume(t.Context(), in))(t)
		}
	}
}

func TestIgnoredWrite(t *testing.T) {
	c := newCloud(t, nil)
	i := c.run(t, 1, nil)[0]
	if _, err := c.AddFault(fault.Fault{Operation: "StopInstances", Ignore: true, Count: 1}); err != nil {
		t.Fatal(err)
	}
	out := ok(c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{*i.InstanceId}}))(t)
	if out.StoppingInstances[0].CurrentState.Name != types.InstanceStateNameStopping {
		t.Errorf("answered was %+v", out.StoppingInstances)
	}
	c.advance(2 * time.Minute)
	c.wantState(t, *i.InstanceId, types.InstanceStateNameRunning)
	if all := c.Faults(); len(all) != 0 {
		t.Errorf("faults that can still strike: %+v", all)
	}
}

// TestFaultOnOneInstance: a fault affects only calls that name the instance.
func TestFaultOnOneInstance(t *testing.T) {
	c := newCloud(t, nil)
	all := c.run(t, 2, nil)
	if _, err := c.AddFault(fault.Fault{Operation: "StopInstances", Path: *all[0].InstanceId, Status: 400, Code: "OperationNotPermitted"}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"OperationNotPermitted", ""} {
		_, err := c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{*all[i].InstanceId}})
		var api smithy.APIError
		if got := errors.As(err, &api); got != (want != "") || got && api.ErrorCode() != want {
			t.Errorf("the stop of instance %d: %v, want %q", i, err, want)
		}
	}
}

func TestPagination(t *testing.T) {
	c := newCloud(t, func(c *Config) { c.PageSize = 2 })
	c.group(t, 5, nil)
	for range 4 {
		ok(c.ec2.CreateLaunchTemplateVersion(t.Context(),
			&ec2.CreateLaunchTemplateVersionInput{LaunchTemplateName: sdk.String(testGroup), LaunchTemplateData: rich("snap-1")}))(t)
	}
	donor := *c.currentGroup(t).Instances[0].InstanceId
	for _, name := range []string{"one", "two", "three"} {
		c.register(t, name, c.shoot(t, donor))
	}
	n := map[string]int{}
	for p := ec2.NewDescribeInstancesPaginator(c.ec2, &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(5)}); p.HasMorePages(); n["instance pages"]++ {
		for _, r := range ok(p.NextPage(t.Context()))(t).Reservations {
			n["instances"] += len(r.Instances)
		}
	}
	for p := ec2.NewDescribeImagesPaginator(c.ec2, &ec2.DescribeImagesInput{Owners: []string{"self"}, MaxResults: sdk.Int32(5)}); p.HasMorePages(); n["image pages"]++ {
		n["images"] += len(ok(p.NextPage(t.Context()))(t).Images)
	}
	for p := ec2.NewDescribeSnapshotsPaginator(c.ec2, &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}, MaxResults: sdk.Int32(5)}); p.HasMorePages(); {
		n["snapshots"] += len(ok(p.NextPage(t.Context()))(t).Snapshots)
	}
	for p := ec2.NewDescribeVolumesPaginator(c.ec2, &ec2.DescribeVolumesInput{MaxResults: sdk.Int32(5)}); p.HasMorePages(); {
		n["volumes"] += len(ok(p.NextPage(t.Context()))(t).Volumes)
	}
	for p := ec2.NewDescribeLaunchTemplateVersionsPaginator(c.ec2, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: sdk.String(testGroup)}); p.HasMorePages(); {
		n["versions"] += len(ok(p.NextPage(t.Context()))(t).LaunchTemplateVersions)
	}
	for p := autoscaling.NewDescribeAutoScalingInstancesPaginator(c.asg, &autoscaling.DescribeAutoScalingInstancesInput{}); p.HasMorePages(); {
		n["members"] += len(ok(p.NextPage(t.Context()))(t).AutoScalingInstances)
	}
	for p := autoscaling.NewDescribeScalingActivitiesPaginator(c.asg, &autoscaling.DescribeScalingActivitiesInput{}); p.HasMorePages(); {
		n["activities"] += len(ok(p.NextPage(t.Context()))(t).Activities)
	}
	for what, want := range map[string]int{
		"instances": 5, "instance pages": 3, "images": 3, "image pages": 2, "snapshots": 3, "volumes": 5, "versions": 5, "members": 5, "activities": 5,
	} {
		if n[what] != want {
			t.Errorf("%d %s, want %d", n[what], what, want)
		}
	}
	if whole := ok(c.ec2.DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}}))(t); len(whole.Snapshots) != 3 ||
		whole.NextToken != nil {
		t.Errorf("without a size: %d snapshots, next %v", len(whole.Snapshots), whole.NextToken)
	}
	_, err := c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{NextToken: sdk.String("guessed")})
	wantCode(t, err, refused, "InvalidParameterValue")
	_, err = c.asg.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{NextToken: sdk.String("guessed")})
	wantCode(t, err, refused, "InvalidNextToken")
	_, err = c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{donor}, MaxResults: sdk.Int32(5)})
	wantCode(t, err, refused, "InvalidParameterCombination")
	_, err = c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(4)})
	wantCode(t, err, refused, "InvalidParameterValue")
}

func TestTags(t *testing.T) {
	c := newCloud(t, nil)
	i := *c.run(t, 1, nil)[0].InstanceId
	tag := func(pairs ...string) (out []types.Tag) {
		for n := 0; n < len(pairs); n += 2 {
			out = append(out, types.Tag{Key: &pairs[n], Value: &pairs[n+1]})
		}
		return out
	}
	ok(c.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{i, root(c.currentInstance(t, i))}, Tags: tag("a", "1", "b", "")}))(t)
	ok(c.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{i}, Tags: tag("a", "2")}))(t)
	ok(c.ec2.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: []string{i}, Tags: tag("a", "1", "b", "")}))(t)
	got := ok(c.ec2.DescribeTags(t.Context(), &ec2.DescribeTagsInput{Filters: []types.Filter{{Name: sdk.String("resource-id"), Values: []string{i}}}}))(t).Tags
	if len(got) != 1 || *got[0].Key != "a" || *got[0].Value != "2" || got[0].ResourceType != types.ResourceTypeInstance {
		t.Errorf("tags are %+v, want a=2: a tag goes only with its value", got)
	}
	if all := ok(c.ec2.DescribeTags(t.Context(),
		&ec2.DescribeTagsInput{Filters: []types.Filter{{Name: sdk.String("resource-type"), Values: []string{"volume"}}}}))(t).Tags; len(all) != 2 {
		t.Errorf("the volume's tags are %+v", all)
	}
	var many []types.Tag
	for n := range 50 {
		many = append(many, tag("k"+strings.Repeat("x", n), "v")...)
	}
	_, err := c.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{i}, Tags: many})
	wantCode(t, err, refused, "TagLimitExceeded")
	for _, wrong := range [][]types.Tag{tag("aws:x", ""), tag("k", strings.Repeat("x", 257)), tag(strings.Repeat("k", 129), "")} {
		_, err := c.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{i}, Tags: wrong})
		wantCode(t, err, refused, "InvalidParameterValue")
	}
	_, err = c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: sdk.String("colour"), Values: []string{"red"}}}})
	wantCode(t, err, refused, "InvalidParameterValue")
}

// TestRestart: a second server on the same directory continues the work of the first.
func TestRestart(t *testing.T) {
	f := fleet.NewMemory()
	config := testConfig(t, f)
	c := openCloud(t, config, f)
	c.group(t, 2, nil)
	donor := *c.currentGroup(t).Instances[0].InstanceId
	volume := root(c.currentInstance(t, donor))
	snap := ok(c.ec2.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: &volume}))(t)
	ok(c.ec2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{donor}}))(t)
	c.web.Close()
	c.Close()
	d := openCloud(t, config, f)
	d.wantState(t, donor, types.InstanceStateNameStopping)
	d.advance(10 * time.Minute)
	if got := ok(d.ec2.DescribeSnapshots(t.Context(),
		&ec2.DescribeSnapshotsInput{SnapshotIds: []string{*snap.SnapshotId}}))(t).Snapshots[0]; got.State != types.SnapshotStateCompleted {
		t.Errorf("snapshot is %s", got.State)
	}
	d.wantLifecycles(t, "2: InService InService")
	if d.member(t, donor) != nil || f.Size() != 2 {
		t.Errorf("the stopped instance was not replaced: %d machines", f.Size())
	}
}
