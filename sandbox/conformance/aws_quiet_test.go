package conformance

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

// startReads limits the requests in the hour of a controller's start. Each reader resolves the owners of nodes
// separately.
const startReads = 15

// TestQuietHoursOnAWS watches an unchanged group for a day, with a policy that has no work, must not work, or is
// refused. The controller stays under ten requests an hour, as on Azure. After a refusal, preflight repeats hourly
// at first and then six times a day. If a permission is missing, three IAM requests an hour are added, so that the
// repair is noticed soon.
func TestQuietHoursOnAWS(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		// fresh: the nodes were patched after the version was created.
		fresh  bool
		policy v1alpha1.PrototypePolicySpec
		fault  fault.Fault
	}{
		"not patched since": {reason: "UpToDate"},
		"only shown":        {reason: "DryRun", fresh: true, policy: v1alpha1.PrototypePolicySpec{DryRun: true}},
		"waits for its hours": {reason: "OutsideSchedule", fresh: true,
			policy: v1alpha1.PrototypePolicySpec{Schedule: v1alpha1.ScheduleSettings{Cron: "0 3 1 1 *"}}},
		"may not be looked at":  {fault: fault.Fault{Deny: "autoscaling:DescribeAutoScalingGroups"}},
		"captures are refused":  {reason: cloud.PermissionMissing, fresh: true, fault: fault.Fault{Deny: "ec2:CreateSnapshot"}},
		"an instance refresh":   {reason: "NodesWouldBeReplaced", fresh: true},
		"suspended by a person": {reason: "Suspended", fresh: true, policy: v1alpha1.PrototypePolicySpec{Suspend: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(day.Add(-20 * time.Hour)))
				w := groupOf(t, startAmazonOn(t, newWire(), atOnce), "1").suspendReplacement()
				c := w.settle(test.fresh, test.policy)
				if test.reason == "NodesWouldBeReplaced" {
					w.startRefresh()
				}
				time.Sleep(time.Until(day))
				if test.fault != (fault.Fault{}) {
					w.fault(test.fault)
				}
				w.server.ResetStats()
				c.run()
				time.Sleep(quiet)
				synctest.Wait()
				c.wantDecisions([]quietPool{{name: awsGroup, reason: test.reason}})
				cost := w.tally()
				t.Log(cost)
				asked := slices.DeleteFunc(slices.Clone(cost.hours[:]), func(n int) bool { return n <= mostReads })
				looked := cost.kinds["RunInstances"] / 2 // dry runs of each preflight: a trial, and the workshop of a copy
				if cost.hours[0] > startReads && looked == 0 || len(asked) > max(1, looked) || looked > 10 {
					t.Errorf("the group takes more than %d requests an hour, behind %d looks whether it is refused: %v", mostReads, looked, cost.hours)
				}
				const pages = 11 // of five answers each, about the permissions of both halves, and about a denied action
				if iam := cost.kinds["SimulatePrincipalPolicy"]; iam > 24*3*pages+7*looked {
					t.Errorf("IAM was asked %d times", iam)
				}
				if cost.total() < 24 {
					t.Errorf("the group was not watched for a day: %v", cost)
				}
			})
		})
	}
}

// settle gives the group a version, and returns a controller that knows the group's nodes.
func (w *amazonGroup) settle(fresh bool, policy v1alpha1.PrototypePolicySpec) *controller {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	w.Cleanup(cancel)
	patched := time.Now().Add(-24 * time.Hour)
	if fresh {
		patched = time.Now().Add(4 * time.Hour)
	}
	var nodes []*corev1.Node
	for i, id := range w.ids {
		nodes = append(nodes, node(fmt.Sprintf("node-%d", i), string(id), patched, patched.Add(time.Hour)))
	}
	w.published(old)
	w.advance(time.Minute)
	w.must(w.disks.TagImage(ctx, cloud.FamilyVersion{Family: amazonLine, Version: old}, map[string]string{
		cloud.TagBuiltFrom: nodes[0].Name, cloud.TagBuiltAt: time.Now().UTC().Format(cloud.BuiltAtLayout)}))
	w.must(w.recipes.SetRecipe(ctx, w.change(old)))
	w.until("started again", func() bool {
		power, err := w.disks.EnsureStarted(ctx, w.ids[0])
		w.must(err)
		return power == cloud.PowerRunning
	})
	w.advance(time.Hour)
	policy.Pools.Names, policy.Settings.Generalize.Profile = []string{awsGroup}, v1alpha1.ProfileEKS
	return newController(ctx, &cloudEnv{t: w.T}, cloud.New(cloud.DisksOf(w.disks), cloud.RecipesOf(w.recipes)), nodes, prototypeOf(awsGroup, old, nodes[0]),
		&v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "common", UID: "uid-common", Generation: 1}, Spec: policy})
}

// tally returns the numbers of requests to EC2, Auto Scaling and IAM.
func (w *amazonGroup) tally() tally {
	w.Helper()
	out := tally{kinds: map[string]int{}}
	for _, r := range w.server.Requests() {
		if r.Class == requestlog.Login {
			continue
		}
		out.kinds[r.Operation]++
		if r.Operation == "SimulatePrincipalPolicy" {
			continue
		}
		out.hours[int(r.Time.Sub(day)/time.Hour)]++
	}
	return out
}

// startRefresh begins an instance refresh that never ends.
func (w *amazonGroup) startRefresh() {
	w.Helper()
	_, err := w.scaling.SuspendProcesses(w.Context(),
		&autoscaling.SuspendProcessesInput{AutoScalingGroupName: sdk.String(awsGroup), ScalingProcesses: []string{"InstanceRefresh"}})
	w.must(err)
	_, err = w.scaling.StartInstanceRefresh(w.Context(), &autoscaling.StartInstanceRefreshInput{AutoScalingGroupName: sdk.String(awsGroup)})
	w.must(err)
}
