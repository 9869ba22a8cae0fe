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

// enough commands for any capture: one that goes round in circles has more.
const enough = 60

// EachDiesWithItsWrite runs kamino, which works in the namespace, with these arguments again and again, each until its first write to the cloud or to the management cluster, in turns before and
// after the write has its effect, so that each write is lost either way. Of a step that begins with writes that were lost already, the
// next command is let come one write further. It returns what the last one has said, which had nothing left to write; every one that
// is not killed must end well.
func (s *Sandbox) EachDiesWithItsWrite(t testing.TB, namespace string, args ...string) (said string) {
	t.Helper()
	var deaths []string
	for nth := 1; ; {
		if len(deaths) > enough {
			t.Fatalf("%d commands have died, and it is not over; with %v:\n%s", len(deaths), deaths, said)
		}
		var wrote string
		for _, after := range []bool{false, true} {
			if wrote, said = s.diesWithItsWrite(t, namespace, nth, after, args...); wrote == "" {
				t.Logf("commands died with %v", deaths)
				return said
			}
		}
		if nth++; !slices.Contains(deaths, wrote) {
			nth = 1
		}
		deaths = append(deaths, wrote)
	}
}

// diesWithItsWrite runs kamino until its nth write to the cloud, and kills it: before the cloud has it, or as soon as it has had its
// effect. It tells what was written. One that writes less ends by itself.
func (s *Sandbox) diesWithItsWrite(t testing.TB, namespace string, nth int, after bool, args ...string) (wrote, said string) {
	t.Helper()
	var mu sync.Mutex
	command, writes := exec.Command(s.Kamino, args...), 0
	env := s.Gates(t, func(to Server, r *http.Request) Passage {
		if to == APIServer {
			return Passage{}
		}
		mu.Lock()
		defer mu.Unlock()
		write := Write(r)
		if write != "" {
			writes++
		}
		kill := func() { _ = command.Process.Kill() } // one that is dead already stays so
		switch {
		case write == "" || writes < nth:
			return Passage{}
		case writes > nth: // on its way when the one before killed it
			return Passage{Lost: true}
		case after:
			wrote = write
			return Passage{After: kill}
		}
		wrote = write
		kill()
		return Passage{Lost: true}
	})
	command.Env = append(s.Env(), env...)
	out, err := command.CombinedOutput()
	mu.Lock()
	defer mu.Unlock()
	if wrote != "" {
		// As half a minute would.
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
