package aws

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// TestSecondVolume: a second EBS volume in which a node has files of its own prevents a copy, and the capture is refused before a workshop
// costs money. A volume that only a pod uses does not.
func TestSecondVolume(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "disks", "profile=eks")
	serial := e.attachVolume(e.Machines[0])
	e.Must(disk.Mount(e.Machines[0].Disk, serial, "/var/lib/containerd"))
	e.Capture(e.Donor).ExpectExit(exitRefused, "/var/lib/containerd is on another disk", "capture the node in place, if it can return")
	e.AssertServes(e.Donor)
	e.AssertNothingLeft()
	if all := e.launchedByKamino(); len(all) > 0 {
		t.Errorf("the refused capture launched %v", all)
	}

	other := e.Machines[1]
	e.Must(disk.Mount(other.Disk, e.attachVolume(other), "/var/lib/kubelet/pods/uid/volumes/kubernetes.io~csi/pv/mount"))
	var launched []string
	e.before("AttachVolume", func() { launched = e.launchedByKamino() })
	e.Capture(other.Node).ExpectExit(0, "stayed in service")
	if len(launched) != 1 {
		t.Errorf("the workshops are %v, so the first part shows nothing", launched)
	}
}

// attachVolume attaches a new volume to an instance, and returns the serial number that the machine shows.
func (e env) attachVolume(m machine.Status) (serial string) {
	e.Helper()
	api := sandbox.AWS().EC2()
	found, err := api.DescribeInstances(e.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{m.ID}})
	e.Must(err)
	made, err := api.CreateVolume(e.Context(), &ec2.CreateVolumeInput{
		AvailabilityZone: found.Reservations[0].Instances[0].Placement.AvailabilityZone, Size: sdk.Int32(100),
	})
	e.Must(err)
	await := func(what string, is func(v ec2types.Volume) bool) {
		e.Eventually("volume "+*made.VolumeId+" is "+what, func() (bool, string) {
			out, err := api.DescribeVolumes(e.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{*made.VolumeId}})
			e.Must(err)
			return is(out.Volumes[0]), fmt.Sprint(out.Volumes[0].State, out.Volumes[0].Attachments)
		})
	}
	await("available", func(v ec2types.Volume) bool { return v.State == ec2types.VolumeStateAvailable })
	_, err = api.AttachVolume(e.Context(), &ec2.AttachVolumeInput{VolumeId: made.VolumeId, InstanceId: &m.ID, Device: sdk.String("/dev/sdf")})
	e.Must(err)
	await("attached", func(v ec2types.Volume) bool {
		return len(v.Attachments) == 1 && v.Attachments[0].State == ec2types.VolumeAttachmentStateAttached
	})
	return strings.ReplaceAll(*made.VolumeId, "-", "")
}

// launchedByKamino returns the workshops, also those that have just ended.
func (e env) launchedByKamino() (ids []string) {
	e.Helper()
	out, err := sandbox.AWS().EC2().DescribeInstances(e.Context(), &ec2.DescribeInstancesInput{
		Filters: []ec2types.Filter{{Name: sdk.String("tag-key"), Values: []string{"kamino-workshop-name"}}}})
	e.Must(err)
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			if slices.ContainsFunc(i.Tags, func(tag ec2types.Tag) bool {
				return *tag.Key == "kamino-pool" && strings.HasSuffix(*tag.Value, "/"+e.Group)
			}) {
				ids = append(ids, *i.InstanceId)
			}
		}
	}
	return ids
}
