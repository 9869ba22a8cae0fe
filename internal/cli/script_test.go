package cli

import (
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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	for range 1000 {
		if p := server.get("/apis/kamino.dev/v1alpha1/prototypes/" + args[0]); p != nil {
			if got, _, _ := unstructured.NestedString(p.Object, "status", "phase"); got == args[1] != neg {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("prototype %s did not come to phase %s", args[0], args[1])
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
