package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// check is a claim with its test.
type check struct {
	claim string
	holds func(context.Context) error
}

func (s *scenario) checks() []check {
	return []check{
		{"the trial of the image passed, with all checks", s.trialPassed},
		{"the trial node is gone, with its machine", s.trialNodeIsGone},
		{"the new node is Ready and was built from the prototype", s.builtFromPrototype},
		{"the new node ran no bootstrap: recipe and disk have no trace of a bootstrap", s.notBootstrapped},
		{"the new node has the donor's patched packages and kernel, without a patch or a reboot", s.patchedWithoutPatching},
		{isFaster, s.prototypeIsFaster},
		{"the donor's container images were on the new disk from the start", s.imagesAreCached},
		{"the new node and its donor have different identities: machine-id, host name, ssh key, certificate", s.identityIsItsOwn},
		{"no two machines have collided", s.nothingCollided},
		{"the donor is back in service, unchanged", s.donorIsBack},
		{"the other nodes are unchanged", s.othersUntouched},
		{"the cloud rebuilt no running node", s.noNodeUpgraded},
		{"no snapshot, pod or lock is left", s.noLeftovers},
	}
}

func (s *scenario) everythingIsChecked(ctx context.Context) error {
	var failed []error
	checks := s.checks()
	switch {
	case s.Rollback:
		checks = s.rollbackChecks()
	case s.Pioneer:
		checks = pioneerDemo{s}.pioneerChecks()
	case s.joinsByKubeadm():
		checks = s.kubeadmChecks()
	case s.joinsByRole():
		checks = s.eksChecks()
	}
	for _, c := range checks {
		err := c.holds(ctx)
		s.print.check(c.claim, err)
		if err != nil {
			failed = append(failed, fmt.Errorf("check failed: %s: %w", c.claim, err))
		}
	}
	return errors.Join(failed...)
}

// machineOf finds a machine by the name of its node.
func (s *scenario) machineOf(node string) (machine.Status, error) {
	for _, m := range s.world.Fleet().Machines() {
		if m.Node == node {
			return m, nil
		}
	}
	return machine.Status{}, fmt.Errorf("no machine for node %s", node)
}

func (s *scenario) builtFromPrototype(ctx context.Context) error {
	version := s.capture.prototype.Status.Image
	if version == nil {
		return errors.New("the Prototype has no image version")
	}
	built, err := s.world.VersionOf(ctx, s.pool, s.clone.machine.Image)
	if err != nil {
		return err
	}
	if built != s.capture.prototype.Spec.Version {
		return fmt.Errorf("%s was built from %s, want %s", s.clone.Node, s.clone.machine.Image, version.ID)
	}
	if s.generic.machine.Image == s.clone.machine.Image {
		return fmt.Errorf("%s is older and was built from the same image", s.generic.Node)
	}
	return s.isReady(ctx, s.clone.Node)
}

func (s *scenario) isReady(ctx context.Context, name string) error {
	node, err := s.world.Kube().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not Ready", name)
}

// bootstrapTraces are files of a bootstrap on a node's disk: of the installer, and of the extension that started the
// installer.
var bootstrapTraces = []string{"var/log/a*/cluster-provision.log", "var/lib/waagent/*CustomScript*"}

func (s *scenario) notBootstrapped(ctx context.Context) error {
	pools, err := s.world.Pools(ctx)
	if err != nil {
		return err
	}
	if slices.Contains(pools[0].Extensions, pool.BootstrapExtension) {
		return fmt.Errorf("the recipe still has the extension %s", pool.BootstrapExtension)
	}
	if len(pools[0].Extensions) == 0 {
		return errors.New("the recipe has lost the other extensions")
	}
	return s.noTrace(bootstrapTraces)
}

// noTrace requires the traces of a bootstrap on the generic node's disk, and no trace on the clone's disk.
func (s *scenario) noTrace(traces []string) error {
	for _, trace := range traces {
		// The patterns are ours and well formed, so there is no error to look at.
		if found, _ := filepath.Glob(filepath.Join(s.clone.machine.Disk, trace)); len(found) > 0 {
			return fmt.Errorf("%s is on the disk of %s", trace, s.clone.Node)
		}
		if found, _ := filepath.Glob(filepath.Join(s.generic.machine.Disk, trace)); len(found) == 0 {
			return fmt.Errorf("%s is missing on the disk of %s, too, which was bootstrapped: the trace proves nothing", trace, s.generic.Node)
		}
	}
	return nil
}

func (s *scenario) patchedWithoutPatching(context.Context) error {
	donor := s.before[s.donor]
	if !maps.Equal(donor.Packages, s.clone.machine.Packages) {
		return errors.New("the packages differ from the donor's packages")
	}
	if maps.Equal(donor.Packages, s.generic.machine.Packages) {
		return fmt.Errorf("the donor has the packages of %s, which was never patched", s.generic.Node)
	}
	if s.clone.machine.Kernel != donor.Kernel || donor.Kernel == s.generic.machine.Kernel {
		return fmt.Errorf("kernels: %s has %s, the donor %s, %s %s", s.clone.Node, s.clone.machine.Kernel, donor.Kernel, s.generic.Node,
			s.generic.machine.Kernel)
	}
	if s.clone.machine.Boots != 1 {
		return fmt.Errorf("the machine has booted %d times", s.clone.machine.Boots)
	}
	return nil
}

func (s *scenario) imagesAreCached(context.Context) error {
	for _, image := range s.before[s.donor].Images {
		if !slices.Contains(s.clone.images, image) {
			return fmt.Errorf("image %s was missing", image)
		}
	}
	if len(s.clone.images) <= len(s.generic.images) {
		return fmt.Errorf("%s began with %d images, %s with %d", s.clone.Node, len(s.clone.images), s.generic.Node, len(s.generic.images))
	}
	return nil
}

func (s *scenario) identityIsItsOwn(context.Context) error {
	others := map[string]identity{"the donor at its capture": s.asDonor, s.generic.Node: s.generic.identity}
	donor, err := s.machineOf(s.donor)
	if err != nil {
		return err
	}
	if others["the donor now"], err = identify(donor.Disk); err != nil {
		return err
	}
	for who, other := range others {
		if shared := s.clone.identity.shared(other); len(shared) > 0 {
			return fmt.Errorf("shared with %s: %s", who, strings.Join(shared, ", "))
		}
	}
	// The name of an EKS node is the full DNS name of its instance.
	if name, _, _ := strings.Cut(s.clone.Node, "."); s.clone.identity.hostname != name {
		return fmt.Errorf("host name %s, want the node name %s", s.clone.identity.hostname, s.clone.Node)
	}
	return nil
}

func (s *scenario) nothingCollided(context.Context) error {
	if seen := s.world.Fleet().Collisions(); len(seen) > 0 {
		return errors.New(seen[0].String())
	}
	return nil
}

func (s *scenario) noNodeUpgraded(context.Context) error {
	if rolled := s.world.Cloud().UpgradedByCloud(); len(rolled) > 0 {
		return fmt.Errorf("%s was changed to the new recipe while running", rolled[0])
	}
	return nil
}

func (s *scenario) donorIsBack(ctx context.Context) error {
	if power := s.world.Fleet().Power(s.before[s.donor].ID); power != fleet.On {
		return fmt.Errorf("the power is %s", power)
	}
	return s.isInService(ctx, s.donor)
}

// isInService requires a Ready, schedulable node without a mark of a capture.
func (s *scenario) isInService(ctx context.Context, name string) error {
	node, err := s.world.Kube().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, key := range []string{v1alpha1.ReservationAnnotation, v1alpha1.ScaleDownDisabledAnnotation, v1alpha1.DoNotDisruptAnnotation} {
		if value, found := node.Annotations[key]; found {
			return fmt.Errorf("%s still has the annotation %s=%s", name, key, value)
		}
	}
	if node.Spec.Unschedulable {
		return fmt.Errorf("%s is still cordoned", name)
	}
	return s.isReady(ctx, name)
}

func (s *scenario) othersUntouched(context.Context) error {
	for node, before := range s.before {
		if node == s.donor {
			continue
		}
		now, err := s.machineOf(node)
		if err != nil {
			return err
		}
		if now.BootID != before.BootID || now.MachineID != before.MachineID || now.Image != before.Image {
			return fmt.Errorf("%s was rebooted or rebuilt", node)
		}
	}
	return nil
}

func (s *scenario) noLeftovers(ctx context.Context) error {
	pods, err := s.world.Kube().CoreV1().Pods(v1alpha1.DefaultGeneralizeNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(pods.Items) > 0 {
		return fmt.Errorf("pod %s", pods.Items[0].Name)
	}
	snapshots, err := s.world.Snapshots(ctx)
	if err != nil {
		return err
	}
	if len(snapshots) > 0 {
		return fmt.Errorf("snapshot %s", snapshots[0])
	}
	if cloud := s.world.AWS(); cloud != nil {
		loose, err := cloud.Loose(ctx)
		if err != nil {
			return err
		}
		if len(loose) > 0 {
			return fmt.Errorf("beside the pool there is %s", loose[0])
		}
	}
	lease, err := s.world.Kube().CoordinationV1().Leases(v1alpha1.DefaultNamespace).Get(ctx, v1alpha1.LeaseName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
		return fmt.Errorf("%s still holds the lease", *holder)
	}
	return nil
}
