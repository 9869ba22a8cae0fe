package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/aws"
	"github.com/kamino-dev/kamino/sandbox/aws"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

// grant is a policy of docs/reference, for the account, the nodes and the user of the simulator.
type grant struct {
	Version   string
	Statement []map[string]any
}

const nodeProfile = "node"

// The policy for pools with a tag, and the policy for all pools. The variants mighty also have all powers: captures in place, and rebuilds.
const byTags, untagged, mighty = "by tags", "untagged", ", mighty"

// policies are all policies, and whether they have the powers.
var policies = map[string]bool{byTags: false, untagged: false, byTags + mighty: true, untagged + mighty: true}

// published returns a policy.
func published(t *testing.T, name string) (p grant) {
	t.Helper()
	of, powers := provider.Policy, []string{}
	if strings.HasPrefix(name, byTags) {
		of = provider.PolicyByTags
	}
	if strings.HasSuffix(name, mighty) {
		powers = []string{cloud.ForInPlace, cloud.ForRebuild, cloud.ForWarmPool}
	}
	text, err := of(powers...)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.NewReplacer("ACCOUNT", "123456789012", "ROLE-OF-THE-NODES", nodeProfile,
		"role/ROLE-OF-KAMINO", "user/narrow").Replace(string(text)))
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// actions are the actions of a statement.
func (p grant) actions(statement int) (names []string) {
	for _, a := range p.Statement[statement]["Action"].([]any) {
		names = append(names, a.(string))
	}
	return names
}

// without returns the policy without an action of a statement.
func (p grant) without(statement int, action string) grant {
	changed := maps.Clone(p.Statement[statement])
	changed["Action"] = slices.DeleteFunc(p.actions(statement), func(a string) bool { return a == action })
	p.Statement = slices.Clone(p.Statement)
	p.Statement[statement] = changed
	return p
}

// newNarrow returns a group whose provider has the policy. raw and scaling stay those of an administrator.
func newNarrow(t *testing.T, on *wire, p grant, change ...func(*aws.Config)) *amazonGroup {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	w := groupOf(t, startAmazonOn(t, on, atOnce, append(change, func(c *aws.Config) {
		c.Users = append(c.Users, aws.User{Name: "narrow", KeyID: "AKIANARROW", Secret: "narrow", Policy: string(text)})
		c.Images[0].Uefi, c.Images[0].BootMode = "QU1aTlVFRkk=", "uefi"
	})...), "1").suspendReplacement()
	w.config.AWS.Credentials = sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
		return sdk.Credentials{AccessKeyID: "AKIANARROW", SecretAccessKey: "narrow"}, nil
	})
	w.disks, w.recipes = provider.New(w.config)
	return w
}

// enable sets the tag of the policy on the group, its instances and its launch template, whose instances get a role.
func (w *amazonGroup) enable() *amazonGroup {
	w.Helper()
	tag("kamino", "enabled")(w)
	ids := []string{w.template}
	for _, m := range w.group().Instances {
		ids = append(ids, *m.InstanceId)
	}
	_, err := w.raw.CreateTags(w.Context(), &ec2.CreateTagsInput{Resources: ids, Tags: []ec2types.Tag{{Key: sdk.String("kamino"),
		Value: sdk.String("enabled")}}})
	w.must(err)
	_, err = w.raw.CreateLaunchTemplateVersion(w.Context(), &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: sdk.String(w.template), SourceVersion: sdk.String("1"),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: sdk.String(nodeProfile)}}})
	w.must(err)
	_, err = w.scaling.UpdateAutoScalingGroup(w.Context(), &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup),
		LaunchTemplate: &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: sdk.String(w.template), Version: sdk.String("2")}})
	w.must(err)
	w.advance(time.Minute)
	return w
}

// chapter is a part of what Kamino does with a group.
type chapter struct {
	name string
	do   func(ctx context.Context, w *amazonGroup) error
}

// byPower need the powers.
var byPower = []string{"protects and stops a donor", "returns the donor", "rebuilds a node", "renews a warm pool"}

// repeat repeats a call until it is done, or until an error.
func (w *amazonGroup) repeat(call func() (done bool, err error)) error {
	for range 500 {
		if done, err := call(); done || err != nil {
			return err
		}
		w.advance(10 * time.Second)
	}
	return errors.New("it does not end")
}

// chapters are everything that Kamino does with a group, with or without captures in place: every request, each in the first chapter
// that needs the request.
func chapters(stops bool) []chapter {
	const version = "2026.03.14"
	ref := cloud.FamilyVersion{Family: amazonLine, Version: version}
	shot := func(name string, id cloud.InstanceID) cloud.SnapshotSpec {
		return cloud.SnapshotSpec{Name: name, Instance: id, Tags: map[string]string{cloud.TagUID: "u", cloud.TagPrototype: name}}
	}
	trial := func(w *amazonGroup) cloud.TrialSpec {
		return cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: w.pool, Version: version}, Name: "it", To: w.disks.ImageID(ref),
			Tags: map[string]string{cloud.TagUID: "u"}}
	}
	workshop := func(w *amazonGroup) cloud.WorkshopSpec {
		return cloud.WorkshopSpec{Pool: w.pool, Name: "it", Tags: ofCopy()}
	}
	snapshotID, copied := "", cloud.CopySpec{Name: "it", Tags: ofCopy()}
	all := []chapter{
		{"reads a pool", func(ctx context.Context, w *amazonGroup) error {
			_, err := w.recipes.Pool(ctx, w.pool)
			_, err2 := w.recipes.PoolsOf(ctx, []cloud.NodeValues{{ProviderID: w.ids[0]}})
			_, err3 := w.recipes.Permissions(ctx, w.pool)
			return errors.Join(err, err2, err3)
		}},
		{"protects and stops a donor", func(ctx context.Context, w *amazonGroup) error {
			if err := w.recipes.ProtectFromScaleIn(ctx, w.ids[0], cloud.TokenProtected); err != nil {
				return err
			}
			return w.repeat(func() (bool, error) {
				power, err := w.disks.EnsureStopped(ctx, w.ids[0])
				return power == cloud.PowerStopped, err
			})
		}},
		{"copies its disk", func(ctx context.Context, w *amazonGroup) error {
			return w.repeat(func() (bool, error) {
				s, err := w.disks.EnsureSnapshot(ctx, shot("it", w.ids[0]))
				snapshotID = s.ID
				return s.State == cloud.Complete, err
			})
		}},
		{"returns the donor", func(ctx context.Context, w *amazonGroup) error {
			err := w.repeat(func() (bool, error) {
				power, err := w.disks.EnsureStarted(ctx, w.ids[0])
				return power == cloud.PowerRunning, err
			})
			if err == nil {
				err = w.recipes.Unprotect(ctx, w.ids[0], cloud.TokenProtected)
			}
			return err
		}},
		{"publishes an image", func(ctx context.Context, w *amazonGroup) error {
			return w.repeat(func() (bool, error) {
				im, err := w.disks.EnsureImage(ctx, cloud.VersionSpec{FamilyVersion: ref, SnapshotID: snapshotID,
					Tags: map[string]string{cloud.TagUID: "u"}})
				return im.State == cloud.Complete, err
			})
		}},
		{"hands the snapshot over, and tags the image", func(ctx context.Context, w *amazonGroup) error {
			return errors.Join(w.disks.DeleteSnapshot(ctx, w.ids[0], "it"), w.disks.TagImage(ctx, ref, map[string]string{"kamino-a": "b"}),
				w.disks.TagImage(ctx, ref, map[string]string{"kamino-a": ""}))
		}},
		{"forbids launches of the image, and allows them", func(ctx context.Context, w *amazonGroup) error {
			for _, want := range []cloud.Launches{cloud.LaunchesForbidden, cloud.LaunchesAllowed} {
				err := w.repeat(func() (bool, error) {
					im, err := w.disks.Image(ctx, ref)
					if err == nil && im.Launches != want {
						err = w.disks.AllowLaunches(ctx, ref, want == cloud.LaunchesAllowed)
					}
					return im.Launches == want, err
				})
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"deletes a snapshot", func(ctx context.Context, w *amazonGroup) error {
			err := w.repeat(func() (bool, error) {
				s, err := w.disks.EnsureSnapshot(ctx, shot("other", w.ids[0]))
				return s.State == cloud.Complete, err
			})
			return errors.Join(err, w.disks.DeleteSnapshot(ctx, w.ids[0], "other"))
		}},
		{"tries the version, restarts its instance, and reads its console", func(ctx context.Context, w *amazonGroup) error {
			var built []cloud.Instance
			err := w.repeat(func() (bool, error) {
				have, err := w.recipes.EnsureTrial(ctx, trial(w))
				built = have.Instances
				return have.State == cloud.Complete, err
			})
			if err != nil || len(built) == 0 {
				return errors.Join(err, fmt.Errorf("a trial with %d instances", len(built)))
			}
			_, err = w.disks.ConsoleOutput(ctx, built[0].ID)
			return errors.Join(err, w.disks.Restart(ctx, built[0].ID))
		}},
		{"ends the trial", func(ctx context.Context, w *amazonGroup) error {
			return w.repeat(func() (bool, error) {
				state, err := w.recipes.EndTrial(ctx, trial(w))
				return state == cloud.Absent, err
			})
		}},
		{"builds a workshop, and copies a disk in use", func(ctx context.Context, w *amazonGroup) error {
			err := w.repeat(func() (bool, error) {
				have, err := w.recipes.EnsureWorkshop(ctx, workshop(w))
				if have.State == cloud.Complete {
					copied.Instance = have.Instances[0].ID
				}
				return have.State == cloud.Complete, err
			})
			if err != nil {
				return err
			}
			return w.repeat(func() (bool, error) {
				s, err := w.disks.EnsureSnapshot(ctx, cloud.SnapshotSpec{Name: "raw", Instance: w.ids[0], InUse: true, Tags: ofCopy()})
				copied.SnapshotID = s.ID
				return s.State == cloud.Complete, err
			})
		}},
		{"attaches the copy", func(ctx context.Context, w *amazonGroup) error {
			return w.repeat(func() (bool, error) {
				have, err := w.disks.EnsureAttached(ctx, copied)
				return have.IsAttached, err
			})
		}},
		{"detaches the copy, and copies it", func(ctx context.Context, w *amazonGroup) error {
			err := w.repeat(func() (bool, error) {
				have, err := w.disks.EnsureDetached(ctx, copied)
				return have.State == cloud.Complete && !have.IsAttached, err
			})
			if err != nil {
				return err
			}
			_, err = w.disks.EnsureCopySnapshot(ctx, copied, shot("clean", w.ids[0]))
			return err
		}},
		{"ends copy and workshop", func(ctx context.Context, w *amazonGroup) error {
			err := w.repeat(func() (bool, error) {
				state, err := w.disks.EndCopy(ctx, copied)
				return state == cloud.Absent, err
			})
			if err != nil {
				return err
			}
			return w.repeat(func() (bool, error) {
				state, err := w.recipes.EndWorkshop(ctx, workshop(w))
				return state == cloud.Absent, err
			})
		}},
		{"promotes the version", func(ctx context.Context, w *amazonGroup) error {
			change, err := w.recipes.RecipeChange(ctx, cloud.Target{Pool: w.pool, Version: version, Image: w.disks.ImageID(ref)}, false)
			if err != nil {
				return err
			}
			return w.recipes.SetRecipe(ctx, change)
		}},
		{"rebuilds a node", func(ctx context.Context, w *amazonGroup) error {
			return w.repeat(func() (bool, error) {
				have, err := w.recipes.EnsureRebuilt(ctx, w.ids[1], version)
				return have.State == cloud.Complete, err
			})
		}},
		{"checks the next donor", func(ctx context.Context, w *amazonGroup) error {
			found, err := w.disks.PreflightDisk(ctx, cloud.DiskSpec{FamilyVersion: cloud.FamilyVersion{Family: amazonLine,
				Version: version + "02"}, Instance: w.ids[0], Copies: !stops})
			ofCopies, err4 := w.disks.PreflightDisk(ctx, cloud.DiskSpec{FamilyVersion: cloud.FamilyVersion{Family: amazonLine,
				Version: version + "02"}, Instance: w.ids[0], Copies: true})
			more, err2 := w.recipes.PreflightTrial(ctx, trial(w))
			most, err3 := w.recipes.PreflightWorkshop(ctx, workshop(w))
			for _, r := range slices.Concat(found, more, most, ofCopies) {
				err = errors.Join(err, errors.New(r.Message))
			}
			return errors.Join(err, err2, err3, err4)
		}},
		{"promotes with kOps", func(ctx context.Context, w *amazonGroup) error {
			tag("kops.k8s.io/instancegroup", "nodes-a")(w)
			tag("KubernetesCluster", "c.example.com")(w)
			_, err := w.parameters.PutParameter(ctx, &ssm.PutParameterInput{Name: sdk.String(kopsParameter), Value: sdk.String(awsImage),
				Type: ssmtypes.ParameterTypeString, Overwrite: sdk.Bool(true)})
			w.must(err)
			_, err = w.scaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(awsGroup),
				LaunchTemplate: specification(w.template, newestVersion)})
			w.must(err)
			w.advance(time.Minute)
			change, err := w.recipes.RecipeChange(ctx, cloud.Target{Pool: w.pool, Version: version, Image: w.disks.ImageID(ref)}, false)
			if err == nil && change.HandOver != "" {
				err = errors.New(change.HandOver)
			}
			if err != nil {
				return err
			}
			return w.recipes.SetRecipe(ctx, change)
		}},
		{"deletes the version", func(ctx context.Context, w *amazonGroup) error {
			old, err := w.recipes.RecipeChange(ctx, cloud.Target{Pool: w.pool, Image: awsImage}, false)
			if err == nil {
				err = w.recipes.SetRecipe(ctx, old)
			}
			return errors.Join(err, w.disks.DeleteImage(ctx, ref))
		}},
		{"renews a warm pool", func(ctx context.Context, w *amazonGroup) error {
			_, err := w.scaling.PutWarmPool(ctx, &autoscaling.PutWarmPoolInput{AutoScalingGroupName: sdk.String(awsGroup), MinSize: sdk.Int32(2),
				MaxGroupPreparedCapacity: sdk.Int32(0)})
			w.must(err)
			var pool cloud.Pool
			err = w.repeat(func() (bool, error) {
				pool, err = w.recipes.Pool(ctx, w.pool)
				if err == nil && pool.Warm != nil && pool.Warm.Unknown != "" {
					err = errors.New(pool.Warm.Unknown)
				}
				return err == nil && pool.Warm != nil && len(pool.Warm.Instances) == 2, err
			})
			if err != nil {
				return err
			}
			return w.recipes.ResizeWarmPool(ctx, w.pool, pool.Warm.Limits, pool.Warm.Limits.To(1, pool))
		}},
	}
	return slices.DeleteFunc(all, func(c chapter) bool { return !stops && slices.Contains(byPower, c.name) })
}

// play plays the chapters up to the first error, and returns the chapter of the error.
func (w *amazonGroup) play(stops bool) (string, error) {
	w.server.ResetStats()
	for _, c := range chapters(stops) {
		if err := c.do(w.Context(), w); err != nil {
			return c.name, err
		}
	}
	return "", nil
}

// requested are the actions of the requests of the provider with an HTTP status, or with any status for 0.
func (w *amazonGroup) requested(status int) map[string]bool {
	found := map[string]bool{}
	for _, r := range w.server.Requests() {
		if r.Principal == "narrow" && (status == 0 || r.Status == status) {
			service, name, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
			name, _, _ = strings.Cut(name, "/")
			found[service+":"+name] = true
		}
	}
	return found
}

// unasked are actions that no chapter needs: IAM reads a role with a path only, and the user of the test has no role.
var unasked = []string{"iam:GetRole"}

// TestAWSPolicyAllows plays everything that Kamino does with each policy, and without each action of each statement. So a policy has what
// Kamino needs, and nothing else.
func TestAWSPolicyAllows(t *testing.T) {
	for name, stops := range policies {
		t.Run(name, func(t *testing.T) {
			p := published(t, name)
			w := newNarrow(t, nil, p).enable()
			if at, err := w.play(stops); err != nil {
				t.Fatalf("%s: %v", at, err)
			}
			for i, s := range p.Statement {
				for _, action := range p.actions(i) {
					if slices.Contains(unasked, action) {
						continue
					}
					t.Run(fmt.Sprintf("without %s in %s", action, s["Sid"]), func(t *testing.T) {
						at, err := newNarrow(t, nil, p.without(i, action)).enable().play(stops)
						if err == nil || !strings.Contains(err.Error(), action) {
							t.Errorf("no chapter needs the action: %s: %v", at, err)
						}
						t.Logf("%q: %v", at, err)
					})
				}
			}
		})
	}
}

// TestAWSDeletionWithoutAnAnswer: the next request names what is gone and has no tags, so the policies deny it, while the process
// still knows the new resource.
func TestAWSDeletionWithoutAnAnswer(t *testing.T) {
	for name := range policies {
		t.Run(name, func(t *testing.T) {
			w := newNarrow(t, nil, published(t, name), func(c *aws.Config) { c.Latencies.Snapshot = 10 * time.Second }).enable()
			copied := cloud.CopySpec{Name: "it", Instance: w.ids[0], Tags: ofCopy()}
			w.must(w.repeat(func() (bool, error) {
				s, err := w.disks.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: "raw", Instance: w.ids[0], InUse: true, Tags: ofCopy()})
				copied.SnapshotID = s.ID
				return s.State == cloud.Complete, err
			}))
			_, err := w.disks.EnsureAttached(t.Context(), copied)
			w.must(err)
			w.advance(30 * time.Second)
			for action, remove := range map[string]func() error{
				"DeleteVolume": func() error {
					return w.repeat(func() (bool, error) {
						state, err := w.disks.EndCopy(t.Context(), copied)
						return state == cloud.Absent, err
					})
				},
				"DeleteSnapshot": func() error { return w.disks.DeleteSnapshot(t.Context(), w.ids[0], "raw") },
			} {
				w.fault(fault.Fault{Name: action, Operation: action, Phase: fault.After, Drop: true, Count: 1})
				if err := remove(); !cloud.Is(err, cloud.Unavailable) {
					t.Fatalf("%s without an answer: %v", action, err)
				}
				if err := remove(); err != nil {
					t.Errorf("the next %s: %v", action, err)
				}
			}
		})
	}
}

// onPools are the requests of TestAWSPolicyDenies that change a recipe, and byPowers those of captures in place and rebuilds.
var onPools, byPowers = []string{"promote", "new version"}, []string{"rebuild", "hold", "return", "protect", "start", "stop", "resize the warm pool"}

// TestAWSPolicyDenies sends each request with an effect to resources without Kamino's tags, and with half of them. All are denied, and
// nothing changes. The exceptions create something: they need no resource of another owner. The policies for all pools allow onPools, and
// with the powers byPowers. No policy changes the limits of a group's size or removes its members.
func TestAWSPolicyDenies(t *testing.T) {
	for name := range policies {
		allowed := map[string][]string{untagged: onPools, untagged + mighty: slices.Concat(onPools, byPowers)}[name]
		t.Run(name, func(t *testing.T) { wantDenied(t, published(t, name), allowed) })
	}
}

// wantDenied sends all requests but the allowed ones.
func wantDenied(t *testing.T, p grant, allowed []string) {
	t.Helper()
	w := newNarrow(t, nil, p)
	foreign := path.Base(string(w.ids[0]))
	read := func() string {
		out, err := w.raw.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{foreign}})
		w.must(err)
		images, err := w.raw.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{"self"}})
		w.must(err)
		volumes, err := w.raw.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{})
		w.must(err)
		text, err := json.Marshal([]any{w.group(), out.Reservations, w.versions(), w.snapshots(), images.Images, volumes.Volumes})
		w.must(err)
		return string(text)
	}
	volume := func() *string {
		out, err := w.raw.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{foreign}})
		w.must(err)
		return out.Reservations[0].Instances[0].BlockDeviceMappings[0].Ebs.VolumeId
	}()
	made, err := w.raw.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: volume})
	w.must(err)
	snapshot := sdk.ToString(made.SnapshotId)
	w.advance(time.Hour)
	registered, err := w.raw.RegisterImage(t.Context(), &ec2.RegisterImageInput{Name: sdk.String("theirs"),
		RootDeviceName: sdk.String("/dev/xvda"), Architecture: "x86_64",
		BlockDeviceMappings: []ec2types.BlockDeviceMapping{{DeviceName: sdk.String("/dev/xvda"),
			Ebs: &ec2types.EbsBlockDevice{SnapshotId: made.SnapshotId}}}})
	w.must(err)
	image := sdk.ToString(registered.ImageId)
	w.advance(time.Hour)

	workshop, own := w.ownCopy(snapshot)

	ctx, group, ids := t.Context(), sdk.String(awsGroup), []string{foreign}
	scaling, compute := autoscaling.NewFromConfig(w.config.AWS), ec2.NewFromConfig(w.config.AWS)
	ours := []ec2types.Tag{{Key: sdk.String("kamino"), Value: sdk.String("enabled")}, {Key: sdk.String("kamino-family"),
		Value: sdk.String("workers")}}
	before := read()
	w.server.ResetStats()
	for name, send := range map[string]func() error{
		"hold": func() error {
			_, err := scaling.EnterStandby(ctx, &autoscaling.EnterStandbyInput{AutoScalingGroupName: group, InstanceIds: ids,
				ShouldDecrementDesiredCapacity: sdk.Bool(true)})
			return err
		},
		"return": func() error {
			_, err := scaling.ExitStandby(ctx, &autoscaling.ExitStandbyInput{AutoScalingGroupName: group, InstanceIds: ids})
			return err
		},
		"resize": func() error {
			_, err := scaling.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: group,
				DesiredCapacity: sdk.Int32(5)})
			return err
		},
		"resize the warm pool": func() error {
			_, err := scaling.PutWarmPool(ctx, &autoscaling.PutWarmPoolInput{AutoScalingGroupName: group, MinSize: sdk.Int32(1)})
			return err
		},
		"protect": func() error {
			_, err := scaling.SetInstanceProtection(ctx, &autoscaling.SetInstanceProtectionInput{AutoScalingGroupName: group,
				InstanceIds: ids, ProtectedFromScaleIn: sdk.Bool(true)})
			return err
		},
		"remove": func() error {
			_, err := scaling.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
				InstanceId: &foreign, ShouldDecrementDesiredCapacity: sdk.Bool(true)})
			return err
		},
		"write a parameter": func() error {
			_, err := ssm.NewFromConfig(w.config.AWS).PutParameter(ctx, &ssm.PutParameterInput{Name: sdk.String("/theirs/image"), Value: sdk.String(awsImage),
				Type: ssmtypes.ParameterTypeString, Overwrite: sdk.Bool(true)})
			return err
		},
		"promote": func() error {
			_, err := scaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: group,
				LaunchTemplate: &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: &w.template, Version: sdk.String("1")}})
			return err
		},
		"raise the maximum": func() error {
			_, err := scaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: group, MaxSize: sdk.Int32(99)})
			return err
		},
		"lower the minimum": func() error {
			_, err := scaling.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: group, MinSize: sdk.Int32(0)})
			return err
		},
		"new version": func() error {
			_, err := compute.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: &w.template,
				LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: &image}})
			return err
		},
		"rebuild": func() error {
			_, err := compute.CreateReplaceRootVolumeTask(ctx, &ec2.CreateReplaceRootVolumeTaskInput{InstanceId: &foreign, ImageId: &image})
			return err
		},
		"start": func() error {
			_, err := compute.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: ids})
			return err
		},
		"stop": func() error {
			_, err := compute.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: ids})
			return err
		},
		"restart": func() error {
			_, err := compute.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: ids})
			return err
		},
		"terminate": func() error {
			_, err := compute.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
			return err
		},
		"copy without a tag": func() error {
			_, err := compute.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: volume})
			return err
		},
		"register without a tag": func() error {
			_, err := compute.RegisterImage(ctx, &ec2.RegisterImageInput{Name: sdk.String("new"), RootDeviceName: sdk.String("/dev/xvda"),
				BlockDeviceMappings: []ec2types.BlockDeviceMapping{{DeviceName: sdk.String("/dev/xvda"),
					Ebs: &ec2types.EbsBlockDevice{SnapshotId: &snapshot}}}})
			return err
		},
		"copy a foreign snapshot": func() error {
			_, err := compute.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: sdk.String(awsRegion + "a"), SnapshotId: &snapshot,
				TagSpecifications: []ec2types.TagSpecification{{ResourceType: "volume", Tags: []ec2types.Tag{{Key: sdk.String("kamino-copy-name"), Value: sdk.String("it")}}}}})
			return err
		},
		"attach": func() error {
			_, err := compute.AttachVolume(ctx, &ec2.AttachVolumeInput{Device: sdk.String("/dev/sdf"), InstanceId: &foreign, VolumeId: volume})
			return err
		},
		"attach to a workshop": func() error {
			_, err := compute.AttachVolume(ctx, &ec2.AttachVolumeInput{Device: sdk.String("/dev/sdf"), InstanceId: &workshop, VolumeId: volume})
			return err
		},
		"attach a copy": func() error {
			_, err := compute.AttachVolume(ctx, &ec2.AttachVolumeInput{Device: sdk.String("/dev/sdf"), InstanceId: &foreign, VolumeId: &own})
			return err
		},
		"detach from a workshop": func() error {
			_, err := compute.DetachVolume(ctx, &ec2.DetachVolumeInput{InstanceId: &workshop, VolumeId: volume})
			return err
		},
		"detach": func() error {
			_, err := compute.DetachVolume(ctx, &ec2.DetachVolumeInput{InstanceId: &foreign, VolumeId: volume})
			return err
		},
		"delete a volume": func() error {
			_, err := compute.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: volume})
			return err
		},
		"delete a snapshot": func() error {
			_, err := compute.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: &snapshot})
			return err
		},
		"delete an image": func() error {
			_, err := compute.DeregisterImage(ctx, &ec2.DeregisterImageInput{ImageId: &image})
			return err
		},
		"disable an image": func() error {
			_, err := compute.DisableImage(ctx, &ec2.DisableImageInput{ImageId: &image})
			return err
		},
		"enable an image": func() error {
			_, err := compute.EnableImage(ctx, &ec2.EnableImageInput{ImageId: &image})
			return err
		},
		"untag an image": func() error {
			_, err := compute.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{image}, Tags: ours})
			return err
		},
		"tag an instance":  func() error { return tagAs(ctx, compute, foreign, ours) },
		"tag a snapshot":   func() error { return tagAs(ctx, compute, snapshot, ours) },
		"tag an image":     func() error { return tagAs(ctx, compute, image, ours) },
		"tag a template":   func() error { return tagAs(ctx, compute, w.template, ours) },
		"tag a new volume": func() error { return tagAs(ctx, compute, *volume, ours) },
	} {
		if slices.Contains(allowed, name) {
			continue
		}
		if err := send(); err == nil || !strings.Contains(err.Error(), "not authorized") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := read(); after != before {
		t.Errorf("the account changed from\n%s\nto\n%s", before, after)
	}
	denied := w.requested(http.StatusForbidden)
	for action := range w.requested(http.StatusBadRequest) { // Systems Manager denies with another status
		denied[action] = denied[action] || strings.HasPrefix(action, "ssm:")
	}
	for i, s := range p.Statement {
		for _, action := range p.actions(i) {
			free := strings.Contains(action, ":Describe") || strings.Contains(action, ":Get") || strings.HasPrefix(action,
				"iam:") || s["Sid"] == "LaunchByGroupAndTrial" || len(allowed) > 0 && s["Condition"] == nil
			if !free && !denied[action] {
				t.Errorf("no request shows that %s of %s is denied without tags", action, s["Sid"])
			}
		}
	}
}

// ownCopy makes a workshop, and a copy of a snapshot that is not attached.
func (w *amazonGroup) ownCopy(snapshot string) (instance, volume string) {
	w.Helper()
	tags := func(of ec2types.ResourceType, key string) []ec2types.TagSpecification {
		return []ec2types.TagSpecification{{ResourceType: of, Tags: []ec2types.Tag{{Key: sdk.String(key), Value: sdk.String("it")}}}}
	}
	ran, err := w.raw.RunInstances(w.Context(), &ec2.RunInstancesInput{ImageId: sdk.String(awsImage), InstanceType: "m6i.large", MinCount: sdk.Int32(1),
		MaxCount: sdk.Int32(1), TagSpecifications: tags("instance", "kamino-workshop-name")})
	w.must(err)
	made, err := w.raw.CreateVolume(w.Context(), &ec2.CreateVolumeInput{AvailabilityZone: ran.Instances[0].Placement.AvailabilityZone,
		SnapshotId: &snapshot, TagSpecifications: tags("volume", "kamino-copy-name")})
	w.must(err)
	w.advance(time.Hour)
	return *ran.Instances[0].InstanceId, *made.VolumeId
}

func tagAs(ctx context.Context, client *ec2.Client, id string, tags []ec2types.Tag) error {
	_, err := client.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: tags})
	return err
}

// TestAWSPolicyCaptures checks that the engine captures a group with each policy by each method that the policy is for. Doctor reports no
// other permission as missing. The policies by tags refuse a group without the tag. The other policies refuse a capture in place, and name
// the missing variant.
func TestAWSPolicyCaptures(t *testing.T) {
	for name, stops := range policies {
		for _, method := range []v1alpha1.CaptureMethod{v1alpha1.MethodInPlace, v1alpha1.MethodCopy} {
			t.Run(fmt.Sprint(name, " ", method), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(time.Until(day.Add(-20 * time.Hour)))
					w := newNarrow(t, newWire(), published(t, name))
					copies, tagged := method == v1alpha1.MethodCopy, strings.HasPrefix(name, byTags)
					missing := func() (remedies []string) {
						refusals, err := cloud.New(cloud.DisksOf(w.disks), cloud.RecipesOf(w.recipes)).Preflight(t.Context(), cloud.PreflightSpec{
							Pool: w.pool, Instance: w.ids[0], Version: version, Copies: copies})
						w.must(err)
						for _, r := range refusals {
							if r.Reason == cloud.PermissionMissing {
								remedies = append(remedies, r.Remedy)
							}
						}
						return remedies
					}
					if found := missing(); (len(found) > 0) != (tagged || !stops && !copies) {
						t.Errorf("a group without the tag: %+v", found)
					}
					w.enable()
					time.Sleep(time.Until(day))
					if !stops && !copies {
						if found := missing(); len(found) != 6 || found[0] != found[5] || !strings.Contains(found[0], "--cloud aws --in-place") {
							t.Errorf("a capture in place: %+v", found)
						}
						return
					}
					settings := v1alpha1.Settings{Trial: v1alpha1.TrialSettings{Mode: v1alpha1.TrialOff}, Donor: v1alpha1.DonorSettings{Method: method}}
					settings.Generalize.Profile = v1alpha1.ProfileEKS
					newCourse(w.stage()).play(t.Context(), version, settings)
					all, err := w.recipes.Permissions(t.Context(), w.pool)
					w.must(err)
					more, err := w.disks.Permissions(t.Context(), amazonLine)
					w.must(err)
					for _, p := range append(all, more...) {
						if p.Allowed == (slices.Contains([]string{cloud.ForInPlace, cloud.ForRebuild, cloud.ForWarmPool}, p.For) && !stops) {
							t.Errorf("doctor reports %s, for %q: %t", p.Action, p.For, p.Allowed)
						}
					}
				})
			})
		}
	}
}
