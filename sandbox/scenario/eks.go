package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// The story of a pool of EKS's, whose nodes join by their instance's role at every boot: its donor returns.

// eksPool is what it is told of.
func eksPool() pool.Spec {
	spec := world.DefaultPool()
	spec.Profile = "eks"
	return spec
}

func (s *story) eksChecks() []check {
	return []check{
		{"the image passed its trial on a node beside the pool, check by check, and says so", s.tried},
		{"the trial's node is gone, with its machine", s.trialNodeIsGone},
		{"the new node was built from the prototype, and is Ready", s.builtFromPrototype},
		{"nodeadm has joined it by its instance's role, and no credential is on its disk", s.joinedByItsRole},
		{"the recipe still has it join: the same user data, another image", s.recipeIsKept},
		{"the donor's container images were on its disk from the start", s.imagesAreWarm},
		{"it was not patched and not rebooted, and has the donor's patched packages and kernel", s.patchedWithoutPatching},
		{"it shares no identity with its donor, as that was or as that is: machine-id, host name, ssh key, certificate", s.identityIsItsOwn},
		{"no two machines have collided", s.nothingCollided},
		{"the donor is back in service, as it was", s.donorIsBack},
		{"the other nodes were left alone", s.othersUntouched},
		{"the cloud rebuilt no node that ran", s.nothingRolled},
		{"no snapshot, pod or lock is left behind", s.nothingLeftBehind},
	}
}

// joinedByItsRole looks at how the kubelet finds its credential, and that the join has left none.
func (s *story) joinedByItsRole(context.Context) error {
	kubeconfig, err := os.ReadFile(filepath.Join(s.clone.machine.Disk, "var/lib/kubelet/kubeconfig"))
	if err != nil {
		return err
	}
	if !strings.Contains(string(kubeconfig), "get-token") || strings.Contains(string(kubeconfig), "client-key") {
		return errors.New("its kubelet does not ask IAM for its credential")
	}
	for _, credential := range []string{"var/lib/kubelet/pki/kubelet-client-*", "etc/kubernetes/certs/client.*", "etc/kubernetes/*kubelet.conf"} {
		// The patterns are ours and well formed, so there is no error to look at.
		if found, _ := filepath.Glob(filepath.Join(s.clone.machine.Disk, credential)); len(found) > 0 {
			return fmt.Errorf("%s is on its disk", found[0])
		}
	}
	return nil
}
