package conformance

import (
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/aws"
	"github.com/kamino-dev/kamino/internal/testing/cloudtest"
	"github.com/kamino-dev/kamino/sandbox/aws"
	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

const (
	awsRegion = "eu-central-1"
	awsImage  = "ami-0123456789abcdef0"
	awsArm    = "ami-0fedcba9876543210"
)

// amazon is a simulated AWS with two instances outside groups, the provider, and an AWS SDK client.
type amazon struct {
	*testing.T
	server   *aws.Server
	calendar *clock.Calendar
	disks    *provider.ImageProvider
	recipes  *provider.PoolProvider
	raw      *ec2.Client
	scaling  *autoscaling.Client
	// parameters are those of Systems Manager.
	parameters *ssm.Client
	ids        []cloud.InstanceID
	fleet      *fleet.Memory
	config     provider.Config
}

// newAmazon starts a cloud with two instances outside groups, built from an image.
func newAmazon(t *testing.T, image string) *amazon {
	t.Helper()
	w := startAmazon(t, 0)
	size := map[string]ec2types.InstanceType{awsImage: "m6i.large", awsArm: "m6g.large"}[image]
	out, err := w.raw.RunInstances(t.Context(),
		&ec2.RunInstancesInput{ImageId: sdk.String(image), InstanceType: size, MinCount: sdk.Int32(2), MaxCount: sdk.Int32(2)})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range out.Instances {
		w.ids = append(w.ids, awsID(m))
	}
	for _, id := range w.ids {
		w.until("running", func() bool {
			m, err := w.disks.Instance(t.Context(), id)
			return err == nil && m.Power == cloud.PowerRunning
		})
	}
	return w
}

func awsID(m ec2types.Instance) cloud.InstanceID {
	return cloud.InstanceID("aws:///" + sdk.ToString(m.Placement.AvailabilityZone) + "/" + sdk.ToString(m.InstanceId))
}

// startAmazon starts a cloud that shows new resources after a delay. standby is the duration of a transition; below
// 0, none.
func startAmazon(t *testing.T, standby time.Duration) *amazon {
	t.Helper()
	return startAmazonOn(t, nil, standby)
}

// startAmazonOn does so on a wire, or on a socket without a wire. change changes the configuration of the cloud.
func startAmazonOn(t *testing.T, on *wire, standby time.Duration, change ...func(*aws.Config)) *amazon {
	t.Helper()
	key, secret := "AKIAIOSFODNN7EXAMPLE", rand.Text()
	w := &amazon{T: t, calendar: &clock.Calendar{}, fleet: fleet.NewMemory()}
	now := clock.Clock{Calendar: w.calendar}
	settings := aws.Config{
		Dir: t.TempDir(), Clock: now, Fleet: w.fleet, Account: "123456789012", Region: awsRegion, Lag: 20 * time.Second, PageSize: 5,
		Users: []aws.User{{Name: "kamino", KeyID: key, Secret: secret}},
		Images: []aws.Platform{{ID: awsImage, Name: "al2023", Content: "platform:x86", Tpm: "v2.0"},
			{ID: awsArm, Name: "al2023-arm", Content: "platform:arm", Architecture: "arm64", BootMode: "uefi", RootDevice: "/dev/sda1"}},
		Latencies: aws.Latencies{Standby: standby},
		Throttle:  aws.Throttle{ReadBurst: 1e6, WriteBurst: 1e6, GroupBurst: 1e6},
	}
	for _, f := range change {
		f(&settings)
	}
	server, err := aws.New(settings)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(server.Handler())
	if on != nil {
		w.must(web.Listener.Close())
		web.Listener = on
	}
	web.StartTLS()
	t.Cleanup(func() { web.Close(); server.Close() })
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	w.must(os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600))
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": "", "AWS_REGION": awsRegion, "AWS_ENDPOINT_URL": web.URL,
		"AWS_CA_BUNDLE":   bundle,
		"AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "none"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none"), "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
	config, err := provider.Load(t.Context(), "")
	w.must(err)
	config.Now = now.Now
	if on != nil {
		config.AWS.HTTPClient = provider.WithPlainBodies(&http.Client{Transport: on.transport(web.Certificate())})
	}
	w.server, w.raw, w.scaling, w.parameters = server, ec2.NewFromConfig(config.AWS), autoscaling.NewFromConfig(config.AWS), ssm.NewFromConfig(config.AWS)
	w.disks, w.recipes = provider.New(config)
	w.config = config
	return w
}

func (w *amazon) now() time.Time { return clock.Clock{Calendar: w.calendar}.Now() }

func (w *amazon) advance(d time.Duration) { w.calendar.Skip(d) }

func (w *amazon) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

var amazonLine = cloud.ImageFamily{Place: awsRegion, Name: "workers"}

// TestDisksOfAWS runs the suite on instances, snapshots and images, over HTTPS with the SDK. New resources appear
// after a delay.
func TestDisksOfAWS(t *testing.T) {
	cloudtest.RunDisks(t, func(t *testing.T) cloudtest.DisksHarness {
		w := newAmazon(t, awsImage)
		return cloudtest.DisksHarness{
			Harness: cloudtest.Harness{
				Instances: w.ids, Missing: cloud.InstanceID("aws:///" + awsRegion + "a/i-00000000000000000"),
				Advance: func(testing.TB) { w.advance(10 * time.Second) }, Looks: 2000,
				PowerOffGuest: func(_ testing.TB, id cloud.InstanceID) { w.must(w.server.Shutdown(t.Context(), path.Base(string(id)))) },
				Boots:         func(_ testing.TB, id cloud.InstanceID) int { return w.fleet.Machine(path.Base(string(id))).Boots },
				Console:       func(_ testing.TB, id cloud.InstanceID, text string) { w.fleet.SetConsole(path.Base(string(id)), text) },
			},
			Disks: cloud.DisksOf(w.disks), Family: amazonLine, Requirements: cloud.ImageRequirements{Location: awsRegion, Nodes: 3},
		}
	})
}

// TestConsoleOfOlderTypes: instances that are not on Nitro have only the console of their boot.
func TestConsoleOfOlderTypes(t *testing.T) {
	w := newAmazon(t, awsImage)
	w.fleet.SetConsole(path.Base(string(w.ids[0])), "the boot")
	_, err := w.server.AddFault(fault.Fault{Operation: "GetConsoleOutput", Status: http.StatusBadRequest, Code: "UnsupportedOperation", Count: 1})
	w.must(err)
	if text, err := w.disks.ConsoleOutput(t.Context(), w.ids[0]); err != nil || text != "the boot" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestAWSMissingFiles: unreadable files are reported before any request.
func TestAWSMissingFiles(t *testing.T) {
	t.Setenv("AWS_CA_BUNDLE", filepath.Join(t.TempDir(), "none.pem"))
	if _, err := provider.Load(t.Context(), ""); !cloud.Is(err, cloud.Invalid) || !strings.Contains(err.Error(), "none.pem") {
		t.Errorf("%v", err)
	}
}

// published takes the first instance through a capture up to a complete image.
func (w *amazon) published(version string) cloud.FamilyVersion {
	w.Helper()
	ref := cloud.FamilyVersion{Family: amazonLine, Version: version}
	w.until("stopped", func() bool {
		power, err := w.disks.EnsureStopped(w.Context(), w.ids[0])
		w.must(err)
		return power == cloud.PowerStopped
	})
	snapshot := w.shot(version)
	w.until("published", func() bool {
		im, err := w.disks.EnsureImage(w.Context(), cloud.VersionSpec{FamilyVersion: ref, SnapshotID: snapshot.ID})
		w.must(err)
		return im.State == cloud.Complete
	})
	return ref
}

func (w *amazon) shot(name string) (snapshot cloud.Snapshot) {
	w.Helper()
	w.until("copied", func() bool {
		var err error
		snapshot, err = w.disks.EnsureSnapshot(w.Context(),
			cloud.SnapshotSpec{Name: name, Instance: w.ids[0], Tags: map[string]string{cloud.TagUID: "u", cloud.TagPrototype: name}})
		w.must(err)
		return snapshot.State == cloud.Complete
	})
	return snapshot
}

func (w *amazon) until(what string, done func() bool) {
	w.Helper()
	for range 500 {
		if done() {
			return
		}
		w.advance(10 * time.Second)
	}
	w.Fatalf("not %s; the last requests:\n%s", what, lastOf(w.server.Requests()))
}

// lastOf describes the last requests of a test that waits in vain.
func lastOf(all []requestlog.Request) (text string) {
	for _, r := range all[max(0, len(all)-5):] {
		text += fmt.Sprintf("%d %s %s %s\n", r.Status, r.Method, r.Operation, r.Path)
	}
	return text
}

// snapshots returns all snapshots of the account.
func (w *amazon) snapshots() []ec2types.Snapshot {
	w.Helper()
	w.advance(time.Minute)
	out, err := w.raw.DescribeSnapshots(w.Context(), &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}})
	w.must(err)
	return out.Snapshots
}

// TestAWSImageMatchesDonor: the defaults of RegisterImage fit no current instance type.
func TestAWSImageMatchesDonor(t *testing.T) {
	for image, want := range map[string]ec2types.Image{
		awsImage: {Architecture: "x86_64", RootDeviceName: sdk.String("/dev/xvda"), BootMode: "uefi-preferred", TpmSupport: "v2.0"},
		awsArm:   {Architecture: "arm64", RootDeviceName: sdk.String("/dev/sda1"), BootMode: "uefi"},
	} {
		w := newAmazon(t, image)
		w.published("2026.03.14")
		out, err := w.raw.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{"self"}})
		w.must(err)
		if len(out.Images) != 1 {
			t.Fatalf("there are %d images", len(out.Images))
		}
		have := out.Images[0]
		if have.Architecture != want.Architecture || sdk.ToString(have.RootDeviceName) != sdk.ToString(want.RootDeviceName) || have.BootMode != want.BootMode ||
			have.TpmSupport != want.TpmSupport || !sdk.ToBool(have.EnaSupport) || have.VirtualizationType != "hvm" || have.ImdsSupport != "v2.0" ||
			have.BlockDeviceMappings[0].Ebs.VolumeType != "gp3" {
			t.Errorf("%s: %+v", image, have)
		}
	}
}

// TestAWSImageOfAGoneSource: the image of an instance whose AMI is gone keeps the instance's requirement of IMDSv2.
func TestAWSImageOfAGoneSource(t *testing.T) {
	w := newAmazon(t, awsImage)
	image := func() ec2types.Image {
		out, err := w.raw.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{"self"}})
		w.must(err)
		if len(out.Images) != 1 {
			t.Fatalf("there are %d images", len(out.Images))
		}
		return out.Images[0]
	}
	w.published("2026.03.14")
	source := image().ImageId
	out, err := w.raw.RunInstances(t.Context(),
		&ec2.RunInstancesInput{ImageId: source, InstanceType: "m6i.large", MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1)})
	w.must(err)
	_, err = w.raw.DeregisterImage(t.Context(), &ec2.DeregisterImageInput{ImageId: source})
	w.must(err)
	w.advance(3 * time.Hour)
	w.ids[0] = awsID(out.Instances[0])
	w.published("2026.03.15")
	if have := image(); sdk.ToString(have.Name) == "" || *have.ImageId == *source || have.ImdsSupport != ec2types.ImdsSupportValuesV20 {
		t.Errorf("the image is %+v", have)
	}
}

// TestAWSSnapshotDeletedWithImage: AWS does not delete the snapshot of an image. The snapshot is no leftover, and
// is deleted with the image. A snapshot that a capture still needs stays.
func TestAWSSnapshotDeletedWithImage(t *testing.T) {
	w := newAmazon(t, awsImage)
	held := w.published("2026.03.13")
	w.until("deregistered", func() bool {
		w.must(w.disks.DeleteImage(t.Context(), held))
		im, err := w.disks.Image(t.Context(), held)
		w.must(err)
		return im.State == cloud.Absent
	})
	if left := w.snapshots(); len(left) != 1 {
		t.Fatalf("the image took the snapshot of a capture along: %d are left", len(left))
	}
	w.must(w.disks.DeleteSnapshot(t.Context(), w.ids[0], "2026.03.13"))
	if left := w.snapshots(); len(left) != 0 {
		t.Fatalf("%d snapshots are left", len(left))
	}
	ref := w.published("2026.03.14")
	for range 2 { // the process after a kill repeats the call
		w.must(w.disks.DeleteSnapshot(t.Context(), w.ids[0], "2026.03.14"))
	}
	if snapshots, err := w.disks.Snapshots(t.Context(), amazonLine); err != nil || len(snapshots) != 0 || len(w.snapshots()) != 1 {
		t.Errorf("listed are %+v (%v), and in the cloud %d", snapshots, err, len(w.snapshots()))
	}
	w.must(w.disks.DeleteImage(t.Context(), ref))
	if left := w.snapshots(); len(left) != 0 {
		t.Errorf("the image's snapshot has stayed: %+v", left)
	}
}

// TestOlderAWSSnapshotIsUsed: two processes may have asked at once, and neither has seen the other's.
func TestOlderAWSSnapshotIsUsed(t *testing.T) {
	w := newAmazon(t, awsImage)
	first := w.shot("twice")
	w.advance(time.Minute)
	out, err := w.raw.DescribeSnapshots(t.Context(), &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}})
	w.must(err)
	_, err = w.raw.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: out.Snapshots[0].VolumeId,
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: "snapshot", Tags: out.Snapshots[0].Tags}}})
	w.must(err)
	w.advance(time.Minute)
	if again, err := w.disks.Snapshot(t.Context(), w.ids[0], "twice"); err != nil || again.ID != first.ID {
		t.Errorf("%+v, %v; want %s", again, err, first.ID)
	}
	w.must(w.disks.DeleteSnapshot(t.Context(), w.ids[0], "twice"))
	if left := w.snapshots(); len(left) != 0 {
		t.Errorf("%d are left", len(left))
	}
}

// TestAWSListsInstancesOfImages: the name of the image contains the version. A foreign image has no version.
func TestAWSListsInstancesOfImages(t *testing.T) {
	w := newAmazon(t, awsImage)
	ref := w.published("2026.03.14")
	w.advance(time.Minute)
	images, err := w.raw.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{"self"}})
	w.must(err)
	out, err := w.raw.RunInstances(t.Context(),
		&ec2.RunInstancesInput{ImageId: images.Images[0].ImageId, InstanceType: "m6i.large", MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1)})
	w.must(err)
	w.advance(time.Minute)
	m, err := w.disks.Instance(t.Context(), cloud.InstanceID("aws:///"+awsRegion+"a/"+*out.Instances[0].InstanceId))
	w.must(err)
	if version, latest := w.disks.VersionOf(amazonLine, m.Image); version != "2026.03.14" || latest || m.Image != w.disks.ImageID(ref) {
		t.Errorf("it was built from %s, which is version %q", m.Image, version)
	}
	if version, _ := w.disks.VersionOf(cloud.ImageFamily{Place: awsRegion, Name: "other"}, m.Image); version != "" {
		t.Errorf("another pool takes it for its version %s", version)
	}
	old, err := w.disks.Instance(t.Context(), w.ids[1])
	w.must(err)
	if version, _ := w.disks.VersionOf(amazonLine, old.Image); version != "" || old.Image != awsImage {
		t.Errorf("%s is taken for version %q", old.Image, version)
	}
}

// TestAWSPermissionsChecked: each missing permission of a capture has its sentence. With all permissions, the list
// is empty.
func TestAWSPermissionsChecked(t *testing.T) {
	spec := func(w *amazon) cloud.DiskSpec {
		return cloud.DiskSpec{FamilyVersion: cloud.FamilyVersion{Family: amazonLine, Version: "2026.03.14"}, Instance: w.ids[0]}
	}
	for name, test := range map[string]struct {
		change func(*amazon)
		want   string
	}{
		"all is well": {func(*amazon) {}, ""},
		"terminates": {func(w *amazon) {
			_, err := w.raw.ModifyInstanceAttribute(w.Context(), &ec2.ModifyInstanceAttributeInput{InstanceId: sdk.String(path.Base(string(w.ids[0]))),
				InstanceInitiatedShutdownBehavior: &ec2types.AttributeValue{Value: sdk.String("terminate")}})
			w.must(err)
		}, "StopTerminates"},
		"stop protection": {func(w *amazon) {
			_, err := w.raw.ModifyInstanceAttribute(w.Context(), &ec2.ModifyInstanceAttributeInput{InstanceId: sdk.String(path.Base(string(w.ids[0]))),
				DisableApiStop: &ec2types.AttributeBooleanValue{Value: sdk.Bool(true)}})
			w.must(err)
		}, "DonorProtected"},
		"may not copy": {func(w *amazon) {
			_, err := w.server.AddFault(fault.Fault{Deny: "ec2:CreateSnapshot"})
			w.must(err)
		}, "PermissionMissing"},
		"may not register": {func(w *amazon) {
			_, err := w.server.AddFault(fault.Fault{Deny: "ec2:RegisterImage"})
			w.must(err)
		}, "PermissionMissing"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAmazon(t, awsImage)
			test.change(w)
			found, err := w.disks.PreflightDisk(t.Context(), spec(w))
			w.must(err)
			if test.want == "" && len(found) == 0 {
				return
			}
			if len(found) != 1 || found[0].Reason != test.want || found[0].Remedy == "" {
				t.Errorf("%+v, want %s", found, test.want)
			}
		})
	}
}
