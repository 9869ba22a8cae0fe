package trial

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/sandbox/region"
)

// TestAMixedGroupsGoodVersionPasses: the first override is a type that no node has, and smaller. The trial takes the most frequent type, and is
// compared with the nodes of that type only.
func TestAMixedGroupsGoodVersionPasses(t *testing.T) {
	t.Parallel()
	if sandbox.AWS() == nil {
		t.Skip("only AWS has groups of several types")
	}
	e := newEnvLike(t, "name=mixed,nodes=5,types=m6i.large+m6i.xlarge")
	group := autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String(e.Group), MixedInstancesPolicy: region.Mixed(
		&astypes.LaunchTemplateSpecification{LaunchTemplateName: sdk.String(e.Group), Version: sdk.String("1")}, "m6i.medium", "m6i.large", "m6i.xlarge")}
	_, err := sandbox.AWS().Groups().UpdateAutoScalingGroup(t.Context(), &group)
	e.Must(err)
	types := map[string]int{}
	for _, m := range e.MachinesNow() {
		node, err := e.Kube().CoreV1().Nodes().Get(t.Context(), m.Node, metav1.GetOptions{})
		e.Must(err)
		types[node.Labels[corev1.LabelInstanceTypeStable]+" with "+node.Status.Capacity.Cpu().String()]++
	}
	if types["m6i.large with 2"] != 3 || types["m6i.xlarge with 4"] != 2 {
		t.Fatalf("the nodes are %v", types)
	}
	e.Start(captureArgs(e, generous)...).ExpectExit(0)
	assertPassed(e, trial.Job)
	for _, c := range e.Prototype().Status.Trial.Checks {
		if c.Name == string(trial.Differences) && !strings.HasSuffix(c.Message, "is like 3 other nodes of the pool") {
			t.Errorf("%s: %s", c.Name, c.Message)
		}
	}
}
