package aws

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/internal/cloud"
)

func TestParseInstance(t *testing.T) {
	for _, test := range []struct{ name, id, region, says string }{
		{name: "availability zone", id: "aws:///eu-central-1a/i-0123456789abcdef0", region: "eu-central-1"},
		{name: "old ID", id: "aws:///us-east-1f/i-01234567", region: "us-east-1"},
		{name: "GovCloud", id: "aws:///us-gov-west-1b/i-0123456789abcdef0", region: "us-gov-west-1"},
		{name: "sovereign", id: "aws:///eusc-de-east-1a/i-0123456789abcdef0", region: "eusc-de-east-1"},
		{name: "local zone", id: "aws:///us-west-2-lax-1a/i-0123456789abcdef0", region: "us-west-2"},
		{name: "wavelength zone", id: "aws:///us-east-1-wl1-bos-wlz-1/i-0123456789abcdef0", region: "us-east-1"},
		{name: "Fargate", id: "aws:///us-west-2c/4f1a/fargate-ip-10-0-0-1.us-west-2.compute.internal", says: "Fargate"},
		{name: "a region for a zone", id: "aws:///eu-central-1/i-0123456789abcdef0", says: "no zone"},
		{name: "no zone", id: "aws:////i-0123456789abcdef0", says: "no zone"},
		{name: "a name for an ID", id: "aws:///eu-central-1a/ip-10-0-0-1", says: "no zone and EC2 instance"},
		{name: "more than an ID", id: "aws:///eu-central-1a/i-0123456789abcdef0/x", says: "no zone and EC2 instance"},
		{name: "too long", id: "aws:///eu-central-1a/i-0123456789abcdef01", says: "no zone and EC2 instance"},
		{name: "another cloud", id: "azure:///subscriptions/s", says: "not the provider ID of an EC2 instance"},
		{name: "empty", says: "not the provider ID of an EC2 instance"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseInstance(cloud.InstanceID(test.id))
			if test.says != "" {
				if !cloud.Is(err, cloud.Unsupported) || !strings.Contains(err.Error(), test.says) {
					t.Fatalf("got %+v, %v, want Unsupported that says %q", got, err, test.says)
				}
				return
			}
			if err != nil || got.region != test.region || string(got.providerID()) != test.id {
				t.Errorf("got %+v of %s, %v, want region %s", got, got.providerID(), err, test.region)
			}
		})
	}
}

func TestParsePool(t *testing.T) {
	const unique = "c87db1b1-7c0d-4a6a-8a5e-0d9e3ba8d0a1"
	for _, id := range []string{
		"", "pool1",
		"arn:aws:ec2:eu-central-1:123456789012:instance/i-0123456789abcdef0",
		"arn:aws:autoscaling:eu-central-1:123456789012:launchConfiguration:" + unique + ":launchConfigurationName/pool1",
		"arn:aws:autoscaling:eu-central-1:123456789012:autoScalingGroup:" + unique + ":autoScalingGroupName/",
		"arn:aws:autoscaling:eu-central-1:123456789012:autoScalingGroup:*:policyName/pool1",
		"arn:aws:autoscaling::123456789012:autoScalingGroup:" + unique + ":autoScalingGroupName/pool1",
		"arn:aws:autoscaling:eu-central-1:123456789012:autoScalingGroup:" + unique + ":autoScalingGroupName/pool1:more",
	} {
		if g, err := parsePool(cloud.PoolID(id)); !cloud.Is(err, cloud.Unsupported) || !strings.Contains(err.Error(), "not the ARN of an Auto Scaling group") {
			t.Errorf("%q is read as %+v, %v", id, g, err)
		}
	}
	upper, err := parsePool("arn:aws-cn:autoscaling:cn-north-1:123456789012:autoScalingGroup:" + unique + ":autoScalingGroupName/Pool-1/a")
	if want := (group{partition: "aws-cn", region: "cn-north-1", account: "123456789012", unique: unique, name: "Pool-1/a"}); err != nil || upper != want {
		t.Errorf("got %+v, %v, want %+v", upper, err, want)
	}
}

func TestPoolIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := group{partition: "aws", region: "eu-central-1", account: "123456789012", unique: "u",
			name: rapid.StringMatching(`[!-9;-~]{1,255}`).Draw(t, "name")}
		if back, err := parsePool(g.pool()); err != nil || back != g {
			t.Fatalf("%s leads to %+v, %v", g.pool(), back, err)
		}
	})
}
