package region

import (
	"context"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/sandbox/aws"
)

// Loose returns the instances outside pools, and the volumes that are the root of no instance. Each has the values of its tags.
func (a *AWS) Loose(ctx context.Context) ([]string, error) {
	var loose []string
	roots := map[string]bool{}
	for pages := ec2.NewDescribeInstancesPaginator(a.ec2, &ec2.DescribeInstancesInput{}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, shortError(err)
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				if i.State.Name == ec2types.InstanceStateNameTerminated {
					continue
				}
				roots[rootVolume(i)] = true
				if !slices.ContainsFunc(i.Tags, func(t ec2types.Tag) bool { // Karpenter's tag is empty without a NodePool
					return slices.Contains([]string{"aws:autoscaling:groupName", aws.PoolTag, "karpenter.sh/nodepool"}, sdk.ToString(t.Key)) &&
						sdk.ToString(t.Value) != ""
				}) {
					loose = append(loose, withTags(i.InstanceId, i.Tags))
				}
			}
		}
	}
	for pages := ec2.NewDescribeVolumesPaginator(a.ec2, &ec2.DescribeVolumesInput{}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, shortError(err)
		}
		for _, v := range page.Volumes {
			if !roots[sdk.ToString(v.VolumeId)] {
				loose = append(loose, withTags(v.VolumeId, v.Tags))
			}
		}
	}
	return loose, nil
}

// rootVolume is the root volume of an instance; empty before the instance has a volume.
func rootVolume(i ec2types.Instance) string {
	for _, d := range i.BlockDeviceMappings {
		if d.Ebs != nil && sdk.ToString(d.DeviceName) == sdk.ToString(i.RootDeviceName) {
			return sdk.ToString(d.Ebs.VolumeId)
		}
	}
	return ""
}

func withTags(id *string, tags []ec2types.Tag) string {
	words := []string{sdk.ToString(id)}
	for _, t := range tags {
		words = append(words, sdk.ToString(t.Value))
	}
	return strings.Join(words, " ")
}
