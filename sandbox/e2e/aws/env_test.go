// Package aws tests captures of Auto Scaling groups with the real command, during changes of the group by users,
// Terraform and AWS.
package aws

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// Exit codes of kamino.
const (
	exitRefused = 3
	exitFailed  = 4
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	// Tests wait far more than they work. The command line has precedence.
	_ = flag.Set("test.parallel", "10")
	os.Exit(sandboxtest.Main(m, world.Options{Cloud: pool.AWS, TimeScale: 200}, &sandbox))
}

// env is the environment of a test with an Auto Scaling group.
type env struct{ *sandboxtest.Env }

// newEnv makes a group of two nodes.
func newEnv(t *testing.T, name string, options ...string) env {
	t.Helper()
	return env{sandbox.NewEnv(t, strings.Join(append([]string{"name=" + name, "nodes=2"}, options...), ","))}
}

// before calls do when a process first asks AWS for a change.
func (e env) before(action string, do func()) {
	e.Helper()
	e.Barrier().Before(sandboxtest.Request{Server: sandboxtest.Cloud, Pattern: "^" + action + "$"}, do)
}

func (e env) group() astypes.AutoScalingGroup {
	e.Helper()
	out, err := sandbox.AWS().Groups().DescribeAutoScalingGroups(e.Context(),
		&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{e.Group}})
	e.Must(err)
	if len(out.AutoScalingGroups) != 1 {
		e.Fatalf("there are %d groups %s", len(out.AutoScalingGroups), e.Group)
	}
	return out.AutoScalingGroups[0]
}

// updateGroup changes the group as a user would.
func (e env) updateGroup(in autoscaling.UpdateAutoScalingGroupInput) {
	e.Helper()
	in.AutoScalingGroupName = sdk.String(e.Group)
	_, err := sandbox.AWS().Groups().UpdateAutoScalingGroup(e.Context(), &in)
	e.Must(err)
}

// useTemplate sets the group's version of its launch template.
func (e env) useTemplate(version string) {
	e.Helper()
	e.updateGroup(autoscaling.UpdateAutoScalingGroupInput{
		LaunchTemplate: &astypes.LaunchTemplateSpecification{LaunchTemplateName: sdk.String(e.Group), Version: sdk.String(version)},
	})
}

// assertWhole asserts two serving nodes, the image of before in the recipe, and no leftovers.
func (e env) assertWhole() {
	e.Helper()
	e.Eventually("it has two nodes", func() (bool, string) {
		now := e.State()
		return now.Capacity == 2 && now.Image == e.Before.Image && len(now.Ready) == 2, fmt.Sprintf("%+v", now)
	})
	for _, m := range e.MachinesNow() {
		e.AssertServes(m.Node)
	}
	e.AssertNothingLeft()
}
