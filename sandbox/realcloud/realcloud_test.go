package realcloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// lab is a simulated account with a run's name and report.
type lab struct {
	*testing.T
	*simulation
	o options
}

func newLab(t *testing.T, policy string) *lab {
	t.Helper()
	sim, err := simulate(policy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.close)
	return &lab{t, sim, options{run: "rtestz", yes: true, report: filepath.Join(t.TempDir(), "report.json")}}
}

// run is the command, in the simulated account.
func (l *lab) run(ctx context.Context) (string, error) {
	out := &bytes.Buffer{}
	err := runIn(ctx, l.world, l.o, strings.NewReader(""), out)
	return out.String(), err
}

// wantEmpty fails if the account has anything besides what was there from the start.
func (l *lab) wantEmpty(when string) {
	l.Helper()
	ctx := context.WithoutCancel(l.Context())
	l.must(l.simulation.wait(ctx, 2*simulatedLag))
	raw := ec2.NewFromConfig(l.config)
	var left []string
	vpcs, err := raw.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
	l.must(err)
	for _, v := range vpcs.Vpcs {
		if !sdk.ToBool(v.IsDefault) {
			left = append(left, "a VPC")
		}
	}
	volumes, err := raw.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{})
	l.must(err)
	snapshots, err := raw.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}})
	l.must(err)
	images, err := raw.DescribeImages(ctx, &ec2.DescribeImagesInput{Owners: []string{"self"}})
	l.must(err)
	templates, err := raw.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{})
	l.must(err)
	instances, err := raw.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []types.Filter{
		filter("instance-state-name", "pending", "running", "shutting-down", "stopping", "stopped")}})
	l.must(err)
	groups, err := autoscaling.NewFromConfig(l.config).DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{})
	l.must(err)
	for what, n := range map[string]int{"volumes": len(volumes.Volumes), "snapshots": len(snapshots.Snapshots), "images": len(images.Images),
		"templates": len(templates.LaunchTemplates), "reservations": len(instances.Reservations), "groups": len(groups.AutoScalingGroups)} {
		if n > 0 {
			left = append(left, fmt.Sprintf("%d %s", n, what))
		}
	}
	if len(left) > 0 {
		l.Errorf("%s: left: %s", when, strings.Join(left, ", "))
	}
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func TestWholeRun(t *testing.T) {
	l := newLab(t, "")
	out, err := l.run(t.Context())
	t.Log(out)
	l.must(err)
	r, err := Read(l.o.report)
	l.must(err)
	if len(r.Checks) != len(checks) {
		t.Errorf("%d of %d checks ran", len(r.Checks), len(checks))
	}
	for _, c := range r.Checks {
		if c.Outcome != AsAssumed {
			t.Errorf("%s %s: %s", c.Name, c.Outcome, c.Seen)
		}
	}
	changed := 0
	for _, c := range r.Calls {
		if rules[c.Action].effect != reads {
			changed++
		}
	}
	t.Logf("%d calls, %d of them changes, in %s of the cloud's time", len(r.Calls), changed, r.Ended.Sub(r.Began))
	for _, m := range r.Measured {
		t.Logf("%6.1f s %s", m.Seconds, m.What)
	}
	for _, f := range r.Refusals {
		t.Logf("%s: %s: %s", f.Action, f.Code, f.Text)
	}
	l.wantEmpty("after the run")

	l.wantNoSecrets()

	compared := &bytes.Buffer{}
	if err := compareCommand(t.Context(), []string{l.o.report}, compared); err != nil {
		t.Errorf("the simulation differs from itself: %v\n%s", err, compared)
	}
}

// wantNoSecrets looks for the account's secrets and IDs in the report of a run.
func (l *lab) wantNoSecrets() {
	l.Helper()
	text, err := os.ReadFile(l.o.report)
	l.must(err)
	credential, err := l.config.Credentials.Retrieve(l.Context())
	l.must(err)
	for _, secret := range []string{simulatedAccount, simulatedKey, credential.SecretAccessKey, "user/someone"} {
		if strings.Contains(string(text), secret) {
			l.Errorf("the report of a run has %s", secret)
		}
	}
	if id := regexp.MustCompile(`\b(i|vol|snap|ami|vpc|subnet|lt)-[0-9a-f]{17}\b`).FindString(string(text)); id != "" {
		l.Errorf("the report of a run has %s", id)
	}
}

// TestReports plays back the reports of real clouds. A difference is fixed in the simulation.
func TestReports(t *testing.T) {
	files, err := filepath.Glob("testdata/reports/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("no one has sent a report yet")
	}
	simulated, err := simulatedReport(t.Context(), io.Discard, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		r, err := Read(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range Compare(r, simulated) {
			t.Errorf("%s: %s", file, d)
		}
	}
}

func TestCompareFindsDifferences(t *testing.T) {
	base := func() *Report {
		return &Report{Checks: []Check{{Name: "a", Sentence: "A.", Seen: "one", Outcome: AsAssumed}},
			Measured: []Measure{{"exit standby", 10}, {"age of a token", 5}}, Refusals: []Refusal{{"ExitStandby", "ValidationError", "no"}}}
	}
	for name, c := range map[string]struct {
		change func(*Report)
		want   string
	}{
		"the same":            {func(*Report) {}, ""},
		"another observation": {func(r *Report) { r.Checks[0].Seen = "two" }, "The cloud: two. The simulation: one"},
		"unclear":             {func(r *Report) { r.Checks[0].Outcome = Unclear }, "unclear"},
		"unknown check":       {func(r *Report) { r.Checks = append(r.Checks, Check{Name: "b"}) }, "no such check"},
		"missing check":       {func(r *Report) { r.Checks = nil }, "the report lacks it"},
		"slower":              {func(r *Report) { r.Measured[0].Seconds = 90 }, "the cloud 90 s, the simulation 10 s"},
		"a little slower":     {func(r *Report) { r.Measured[0].Seconds = 25 }, ""},
		"an older token":      {func(r *Report) { r.Measured[1].Seconds = 900 }, ""},
		"another text":        {func(r *Report) { r.Refusals[0].Text = "never" }, `the cloud: "never", the simulation: "no"`},
		"another code":        {func(r *Report) { r.Refusals[0].Code = "Busy" }, "which the simulation did not return"},
	} {
		t.Run(name, func(t *testing.T) {
			r := base()
			c.change(r)
			got := strings.Join(Compare(r, base()), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestTable holds the checks and the table of docs/reference/aws.md together.
func TestTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/aws.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n## Not verified on real AWS\n")
	if !found {
		t.Fatal("the page has no table")
	}
	rows := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^\| \w+ \| (.+) \|$`).FindAllStringSubmatch(table, -1) {
		if row[1] != "assumption" {
			rows[row[1]]++
		}
	}
	covered := map[string]int{}
	for _, c := range checks {
		covered[c.sentence]++
	}
	for sentence, reason := range unchecked {
		if covered[sentence]++; reason == "" {
			t.Errorf("%q is not checked, without a reason", sentence)
		}
	}
	for sentence := range rows {
		if covered[sentence] != 1 {
			t.Errorf("%d checks or reasons for the row %q", covered[sentence], sentence)
		}
	}
	for sentence := range covered {
		if rows[sentence] != 1 {
			t.Errorf("no row of the page for %q", sentence)
		}
	}
}

// death kills a run before or after a call.
type death struct {
	mu     sync.Mutex
	at     int
	after  bool
	seen   int
	action string
	kill   context.CancelCauseFunc
}

var errKilled = errors.New("killed")

func (d *death) intercept(ctx context.Context, action string, does effect, after bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if does == reads {
		return ctx.Err()
	}
	if !after {
		d.seen++
	}
	if d.seen == d.at && after == d.after && d.action == "" {
		d.action = action
		d.kill(errKilled)
		return errKilled
	}
	return ctx.Err()
}

// killedAt runs until a changing call; the name of the action is empty if the run has fewer calls.
func (l *lab) killedAt(at int, after bool) string {
	l.Helper()
	ctx, kill := context.WithCancelCause(l.Context())
	defer kill(nil)
	d := &death{at: at, after: after, kill: kill}
	l.intercept = d.intercept
	_, err := l.run(ctx)
	l.intercept = nil
	if d.action == "" {
		l.must(err)
	} else if err == nil {
		l.Errorf("the run survived its death in %s", d.action)
	}
	return d.action
}

// TestKilled kills the run before and after each change. clean, which knows nothing of the run, then leaves nothing. The short suite
// takes three changes.
func TestKilled(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 20
	}
	for _, after := range []bool{true, false} {
		for at := 1; ; at += step {
			if testing.Short() && !after {
				break
			}
			l := newLab(t, "")
			action := l.killedAt(at, after)
			if action == "" {
				break
			}
			when := fmt.Sprintf("killed at change %d, %s, answered: %t", at, action, after)
			t.Log(when)
			out := &bytes.Buffer{}
			if err := cleanIn(t.Context(), l.world, options{}, out); err != nil {
				t.Errorf("%s: %v\n%s", when, err, out)
			}
			l.wantEmpty(when)
			l.close()
		}
	}
}

// TestContinues kills the run in each third of it, and runs the command again.
func TestContinues(t *testing.T) {
	for _, at := range []int{2, 12, 25, 38} {
		for _, after := range []bool{false, true} {
			if testing.Short() && (at != 25 || !after) {
				continue
			}
			l := newLab(t, "")
			l.o.run = ""
			action := l.killedAt(at, after)
			if action == "" {
				t.Fatalf("the run has fewer than %d changes", at)
			}
			l.must(l.simulation.wait(t.Context(), 2*simulatedLag))
			out, err := l.run(t.Context())
			if err != nil {
				t.Fatalf("after a death at change %d, %s: %v\n%s", at, action, err, out)
			}
			r, err := Read(l.o.report)
			l.must(err)
			for _, c := range r.Checks {
				if c.Outcome != AsAssumed {
					t.Errorf("after a death at change %d, %s: %s %s: %s", at, action, c.Name, c.Outcome, c.Seen)
				}
			}
			networks := 0
			for _, c := range r.Calls {
				if c.Action == "CreateVpc" {
					networks++
				}
			}
			if len(r.Checks) != len(checks) || networks != 1 {
				t.Errorf("after a death at change %d: %d checks, %d networks", at, len(r.Checks), networks)
			}
			l.wantEmpty("continued")
		}
	}
}

// TestPolicyIsEnough runs as a user who may only do what the printed policy says.
func TestPolicyIsEnough(t *testing.T) {
	if testing.Short() {
		t.Skip("a whole run")
	}
	policy, err := Policy("rtestz")
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, string(policy))
	out, err := l.run(t.Context())
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := Read(l.o.report)
	l.must(err)
	for _, f := range r.Refusals {
		if f.Code == "UnauthorizedOperation" || f.Code == "AccessDenied" {
			t.Errorf("%s: %s", f.Action, f.Text)
		}
	}
	if slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Outcome != AsAssumed }) || len(r.Checks) != len(checks) {
		t.Errorf("the checks: %+v", r.Checks)
	}

	// Another run's resources are out of reach.
	other := open(l.world, io.Discard, "rotherz", l.now().Add(time.Hour))
	if _, err := other.ec2.CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: sdk.String("10.213.0.0/24"),
		TagSpecifications: other.tagged(types.ResourceTypeVpc)}); code(err) != "UnauthorizedOperation" {
		t.Errorf("the policy allows another run: %v", err)
	}
}

func TestReportHasNoSecrets(t *testing.T) {
	l := newLab(t, "")
	planted := map[string]string{"account": simulatedAccount, "access key": simulatedKey, "user": "alice.smith",
		"user's ID": "AIDACKCEVSQ6C2EXAMPLE", "token": "FwoGZXIvYXdzEBYaDKMbanHgJ7Vb7hTAtw3Xq7", "mail": "alice@example.com", "instance": "i-0123456789abcdef0",
		"short ID": "vpc-1a2b3c4d", "request": "7a62c49f-347e-4fc4-9331-6e8eEXAMPLE"}
	r := newReport("rtestz", "eu-central-1", time.Unix(0, 0))
	r.Calls = []Call{{Action: "DescribeInstances", Request: map[string]any{"X-Amz-Security-Token": planted["token"], "Note": "account " + planted["account"]},
		Code: "UnauthorizedOperation", Text: "User: arn:aws:iam::" + planted["account"] + ":user/" + planted["user"] + " may not touch " + planted["instance"],
		Answer: map[string]any{"ownerId": planted["account"], "userId": planted["user's ID"], "keys": []any{planted["access key"], planted["mail"]},
			"vpcId": planted["short ID"], "sessionToken": planted["token"], "text": "session token=" + planted["token"]}}}
	r.record(&wire{})
	r.Checks = []Check{{Name: "a", Seen: "no " + planted["instance"] + " of " + planted["account"]}}
	l.must(r.write(l.o.report))
	text, err := os.ReadFile(l.o.report)
	l.must(err)
	for what, secret := range planted {
		if strings.Contains(string(text), secret) {
			t.Errorf("the report has the %s %s:\n%s", what, secret, text)
		}
	}
	if !strings.Contains(string(text), "may not touch i-") || !strings.Contains(string(text), "UnauthorizedOperation") {
		t.Errorf("the report lost what it is for:\n%s", text)
	}
}

// TestGuard sends what no run sends.
func TestGuard(t *testing.T) {
	l := newLab(t, "")
	ctx := t.Context()
	foreign, err := ec2.NewFromConfig(l.config).CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: sdk.String("eu-central-1a"), Size: sdk.Int32(1)})
	l.must(err)
	l.must(l.simulation.wait(ctx, 2*simulatedLag))
	sent := 0
	l.intercept = func(_ context.Context, _ string, does effect, _ bool) error {
		if does != reads {
			sent++
		}
		return nil
	}
	s := open(l.world, io.Discard, "rtestz", l.now().Add(time.Hour))
	tags := s.tagged(types.ResourceTypeVolume)
	other := open(l.world, io.Discard, "rotherz", l.now().Add(time.Hour)).tagged(types.ResourceTypeVolume)
	for name, call := range map[string]func() error{
		"a call that no rule has": func() error {
			_, err := s.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{"i-1"}})
			return err
		},
		"a volume of someone": func() error {
			_, err := s.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: foreign.VolumeId})
			return err
		},
		"a snapshot of someone's volume": func() error {
			_, err := s.ec2.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: foreign.VolumeId, TagSpecifications: s.tagged(types.ResourceTypeSnapshot)})
			return err
		},
		"no tags": func() error {
			_, err := s.ec2.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: sdk.String("eu-central-1a"), Size: sdk.Int32(1)})
			return err
		},
		"tags of another run": func() error {
			_, err := s.ec2.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: sdk.String("eu-central-1a"), Size: sdk.Int32(1), TagSpecifications: other})
			return err
		},
		"a large volume": func() error {
			_, err := s.ec2.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: sdk.String("eu-central-1a"), Size: sdk.Int32(500), TagSpecifications: tags})
			return err
		},
		"a large instance": func() error {
			_, err := s.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("x-y"),
				LaunchTemplateData: s.recipe(func(d *types.RequestLaunchTemplateData) { d.InstanceType = "p5.48xlarge" }),
				TagSpecifications:  s.tagged(types.ResourceTypeLaunchTemplate)})
			return err
		},
		"a template without tags for machines": func() error {
			_, err := s.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("x-y"),
				LaunchTemplateData: s.recipe(func(d *types.RequestLaunchTemplateData) { d.TagSpecifications = nil }),
				TagSpecifications:  s.tagged(types.ResourceTypeLaunchTemplate)})
			return err
		},
		"a machine with rights": func() error {
			_, err := s.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("x-y"),
				LaunchTemplateData: s.recipe(func(d *types.RequestLaunchTemplateData) {
					d.IamInstanceProfile = &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: sdk.String("admin")}
				}), TagSpecifications: s.tagged(types.ResourceTypeLaunchTemplate)})
			return err
		},
		"many instances": func() error {
			_, err := s.ec2.RunInstances(ctx, &ec2.RunInstancesInput{MinCount: sdk.Int32(1), MaxCount: sdk.Int32(9),
				TagSpecifications: s.tagged(types.ResourceTypeInstance)})
			return err
		},
		"a group of someone": func() error {
			_, err := s.groups.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: sdk.String("production")})
			return err
		},
		"a large group": func() error {
			_, err := s.groups.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: s.groupName(), MaxSize: sdk.Int32(50)})
			return err
		},
	} {
		if err := call(); !isRefusal(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	l.must(l.simulation.wait(ctx, 2*time.Hour))
	late := s.tagged(types.ResourceTypeVpc)
	if _, err := s.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: sdk.String("10.213.0.0/24"), TagSpecifications: late}); !isRefusal(err) {
		t.Errorf("after the end: %v", err)
	}
	if sent != 0 {
		t.Errorf("%d changes were sent", sent)
	}
}

// TestOnlyTheGuard holds that no client is made beside those of a session, and that only the wire sends.
func TestOnlyTheGuard(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../cmd/verify-cloud/main.go")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for form, allowed := range map[string]map[string]int{
			`\.NewFromConfig\(`: {"session.go": 4}, `\.Do\(`: {"wire.go": 1}, `http\.(?:Get|Post|Head|NewRequest)`: {}, `ec2\.New\(|autoscaling\.New\(`: {},
			`HTTPClient = s\.guard`: {"session.go": 1}, `exec\.Command`: {},
		} {
			if n := len(regexp.MustCompile(form).FindAll(text, -1)); n != allowed[file] {
				t.Errorf("%s has %d of %s, not %d", file, n, form, allowed[file])
			}
		}
	}
}

func TestPriceIsBelowTheLimit(t *testing.T) {
	if most := price(lifetime); most > DefaultLimit || most <= 0 {
		t.Errorf("a run can cost %.2f $", most)
	}
	out := &bytes.Buffer{}
	err := do(t.Context(), []string{"run", "--limit", "0.01", "--yes"}, strings.NewReader(""), out, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "the limit is 0.01 $") || !strings.Contains(out.String(), "ASSUMED PRICE") {
		t.Errorf("got %v and\n%s", err, out)
	}
	if Main(t.Context(), []string{"run", "--cloud", "azure"}, strings.NewReader(""), out, io.Discard) != 1 {
		t.Error("azure has no checks, and no error")
	}
}

func TestNothingWithoutYes(t *testing.T) {
	l := newLab(t, "")
	l.o.yes = false
	changed := false
	l.intercept = func(_ context.Context, _ string, does effect, _ bool) error {
		changed = changed || does != reads
		return nil
	}
	out := &bytes.Buffer{}
	if err := runIn(t.Context(), l.world, l.o, strings.NewReader("no\n"), out); err == nil || changed {
		t.Errorf("got %v, changed: %t\n%s", err, changed, out)
	}
}

func TestDryRunNamesPermissions(t *testing.T) {
	if testing.Short() {
		t.Skip("a whole run")
	}
	out := &bytes.Buffer{}
	if err := dryRun(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	for action, r := range rules {
		if !strings.Contains(out.String(), r.permission(action)) && action != "GetCallerIdentity" {
			t.Errorf("the dry run has no %s: no run needs it, or the simulation hides it", action)
		}
	}
}

func TestChooseRun(t *testing.T) {
	now := time.Unix(1e9, 0)
	later, before := now.Add(time.Hour), now.Add(-time.Hour)
	for name, c := range map[string]struct {
		found []Run
		run   string
		want  string
		fails string
	}{
		"new":          {want: ""},
		"named":        {run: "ra", want: "ra"},
		"continued":    {found: []Run{{"rb", later}}, want: "rb"},
		"ended":        {found: []Run{{"rb", before}}, fails: "clean --run rb"},
		"several":      {found: []Run{{"rb", later}, {"rc", later}}, fails: "--run"},
		"one of them":  {found: []Run{{"rb", later}, {"rc", later}}, run: "rc", want: "rc"},
		"named beside": {found: []Run{{"rb", later}}, run: "rd", want: "rd"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := choose(c.found, options{run: c.run}, now)
			switch {
			case c.fails != "":
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("got %v", err)
				}
			case err != nil || c.want != "" && got.Name != c.want || got.Name == "" || !got.End.After(now):
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestSimulationRefusesAWrongCredential(t *testing.T) {
	l := newLab(t, "")
	l.config.Credentials = credentials.NewStaticCredentialsProvider(simulatedKey, "wrong", "")
	if _, err := l.run(t.Context()); err == nil {
		t.Error("a run with a wrong secret succeeded")
	}
}

// TestPages holds the pages to the program: the price, the number of checks, and a row for each report.
func TestPages(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join("../../docs", path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	prices := &bytes.Buffer{}
	printPrice(prices, lifetime)
	page := read("contribute/verify-cloud.md")
	for _, text := range []string{"```text\n" + prices.String() + "```\n", fmt.Sprintf("tries %d assumptions", len(checks))} {
		if !strings.Contains(page, text) {
			t.Errorf("docs/contribute/verify-cloud.md lacks\n%s", text)
		}
	}
	_, table, found := strings.Cut(read("reference/verification.md"), "| cloud | region | month |")
	table, _, _ = strings.Cut(table, "\n\n")
	reports, err := filepath.Glob("testdata/reports/*.json")
	if err != nil || !found || strings.Count(table, "\n")-1 != len(reports) {
		t.Errorf("docs/reference/verification.md has %d rows for %d reports: %v", strings.Count(table, "\n")-1, len(reports), err)
	}
}
