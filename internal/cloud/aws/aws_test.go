package aws

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// answered returns the error that the SDK builds from an EC2 response.
func answered(status int, code, message string, header http.Header) error {
	return &smithy.OperationError{ServiceID: "EC2", OperationName: "StartInstances", Err: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status, Header: header}},
		Err:      &smithy.GenericAPIError{Code: code, Message: message},
	}}
}

func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		kind cloud.Kind
		says string
	}{
		"absent":        {answered(400, "InvalidInstanceID.NotFound", "no such", nil), cloud.NotFound, "no such"},
		"may not":       {answered(403, "UnauthorizedOperation", "You are not authorized", nil), cloud.Denied, "allow the action"},
		"must not":      {answered(403, "UnauthorizedOperation", "with an explicit deny in a service control policy", nil), cloud.Denied, "the policy's owner"},
		"key disabled":  {answered(400, "CustomerKeyHasBeenRevoked", "the key cannot be accessed", nil), cloud.Denied, "enable the key"},
		"key denied":    {answered(400, "KMSKeyNotAccessibleFault", "not accessible", nil), cloud.Denied, "docs/reference/aws.md#permissions"},
		"token is old":  {answered(400, "RequestExpired", "expired", nil), cloud.Unauthenticated, "new credential"},
		"old elsewhere": {answered(403, "ExpiredToken", "expired", nil), cloud.Unauthenticated, "new credential"},
		"too many":      {answered(503, "RequestLimitExceeded", "slow down", nil), cloud.Throttled, "slow down"},
		"no room":       {answered(500, "InsufficientInstanceCapacity", "not enough", nil), cloud.Unavailable, "not enough"},
		"broken":        {answered(500, "SomethingElse", "oh", nil), cloud.Unavailable, "oh"},
		"quota":         {answered(400, "SnapshotLimitExceeded", "you have 10", nil), cloud.QuotaExceeded, "larger quota"},
		"images":        {answered(400, "AMIQuotaExceeded", "you have 10", nil), cloud.QuotaExceeded, "larger quota"},
		"in use":        {answered(400, "InvalidSnapshot.InUse", "by ami-1", nil), cloud.Conflict, "by ami-1"},
		"nonsense":      {answered(400, "InvalidParameterValue", "what?", nil), cloud.Invalid, "what?"},
		"given up":      {context.DeadlineExceeded, cloud.Unavailable, "given up"},
		"no credential": {errors.New("operation error EC2: StartInstances, get identity: get credentials: no EC2 IMDS role found"),
			cloud.Unauthenticated, "AWS_PROFILE"},
		"no answer": {errors.New("dial tcp: connection refused"), cloud.Unavailable, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			got := fail("start", instance{id: "i-1"}, test.err)
			if cloud.KindOf(got) != test.kind || !strings.Contains(got.Error(), test.says) ||
				!strings.HasPrefix(got.Error(), "start instance i-1: ") || !errors.Is(got, test.err) {
				t.Errorf("%v", got)
			}
			if again := fail("look", instance{}, got); again.Error() != got.Error() {
				t.Errorf("it was wrapped again: %v", again)
			}
		})
	}
	if fail("start", instance{}, nil) != nil {
		t.Error("nothing is an error")
	}
	later := fail("start", instance{}, answered(503, "RequestLimitExceeded", "", http.Header{"Retry-After": {"7"}}))
	if cloud.RetryAfter(later) != 7*time.Second {
		t.Errorf("to be repeated after %s", cloud.RetryAfter(later))
	}
}

// TestImageNames: image names are unique per family and version, valid in AWS, and contain the version.
func TestImageNames(t *testing.T) {
	p := newDisks()
	seen := map[string]cloud.FamilyVersion{}
	rapid.Check(t, func(t *rapid.T) {
		ref := cloud.FamilyVersion{
			Family:  cloud.ImageFamily{Place: "eu-central-1", Name: rapid.StringMatching(`[!-9;-~ ]{1,255}`).Draw(t, "group")},
			Version: rapid.StringMatching(`20[0-9]{2}\.[01][0-9]\.[0-3][0-9]([0-9]{2})?`).Draw(t, "version"),
		}
		name := imageName(ref)
		if len(name) < 3 || len(name) > maxName || illegalInName.MatchString(name) {
			t.Fatalf("AWS does not take %q", name)
		}
		if other, found := seen[name]; found && other != ref {
			t.Fatalf("%q is of %+v and %+v", name, ref, other)
		}
		seen[name] = ref
		if version, latest := p.VersionOf(ref.Family, p.ImageID(ref)); version != ref.Version || latest {
			t.Fatalf("%q is read as version %q", name, version)
		}
		if version, _ := p.VersionOf(cloud.ImageFamily{Place: "eu-west-1", Name: ref.Family.Name}, p.ImageID(ref)); version != "" {
			t.Fatalf("another region's is read as version %q", version)
		}
	})
	for _, foreign := range []string{"", "ami-0123456789abcdef0", "eu-central-1/mine", "eu-central-1/kamino/other/2026.03.14"} {
		if version, _ := p.VersionOf(cloud.ImageFamily{Place: "eu-central-1", Name: "workers"}, foreign); version != "" {
			t.Errorf("%q is taken for version %q", foreign, version)
		}
	}
}

// TestMachineText: the description of a machine survives the round trip through a tag.
func TestMachineText(t *testing.T) {
	m := imageProperties{Architecture: "x86_64_mac", Root: "/dev/nvme-a-long-name0n1", ENA: true, Sriov: "simple", BootMode: "uefi-preferred",
		TPM: "v2.0", IMDS: "v2.0", Volume: "standard", Iops: 256_000, Throughput: 1000}
	if back, err := parseProperties(m.String()); err != nil || back != m || len(m.String()) > maxTagValue {
		t.Errorf("%s: %+v, %v", m, back, err)
	}
	for _, bad := range []string{"", "{", "{}", `{"a":"arm64"}`, `{"r":"/dev/xvda"}`} {
		if m, err := parseProperties(bad); err == nil {
			t.Errorf("%q is taken for %+v", bad, m)
		}
	}
	in := m.registration(cloud.FamilyVersion{Family: cloud.ImageFamily{Name: "workers"}, Version: "1"}, "snap-1", nil)
	if sdk.ToString(in.VirtualizationType) != "hvm" || in.BlockDeviceMappings[0].Ebs.Encrypted != nil ||
		sdk.ToInt32(in.BlockDeviceMappings[0].Ebs.Iops) != 256_000 {
		t.Errorf("%+v", in)
	}
}

func TestRefusals(t *testing.T) {
	for want, m := range map[string]types.Instance{
		cloud.StopTerminates:    {InstanceLifecycle: types.InstanceLifecycleTypeSpot},
		cloud.DiskUnsupported:   {RootDeviceType: types.DeviceTypeInstanceStore},
		cloud.SystemUnsupported: {Platform: types.PlatformValuesWindows},
	} {
		found := refusalsOf(instance{id: "i-1"}, m)
		if len(found) != 1 || found[0].Reason != want || found[0].Remedy == "" || !strings.Contains(found[0].Message, "i-1") {
			t.Errorf("%+v, want %s", found, want)
		}
	}
	if found := refusalsOf(instance{},
		types.Instance{RootDeviceType: types.DeviceTypeEbs,
			ProductCodes: []types.ProductCode{{ProductCodeType: types.ProductCodeValuesMarketplace}}}); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}

// TestPower has every state of EC2's.
func TestPower(t *testing.T) {
	for state, want := range map[types.InstanceStateName]cloud.Power{
		"pending": cloud.PowerStarting, "running": cloud.PowerRunning, "shutting-down": cloud.PowerStopping, "terminated": cloud.PowerStopped,
		"stopping": cloud.PowerStopping, "stopped": cloud.PowerStopped, "": cloud.PowerUnknown, "dreaming": cloud.PowerUnknown,
	} {
		if got := powerOf(types.Instance{State: &types.InstanceState{Name: state}}); got != want {
			t.Errorf("%s is %q, want %q", state, got, want)
		}
	}
}

// TestRecentOperations: created and deleted snapshots are remembered until the consistency delay of AWS has passed.
func TestRecentOperations(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a := newAccount(Config{Now: func() time.Time { return now }})
	a.recordCreated("x", "snap-1", map[string]string{"for": "us"})
	a.recordCreated("y", "snap-2", nil)
	a.recordDeleted("eu-central-1", "snap-2")
	if a.recentlyCreated("x").id != "snap-1" || a.recentlyCreated("x").tags["for"] != "us" || a.recentlyCreated("y").id != "" ||
		!a.recentlyDeleted("eu-central-1", "snap-2") || a.recentlyDeleted("eu-west-1", "snap-2") || a.recentlyCreated("z").id != "" {
		t.Errorf("%+v, %+v", a.created, a.deleted)
	}
	now = now.Add(consistencyDelay + time.Second)
	if a.recentlyCreated("x").id != "" || a.recentlyDeleted("eu-central-1", "snap-2") || len(a.created)+len(a.deleted) > 0 {
		t.Errorf("%+v, %+v", a.created, a.deleted)
	}
}

func newDisks() *ImageProvider {
	disks, _ := New(Config{})
	return disks
}
