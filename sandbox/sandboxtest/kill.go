package sandboxtest

import (
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// maxKills is more than the number of writes of any capture. A capture with more writes makes no progress.
const maxKills = 60

// KillWithEachWrite runs kamino repeatedly, and kills each process at its first write to the cloud or management cluster,
// before and then after the effect. The last process makes no write; its output is returned.
func (s *Sandbox) KillWithEachWrite(t testing.TB, namespace string, args ...string) (output string) {
	t.Helper()
	var deaths []string
	for nth := 1; ; {
		if len(deaths) > maxKills {
			t.Fatalf("killed %d processes, and the work is not done; writes: %v\n%s", len(deaths), deaths, output)
		}
		var wrote string
		for _, after := range []bool{false, true} {
			if wrote, output = s.killWithWrite(t, namespace, nth, after, args...); wrote == "" {
				t.Logf("killed processes with the writes %v", deaths)
				return output
			}
		}
		if nth++; !slices.Contains(deaths, wrote) {
			nth = 1
		}
		deaths = append(deaths, wrote)
	}
}

// killWithWrite runs kamino until its nth write. The process is killed before the write reaches the server, or after
// its effect. killWithWrite returns the write, or an empty string if the process exited before.
func (s *Sandbox) killWithWrite(t testing.TB, namespace string, nth int, after bool, args ...string) (wrote, output string) {
	t.Helper()
	var mu sync.Mutex
	command, writes := exec.Command(s.Kamino, args...), 0
	env := s.Intercept(t, func(to Server, r *http.Request) Handling {
		if to == APIServer {
			return Handling{}
		}
		mu.Lock()
		defer mu.Unlock()
		write := WriteOf(r)
		if write != "" {
			writes++
		}
		kill := func() { _ = command.Process.Kill() } // an error means that the process has exited
		switch {
		case write == "" || writes < nth:
			return Handling{}
		case writes > nth: // sent before the process was dead
			return Handling{Drop: true}
		case after:
			wrote = write
			return Handling{After: kill}
		}
		wrote = write
		kill()
		return Handling{Drop: true}
	})
	command.Env = append(s.Env(), env...)
	out, err := command.CombinedOutput()
	mu.Lock()
	defer mu.Unlock()
	if wrote != "" {
		// The Lease would expire after half a minute.
		err := s.Kube().CoordinationV1().Leases(namespace).Delete(t.Context(), v1alpha1.LeaseName, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return wrote, string(out)
	}
	if err != nil {
		t.Fatalf("kamino %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return "", string(out)
}
