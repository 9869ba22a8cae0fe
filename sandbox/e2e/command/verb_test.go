package command

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestVerbs runs sessions with kamino-sandbox. Each has a pool $POOL with three nodes: $N0, $N1 and $N2.
func TestVerbs(t *testing.T) { sessions(t, "testdata") }

// TestVerbsThatNeedASandbox runs sessions with an outage or a fault of all pools, which would fail other sessions.
func TestVerbsThatNeedASandbox(t *testing.T) { sessions(t, "testdata/alone") }

// sessions run in parallel.
func sessions(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			for _, pair := range append(sandbox.Env(), sandbox.AsPerson(t)...) {
				if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "AZURE_") || name == "PATH" ||
					name == "KUBECONFIG" || name == "SSL_CERT_FILE" || name == "KAMINO_SANDBOX_DIR" {
					env.Setenv(name, value)
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// pool NAME creates a pool.
			"pool": func(ts *testscript.TestScript, _ bool, args []string) {
				machines := sandbox.Pool(t, "name="+args[0]+",nodes=3")
				ts.Setenv("POOL", args[0])
				for i, name := range []string{"N0", "N1", "N2"} {
					ts.Setenv(name, machines[i].Node)
				}
			},
		},
	})
}
