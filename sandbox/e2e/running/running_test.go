package running

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// TestCopyOfARunningDonor: the donor serves, its disk is copied in a freeze, the copy is cleaned and proven on another machine, and boots as
// a new node.
func TestCopyOfARunningDonor(t *testing.T) {
	for _, profile := range []v1alpha1.Profile{v1alpha1.ProfileBootstrap, v1alpha1.ProfileEKS} {
		t.Run(string(profile), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, "c"+string(profile)+",profile="+string(profile))
			e.profile = profile
			donor := e.donor()
			m := e.take()
			if !m.Frozen || m.FrozenFor.Duration <= 0 || m.MachineID != donor.MachineID {
				t.Errorf("the moment is %+v", m.Moment)
			}
			volume := e.attach(m.snapshot)
			o := e.clean(m, volume, volume)
			r := o.result()
			if !(v1alpha1.Record{Order: &o.record}).Proves(r.Proof, holder.UID) {
				t.Fatalf("no proof: %+v", r.Unproven)
			}
			tree := sandbox.Fleet().DiskTree(fleet.DiskID(volume))
			if diff := cmp.Diff(e.Machine(donor.Node).Images, disk.Images(tree)); diff != "" || disk.MachineID(tree) != "" {
				t.Errorf("the cleaned copy has the machine ID %q; images (-donor +copy):\n%s", disk.MachineID(tree), diff)
			}
			e.useSnapshot(e.snapshot(volume))
			if clone := e.Grow(); clone.MachineID == "" || clone.MachineID == donor.MachineID || clone.Node == donor.Node {
				t.Errorf("the clone is %s with the machine ID %s", clone.Node, clone.MachineID)
			}
			if now := e.Machine(donor.Node); now.Boots != donor.Boots || now.BootID != donor.BootID {
				t.Errorf("the donor is %+v", now)
			}
			e.AssertServes(donor.Node)
		})
	}
}

// useSnapshot makes an image of a snapshot, and lets the pool build its next nodes from it.
func (e *env) useSnapshot(snapshot string) {
	e.Helper()
	e.completed(snapshot)
	cloud, device := sandbox.AWS(), sdk.String("/dev/sda1")
	image, err := cloud.EC2().RegisterImage(e.Context(), &ec2.RegisterImageInput{
		Name: &e.Pool, RootDeviceName: device, Architecture: types.ArchitectureValuesX8664, VirtualizationType: sdk.String("hvm"),
		EnaSupport: sdk.Bool(true), BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: device, Ebs: &types.EbsBlockDevice{SnapshotId: &snapshot}}},
	})
	e.Must(err)
	_, err = cloud.EC2().CreateLaunchTemplateVersion(e.Context(), &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateName: &e.Group, SourceVersion: sdk.String("1"), LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: image.ImageId},
	})
	e.Must(err)
	_, err = cloud.Groups().UpdateAutoScalingGroup(e.Context(), &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: &e.Group, LaunchTemplate: &astypes.LaunchTemplateSpecification{LaunchTemplateName: &e.Group, Version: sdk.String("2")},
	})
	e.Must(err)
}

// TestCopyWithoutAFlush: a kernel that flushes nothing is found on the copy: the nonce is missing. Without a nonce, an image whose layers are
// empty is removed, and the clone pulls it again.
func TestCopyWithoutAFlush(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "forgets")
	e.Must(disk.Flush(e.donor().Disk)) // as the system does in time
	image := "registry.example.com/late:v1"
	e.Must(disk.AddImage(e.donor().Disk, image))
	e.write(forgets, "")
	m := e.take()
	volume := e.attach(m.snapshot)
	e.clean(m, volume, volume).discarded("StaleCopy", "does not hold the donor's last flush")
	tree := sandbox.Fleet().DiskTree(fleet.DiskID(volume))
	if !disk.HasImage(tree, image) {
		t.Error("the runtime of the copy does not know the image")
	}
	m.flags = nil
	o := e.clean(m, volume, volume)
	if r := o.result(); !(v1alpha1.Record{Order: &o.record}).Proves(r.Proof, holder.UID) {
		t.Errorf("no proof: %+v", r.Unproven)
	}
	for _, kept := range e.donor().Images {
		if !disk.HasImage(tree, kept) || disk.HasImage(tree, image) {
			t.Errorf("the cleaned copy has the images %v, want all but %s", disk.Images(tree), image)
		}
	}
}

// TestAnotherDevice: a device with another serial number is refused, and stays as it was.
func TestAnotherDevice(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "serial")
	m := e.take()
	volume := e.attach(m.snapshot)
	e.clean(m, volume, "vol-0123456789abcdef0").discarded("", "and the copy is vol-0123456789abcdef0")
	o := e.clean(m, volume, volume)
	if r := o.result(); !(v1alpha1.Record{Order: &o.record}).Proves(r.Proof, holder.UID) {
		t.Errorf("no proof afterwards: %+v", r.Unproven)
	}
}

// halfInstalled is a package between two states.
const halfInstalled = "\nPackage: tzdata\nStatus: install ok half-configured\nArchitecture: all\nVersion: 1\n"

// TestBusyDonor: a donor is not copied while packages change or an image is pulled. A copy from such a moment is discarded.
func TestBusyDonor(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "busy")
	status := "var/lib/dpkg/status"
	busy := func(says string) {
		t.Helper()
		o := e.quiesce("--wait", "1s")
		if m := o.await("the node is busy", o.isIn(v1alpha1.MomentBusy)).Moment; !strings.Contains(m.Message, says) {
			t.Errorf("it says %q, want %q", m.Message, says)
		}
	}
	done, err := disk.BeginPull(e.donor().Disk, "registry.example.com/app:v2")
	e.Must(err)
	busy("pulls an image")
	e.Must(done())

	unlock, err := disk.LockPackages(e.donor().Disk)
	e.Must(err)
	busy("holds /var/lib/dpkg/lock-frontend")
	unlock()

	before, err := os.ReadFile(filepath.Join(e.donor().Disk, status))
	e.Must(err)
	e.write(status, string(before)+halfInstalled)
	busy("packages are not completely installed, and no program completes them: tzdata")
	e.Must(disk.Flush(e.donor().Disk))
	m := moment{snapshot: e.snapshot(e.volumeOf(e.donor()))}
	volume := e.attach(m.snapshot)
	e.clean(m, volume, volume).discarded("PackagesIncomplete", "the package tzdata is half-configured")

	e.write(status, string(before))
	e.take()
}

// TestKilledInTheFreeze: the end of the pod's program ends the freeze, and the machine writes again.
func TestKilledInTheFreeze(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "killed")
	for range 10 {
		o := e.quiesce()
		o.await("the node is quiet", o.isIn(v1alpha1.MomentQuiet))
		o.say(v1alpha1.WordProceed)
		frozen := o.await("the disk stands", o.isIn(v1alpha1.MomentNow, v1alpha1.MomentOver)).Moment.State == v1alpha1.MomentNow
		kill(t, string(o.UID))
		o.e.Must(o.e.client.Get(e.Context(), client.ObjectKeyFromObject(o.NodeOrder), o.NodeOrder))
		if frozen && !strings.Contains(o.Status.Report, string(v1alpha1.MomentOver)) {
			break
		}
		t.Log("the freeze was over before the end of the program")
	}
	journal := filepath.Join(e.donor().Disk, "var/log/syslog")
	before, err := os.Stat(journal)
	e.Must(err)
	e.Eventually("the machine writes", func() (bool, string) {
		now, err := os.Stat(journal)
		return err == nil && now.Size() > before.Size(), "the log does not grow"
	})
	e.take()
}

// kill kills the programs with a word among their arguments.
func kill(t *testing.T, word string) {
	t.Helper()
	programs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		text, err := os.ReadFile(program)
		if err != nil || !bytes.Contains(text, []byte(word)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(program))); err == nil && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
