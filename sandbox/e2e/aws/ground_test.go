// Package aws is trouble that only AWS has, told with the real command: what people, Terraform and the cloud itself do to a group
// while a capture of it is under way. Of each it demands what is true of the world afterwards.
package aws

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/untried"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// Exit codes of kamino's.
const (
	exitRefused = 3
	exitFailed  = 4
)

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	// Tests wait far more than they work. What is said on the command line wins.
	_ = flag.Set("test.parallel", "10")
	os.Exit(sandboxtest.Main(m, world.Options{Cloud: pool.AWS, TimeScale: 200}, &sandbox))
}

// ground is a group of two nodes, and a namespace with what Kamino needs.
type ground struct {
	*testing.T
	pool, group, namespace string
	nodes                  []machine.Status
	before                 control.Pool
	env                    []string
}

func newGround(t *testing.T, name string, more ...string) *ground {
	t.Helper()
	t.Parallel()
	sandbox.Install(t)
	g := &ground{T: t, pool: name, namespace: "kamino-" + name}
	sandbox.Namespace(t, g.namespace)
	g.nodes = sandbox.Pool(t, strings.Join(append([]string{"name=" + name, "nodes=2"}, more...), ","))
	g.group, g.before = path.Base(g.nodes[0].Pool), g.look()
	return g
}

func (g *ground) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// look is what the cloud says of the pool.
func (g *ground) look() control.Pool {
	g.Helper()
	all, err := sandbox.Pools(g.Context())
	g.must(err)
	for _, p := range all {
		if p.Name == g.pool {
			return p
		}
	}
	g.Fatalf("there is no pool %s", g.pool)
	return control.Pool{}
}

// asg is the group, as AWS tells of it.
func (g *ground) asg() astypes.AutoScalingGroup {
	g.Helper()
	out, err := sandbox.AWS().Groups().DescribeAutoScalingGroups(g.Context(), &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{g.group}})
	g.must(err)
	if len(out.AutoScalingGroups) != 1 {
		g.Fatalf("there are %d groups %s", len(out.AutoScalingGroups), g.group)
	}
	return out.AutoScalingGroups[0]
}

// when has something happen once, when the ground's commands are about to ask the cloud for a change.
func (g *ground) when(write string, happens func()) {
	g.Helper()
	var once sync.Once
	g.env = sandbox.Gates(g.T, func(to sandboxtest.Server, r *http.Request) sandboxtest.Passage {
		if to == sandboxtest.Cloud && sandboxtest.Write(r) == write {
			once.Do(happens)
		}
		return sandboxtest.Passage{}
	})
}

// capture of the first node ends with a code and has said all of the texts.
func (g *ground) capture(code int, says []string, flags ...string) {
	g.Helper()
	args := append(untried.Capture(g.nodes[0].Node, "--max-concurrent", "100", "--namespace", g.namespace), flags...)
	got := sandbox.Run(g.T, g.env, "kamino", args...)
	if got.Code != code {
		g.Errorf("kamino %s ended with %d, want %d:\n%s%s", strings.Join(args, " "), got.Code, code, got.Stdout, got.Stderr)
	}
	for _, text := range says {
		if !strings.Contains(got.Stdout+got.Stderr, text) {
			g.Errorf("it does not say %q:\n%s%s", text, got.Stdout, got.Stderr)
		}
	}
}

// prototype of the pool; nil if there is none.
func (g *ground) prototype() *v1alpha1.Prototype {
	g.Helper()
	var list v1alpha1.PrototypeList
	raw, err := sandbox.Kube().CoreV1().RESTClient().Get().AbsPath("/apis/kamino.dev/v1alpha1/prototypes").DoRaw(g.Context())
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	g.must(err)
	for i := range list.Items {
		if list.Items[i].Spec.Pool == g.group {
			return &list.Items[i]
		}
	}
	return nil
}

// failedFor demands that the capture has ended for a reason.
func (g *ground) failedFor(reason string) {
	g.Helper()
	p := g.prototype()
	if p == nil || p.Status.Phase != v1alpha1.PhaseFailed || p.Status.Failure == nil || p.Status.Failure.Reason != reason {
		g.Errorf("the Prototype is %+v, want one that failed for %s", p, reason)
	}
}

// whole demands that so many nodes serve, each of a machine of the group's, that nobody holds one, and that the recipe is
// the one from before.
func (g *ground) whole(nodes int) {
	g.Helper()
	g.settles()
	if now := g.look(); now.Image != g.before.Image || now.Capacity != int64(nodes) {
		g.Errorf("the group builds from %s and is meant to have %d nodes; before it was %s, and %d nodes are wanted", now.Image, now.Capacity, g.before.Image, nodes)
	}
	machines := sandbox.MachinesOf(g.T, g.pool)
	if len(machines) != nodes {
		g.Errorf("the group has %d machines, want %d", len(machines), nodes)
	}
	for _, i := range g.asg().Instances {
		if i.LifecycleState != astypes.LifecycleStateInService || sdk.ToBool(i.ProtectedFromScaleIn) {
			g.Errorf("instance %s is %s, protected: %t", sdk.ToString(i.InstanceId), i.LifecycleState, sdk.ToBool(i.ProtectedFromScaleIn))
		}
	}
	for _, m := range machines {
		node, err := sandbox.Kube().CoreV1().Nodes().Get(g.Context(), m.Node, metav1.GetOptions{})
		g.must(err)
		if !nodestate.Ready(node) || node.Spec.Unschedulable || node.Annotations[v1alpha1.ReservationAnnotation] != "" {
			g.Errorf("node %s does not serve: %+v, %v", m.Node, node.Spec, node.Annotations)
		}
	}
	g.nothingLeft()
}

// settles waits for the group to be done with what it does by itself.
func (g *ground) settles() {
	g.Helper()
	for last := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		at := slices.IndexFunc(g.asg().Instances, func(i astypes.Instance) bool {
			return strings.HasPrefix(string(i.LifecycleState), "Terminating") || strings.HasPrefix(string(i.LifecycleState), "Pending")
		})
		if at < 0 {
			return
		}
		if time.Now().After(last) {
			g.Fatalf("group %s does not settle: %+v", g.group, g.asg().Instances[at])
		}
	}
}

// nothingLeft demands that no snapshot, pod or unowned machine of the group's is there.
func (g *ground) nothingLeft() {
	g.Helper()
	snapshots, err := sandbox.Snapshots(g.Context())
	g.must(err)
	for _, name := range snapshots {
		if strings.Contains(name, g.group) {
			g.Errorf("the snapshot %s is left", name)
		}
	}
	pods, err := sandbox.Kube().CoreV1().Pods(g.namespace).List(g.Context(), metav1.ListOptions{})
	g.must(err)
	for _, pod := range pods.Items {
		g.Errorf("the pod %s is left, which is %s", pod.Name, pod.Status.Phase)
	}
	for _, m := range sandbox.Fleet().Machines() {
		version, err := sandbox.VersionOf(g.Context(), g.pool, m.Image)
		g.must(err)
		if m.Pool == "" && version != "" {
			g.Errorf("machine %s of version %s is no group's", m.ID, version)
		}
	}
}
