package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

func TestMain(m *testing.M) {
	run := func() { os.Exit(testCommand()) }
	testscript.Main(m, map[string]func(){"kamino": run, "kubectl-kamino": run})
}

// serverKey finds a transcript's API server.
type serverKey struct{}

// TestTranscripts runs all sessions of testdata: the input, the output with its stream, and the exit code. Each session has
// an API server with the objects of its world.yaml (else testdata/world.yaml) and the faults of its server.yaml.
func TestTranscripts(t *testing.T) {
	common, err := os.ReadFile("testdata/world.yaml")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			world, err := os.ReadFile(filepath.Join(env.WorkDir, "world.yaml"))
			if os.IsNotExist(err) {
				world = common
			}
			trouble, _ := os.ReadFile(filepath.Join(env.WorkDir, "server.yaml"))
			server, err := newAPIServer(withContents(world), trouble)
			if err != nil {
				return err
			}
			env.Defer(server.Close)
			env.Values[serverKey{}] = server
			env.Setenv("KUBECONFIG", filepath.Join(env.WorkDir, "kubeconfig"))
			env.Setenv("LANG", "C.UTF-8")
			env.Setenv("EVIL", hostileText)
			env.Setenv("KAMINO_CLOUD", "azure") // whose words the doctor has for the cloud in memory
			return os.WriteFile(filepath.Join(env.WorkDir, "kubeconfig"), kubeconfig(server.URL), 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code":  code,
			"phase": awaitPhase,
			"gone":  gone,
			"event": recorded,
			"shows": shows,
			"shown": shown,
		},
	})
}

func kubeconfig(url string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: me}}]
clusters: [{name: test, cluster: {server: %q}}]
users: [{name: me, user: {}}]
`, url)
}

// code N ARGS... runs the command and checks its exit code.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N kamino ARGS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = fmt.Sprint(exit.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// phase NAME PHASE waits until the Prototype is in the phase.
func awaitPhase(ts *testscript.TestScript, neg bool, args []string) {
	server := ts.Value(serverKey{}).(*apiServer)
	var last any = "not there"
	for range 1000 {
		if p := server.get("/apis/kamino.dev/v1alpha1/prototypes/" + args[0]); p != nil {
			if got, _, _ := unstructured.NestedString(p.Object, "status", "phase"); got == args[1] != neg {
				return
			}
			last = p.Object["status"]
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("prototype %s did not come to phase %s; it is %v", args[0], args[1], last)
}

// event KIND NAME REASON checks that an event was recorded on an object; with a negation, that none was.
func recorded(ts *testscript.TestScript, neg bool, args []string) {
	server := ts.Value(serverKey{}).(*apiServer)
	server.mu.Lock()
	defer server.mu.Unlock()
	found := false
	for path, object := range server.objects {
		if strings.HasPrefix(path, "/apis/events.k8s.io/") {
			kind, _, _ := unstructured.NestedString(object.Object, "regarding", "kind")
			name, _, _ := unstructured.NestedString(object.Object, "regarding", "name")
			reason, _, _ := unstructured.NestedString(object.Object, "reason")
			found = found || slices.Equal([]string{kind, name, reason}, args)
		}
	}
	if found == neg {
		ts.Fatalf("event %s: %v", args, found)
	}
}

// gone PATH checks that the API server has no such object; with a negation, that the object exists.
func gone(ts *testscript.TestScript, neg bool, args []string) {
	found := ts.Value(serverKey{}).(*apiServer).get(args[0])
	if (found == nil) == neg {
		ts.Fatalf("object at %s: %v", args[0], found)
	}
}

// shows PATH REGEXP checks the JSON of an object on the API server, also with a negation.
func shows(ts *testscript.TestScript, neg bool, args []string) {
	found := ts.Value(serverKey{}).(*apiServer).get(args[0])
	if found == nil {
		ts.Fatalf("there is no object at %s", args[0])
	}
	text, err := found.MarshalJSON()
	ts.Check(err)
	said, err := regexp.Match(args[1], text)
	ts.Check(err)
	if said == neg {
		ts.Fatalf("object at %s: %s", args[0], text)
	}
}

// The scripts of a scripted engine, in KAMINO_TEST_SCRIPT. An empty script goes well.
const (
	isRefused   = "refused"   // by the preview
	isForbidden = "forbidden" // by the preview, for a missing permission
	isUnread    = "unread"    // the command's credential may not read all inputs of the preview
	failsEarly  = "early"     // in the capture's own preflight
	failsLate   = "late"      // after the donor's return
	hangs       = "hangs"     // during the drain
)

// scriptedEngine changes nothing: its captures are a list of phases of ten seconds each, in the Prototype's status.
type scriptedEngine struct {
	// Engine is the real engine, which returns orphaned nodes.
	*capture.Engine
	objects client.Client
	script  string
	now     func() time.Time
}

var phases = []v1alpha1.Phase{
	v1alpha1.PhasePreflight, v1alpha1.PhaseReserving, v1alpha1.PhaseDraining, v1alpha1.PhaseGeneralizing,
	v1alpha1.PhaseSnapshotting, v1alpha1.PhaseStarting, v1alpha1.PhaseReleasing, v1alpha1.PhasePublishing, v1alpha1.PhasePromoting,
}

// Evictions is equal for all nodes.
func (s *scriptedEngine) Evictions(context.Context, string, v1alpha1.DrainSettings) (int, error) {
	return 1, nil
}

// Refusals returns the refusals of the script.
func (s *scriptedEngine) Refusals(ctx context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error) {
	preview, err := s.Preview(ctx, p, nil)
	return preview.Refusals, err
}

// Preview returns the preview of the script.
func (s *scriptedEngine) Preview(_ context.Context, p *v1alpha1.Prototype, _ *membership.Cluster) (admission.Preview, error) {
	preview := admission.Preview{
		Evicts: []string{"default/web-0", "default/web-1"},
		Change: &cloud.RecipeChange{
			Pool: cloud.PoolID(p.Spec.PoolID), From: "ubuntu:2204", To: "pool1/versions/" + p.Spec.Version,
			Backup:  fmt.Appendf(nil, `{"pool": %q, "image": "ubuntu:2204"}`, p.Spec.PoolID),
			Removes: []cloud.RecipeField{{Kind: "customData", Unreadable: true}}, Keeps: []cloud.RecipeField{{Kind: "extension", Name: "billing"}},
		},
		Retires: []string{"2026.02.01"}, Irreversible: true,
	}
	if p.Spec.Settings.CopiesDonor() {
		preview.Copy = &admission.CopyCost{InstanceType: "m7i.large", DiskGB: 20, Freezes: true, Patches: !p.Spec.StaysInService()}
	}
	if p.Spec.StaysInService() {
		preview.Evicts = nil
	}
	switch s.script {
	case isRefused:
		preview.Refusals = []cloud.Refusal{
			{Reason: "NotReady", Message: fmt.Sprintf("node %s is not Ready: wait until the node is Ready", p.Spec.Donor.NodeName)},
			{Reason: "DiskUnsupported", Message: "pool pool1 has ephemeral OS disks, which can't be captured"},
		}
	case isForbidden:
		preview.Refusals = []cloud.Refusal{{Reason: "PermissionMissing", Message: "the credential may not write snapshots in group g"}}
	case isUnread:
		return preview, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "ours", nil)
	}
	return preview, nil
}

// Pass ends the running phase and begins the next phase.
func (s *scriptedEngine) Pass(ctx context.Context, name string) (capture.Result, error) {
	p := &v1alpha1.Prototype{}
	if err := s.objects.Get(ctx, client.ObjectKey{Name: name}, p); apierrors.IsNotFound(err) {
		return capture.Result{Done: true}, nil
	} else if err != nil {
		return capture.Result{After: time.Second}, err
	}
	if p.Status.Terminal() || !p.DeletionTimestamp.IsZero() {
		return s.settle(ctx, p)
	}
	if len(p.Finalizers) == 0 {
		p.Finalizers = []string{v1alpha1.CaptureFinalizer}
		return capture.Result{}, s.objects.Update(ctx, p)
	}
	s.advance(p)
	if err := s.objects.Status().Update(ctx, p); err != nil {
		return capture.Result{After: time.Second}, err
	}
	if p.Status.Terminal() {
		return s.settle(ctx, p)
	}
	return capture.Result{After: 10 * time.Millisecond}, nil
}

// settle removes the finalizer as the last step.
func (s *scriptedEngine) settle(ctx context.Context, p *v1alpha1.Prototype) (capture.Result, error) {
	p.Finalizers = nil
	return capture.Result{Done: true}, s.objects.Update(ctx, p)
}

func (s *scriptedEngine) advance(p *v1alpha1.Prototype) {
	st := &p.Status
	n := len(st.Steps)
	at := metav1.NewMicroTime(s.now().Add(time.Duration(n) * 10 * time.Second))
	if n > 0 && s.script == hangs && st.Phase == v1alpha1.PhaseDraining {
		st.Progress = "pods left: 1 (default/web-0 is held by budget default/web)"
		return
	}
	if n > 0 {
		st.Steps[n-1].FinishedAt = &at
	}
	st.Progress = ""
	switch {
	case n == 1 && s.script == failsEarly:
		st.Phase, st.Failure = v1alpha1.PhaseFailed, &v1alpha1.Failure{Reason: "Windows", Message: "node n runs Windows; only Linux nodes can be captured"}
		return
	case n == 5 && s.script == failsLate:
		st.Donor.ReleasedAt = &at
		st.Phase = v1alpha1.PhaseFailed
		st.Failure = &v1alpha1.Failure{Reason: "ImageFailed", Message: "the snapshot of the node's disk failed", CloudError: "DiskBusy: try later"}
		return
	case n == len(phases):
		st.Phase, st.Retired = v1alpha1.PhaseSucceeded, []string{"2026.02.01"}
		st.Image = &v1alpha1.ImageStatus{ID: "pool1/versions/" + p.Spec.Version, ReplicationPercent: 100}
		return
	}
	st.Phase = phases[n]
	st.Steps = append(st.Steps, v1alpha1.Step{Phase: st.Phase, StartedAt: at})
	switch st.Phase {
	case v1alpha1.PhaseReserving:
		st.Donor = &v1alpha1.DonorStatus{ReservedAt: &at}
	case v1alpha1.PhaseDraining:
		st.Progress = "pods left: 2"
	case v1alpha1.PhasePublishing:
		st.Donor.ReleasedAt = &at
		st.Progress = "replicating 40%"
	default: // other phases report no progress
	}
}
