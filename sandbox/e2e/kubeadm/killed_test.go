package kubeadm

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
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// enough commands for any capture: one that goes round in circles has more.
const enough = 60

// TestNoCommandOutlivesAWrite is a capture of which each command dies with its first write to the cloud, in turns before and after
// the write has its effect, so that each write is lost either way. Of a step that begins with writes that were lost already, the
// next command is let come one write further. What comes of it is what comes of any other.
func TestNoCommandOutlivesAWrite(t *testing.T) {
	sandbox.Install(t)
	before := sandbox.Pool(t, "name=killed,nodes=2,profile=bootstrap")
	donor, neighbour := before[0], before[1]
	asDonor := ownOf(t, donor)
	var deaths []string
	said, nth := "", 1
	for {
		if len(deaths) > enough {
			t.Fatalf("%d commands have died, and the capture is not over; with %v:\n%s", len(deaths), deaths, said)
		}
		var wrote string
		for _, after := range []bool{false, true} {
			if wrote, said = diesWithItsWrite(t, nth, after, captureOf(donor.Node)...); wrote == "" {
				break
			}
		}
		if wrote == "" {
			break
		}
		if nth++; !slices.Contains(deaths, wrote) {
			nth = 1
		}
		deaths = append(deaths, wrote)
	}
	t.Logf("commands died with %v", deaths)
	if want := "builds its next nodes from version "; !strings.Contains(said, want) {
		t.Fatalf("the last command does not say %q:\n%s", want, said)
	}
	if size := sizeOf(t, "killed"); size != 2 {
		t.Errorf("the pool is meant to have %d nodes, want 2", size)
	}
	testGone(t, donor)
	p := prototypeOf(t, donor.Node)
	if p.Status.Phase != v1alpha1.PhaseSucceeded {
		t.Errorf("the Prototype is %s: %+v", p.Status.Phase, p.Status.Failure)
	}
	if versions, err := sandbox.Versions(t.Context(), "killed"); err != nil || len(versions) != 1 || !versions[0].Complete {
		t.Errorf("the pool has the versions %+v: %v", versions, err)
	}
	machines := sandbox.MachinesOf(t, "killed")
	if len(machines) != 2 {
		t.Errorf("the pool has %d machines, want %s and one in the donor's place", len(machines), neighbour.Node)
	}
	clone := grow(t, "killed")
	testCopy(t, clone, p, map[string]map[string]string{"the donor": asDonor, neighbour.Node: ownOf(t, neighbour)})
	if seen := sandbox.Fleet().Collisions(); len(seen) > 0 {
		t.Error(seen[0].String())
	}
}

// diesWithItsWrite runs kamino until its nth write to the cloud, and kills it: before the cloud has it, or as soon as it has had its
// effect. It tells what was written. One that writes less ends by itself.
func diesWithItsWrite(t *testing.T, nth int, after bool, args ...string) (wrote, said string) {
	t.Helper()
	var mu sync.Mutex
	command, writes := exec.Command(sandbox.Kamino, args...), 0
	env := sandbox.Gates(t, func(to sandboxtest.Server, r *http.Request) sandboxtest.Passage {
		if to != sandboxtest.Cloud {
			return sandboxtest.Passage{}
		}
		mu.Lock()
		defer mu.Unlock()
		write := sandboxtest.Write(r)
		if write != "" {
			writes++
		}
		kill := func() { _ = command.Process.Kill() } // one that is dead already stays so
		switch {
		case write == "" || writes < nth:
			return sandboxtest.Passage{}
		case writes > nth: // on its way when the one before killed it
			return sandboxtest.Passage{Lost: true}
		case after:
			wrote = write
			return sandboxtest.Passage{After: kill}
		}
		wrote = write
		kill()
		return sandboxtest.Passage{Lost: true}
	})
	command.Env = append(sandbox.Env(), env...)
	out, err := command.CombinedOutput()
	mu.Lock()
	defer mu.Unlock()
	if wrote != "" {
		// As half a minute would.
		err := sandbox.Kube().CoordinationV1().Leases(v1alpha1.DefaultNamespace).Delete(t.Context(), v1alpha1.LeaseName, metav1.DeleteOptions{})
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
