package aws

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"slices"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	simulator "github.com/kamino-dev/kamino/sandbox/aws"
	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// simulation is the simulated AWS in this process, with a time that only waits move.
type simulation struct {
	now    func() time.Time
	wait   func(context.Context, time.Duration) error
	config sdk.Config
	server *simulator.Server
	web    *httptest.Server
	dir    string
}

// Facts of the simulated account.
const (
	simulatedAccount = "123456789012"
	simulatedRegion  = "eu-central-1"
	simulatedKey     = "AKIAIOSFODNN7EXAMPLE"
	// simulatedLag is how long the simulation does not show what is new.
	simulatedLag = 20 * time.Second
)

// simulate starts a simulated AWS for a user with a policy; an empty policy allows everything.
func simulate(policy string) (*simulation, error) {
	dir, err := os.MkdirTemp("", "kamino-verify-")
	if err != nil {
		return nil, err
	}
	s := &simulation{dir: dir}
	calendar := &clock.Calendar{}
	now := clock.Clock{Calendar: calendar}
	secret := rand.Text()
	s.server, err = simulator.New(simulator.Config{Dir: dir, Clock: now, Fleet: fleet.NewMemory(), Account: simulatedAccount, Region: simulatedRegion,
		Lag: simulatedLag, Users: []simulator.User{{Name: "someone", KeyID: simulatedKey, Secret: secret, Policy: policy}},
		Images: []simulator.Platform{{ID: "ami-0123456789abcdef0", Name: "al2023-ami-minimal-2023.9.20251117.1-kernel-6.1-x86_64",
			Content: "platform:x86", Size: 2, Uefi: "QU1aTlVFRkkAAAAA", Tpm: "v2.0"}},
		DeniedKeys: []string{noKey},
		Throttle:   simulator.Throttle{ReadBurst: 1e6, WriteBurst: 1e6, GroupBurst: 1e6}})
	if err != nil {
		_ = os.RemoveAll(dir) // the first error counts
		return nil, err
	}
	s.web = httptest.NewUnstartedServer(s.server.Handler())
	s.web.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.web.StartTLS()
	s.now = now.Now
	s.config = sdk.Config{Region: simulatedRegion, BaseEndpoint: sdk.String(s.web.URL), HTTPClient: s.web.Client(),
		Credentials: credentials.NewStaticCredentialsProvider(simulatedKey, secret, "")}
	s.wait = func(ctx context.Context, d time.Duration) error {
		calendar.Skip(d)
		// The simulated cloud works on its own, in real time.
		time.Sleep(time.Millisecond)
		return ctx.Err()
	}
	return s, nil
}

func (s *simulation) account() *realcloud.Account {
	a := accountOf(s.config)
	a.Now, a.Wait, a.Simulated, a.Left = s.now, s.wait, true, s.left
	return a
}

func (s *simulation) close() {
	s.web.Close()
	s.server.Close()
	_ = os.RemoveAll(s.dir) // in the directory for temporary files
}

// left lists what exists besides what was there from the start. What is new or gone takes its time to be shown.
func (s *simulation) left() (all []string) {
	ctx := context.Background()
	_ = s.wait(ctx, 2*simulatedLag) // never ends early
	clients := ec2.NewFromConfig(s.config)
	for what, count := range map[string]func() (int, error){
		"VPCs": func() (int, error) {
			out, err := clients.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
			return countIf(err, func() int {
				return len(slices.DeleteFunc(out.Vpcs, func(v types.Vpc) bool { return sdk.ToBool(v.IsDefault) }))
			})
		},
		"volumes": func() (int, error) {
			out, err := clients.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{})
			return countIf(err, func() int { return len(out.Volumes) })
		},
		"snapshots": func() (int, error) {
			out, err := clients.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}})
			return countIf(err, func() int { return len(out.Snapshots) })
		},
		"images": func() (int, error) {
			out, err := clients.DescribeImages(ctx, &ec2.DescribeImagesInput{Owners: []string{"self"}, IncludeDisabled: sdk.Bool(true)})
			return countIf(err, func() int { return len(out.Images) })
		},
		"launch templates": func() (int, error) {
			out, err := clients.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{})
			return countIf(err, func() int { return len(out.LaunchTemplates) })
		},
		"reservations": func() (int, error) {
			out, err := clients.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []types.Filter{
				filter("instance-state-name", "pending", "running", "shutting-down", "stopping", "stopped")}})
			return countIf(err, func() int { return len(out.Reservations) })
		},
		"groups": func() (int, error) {
			out, err := autoscaling.NewFromConfig(s.config).DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{})
			return countIf(err, func() int { return len(out.AutoScalingGroups) })
		},
	} {
		if n, err := count(); n > 0 || err != nil {
			all = append(all, fmt.Sprint(n, " ", what, " ", err))
		}
	}
	return all
}

func countIf(err error, n func() int) (int, error) {
	if err != nil {
		return 0, err
	}
	return n(), nil
}
