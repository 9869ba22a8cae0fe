package demo

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/machine/kubeadm"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// The demo with a pool whose nodes join with kubeadm, or by Cluster API. The donor serves, and its disk is copied.

// kubeadmPool is the pool of the demo.
func kubeadmPool() pool.Spec {
	spec := world.DefaultPool()
	spec.Nodes, spec.Profile = 2, "bootstrap"
	return spec
}

func (s *scenario) kubeadmSteps() []step {
	builds := "A cluster starts; its nodes join with `kubeadm join`"
	if s.ClusterAPI != "" {
		builds = "A cluster starts; Cluster API builds its nodes: a MachineDeployment with OnDelete and the kubeadm provider"
	}
	return []step{
		{builds, s.clusterComesUp},
		{"A workload runs on the cluster", s.workloadRuns},
		{"The pool grows by a node from the generic image", s.growsSlowly},
		{"A node is patched and rebooted", s.nodeIsPatched},
		{s.captureTitle(), s.nodeIsCaptured},
		{"The pool grows by a node from the golden image", s.growsFast},
		{"Checks", s.everythingIsChecked},
		{"Both nodes, side by side", s.compareNodes},
	}
}

func (s *scenario) kubeadmChecks() []check {
	recipe, isKept := "the recipe still lets nodes join: the same customData, the same extensions, another image", s.recipeIsKept
	if s.Cloud == pool.AWS {
		recipe = "the recipe still lets nodes join: the same user data, another image"
	}
	if s.ClusterAPI != "" {
		recipe, isKept = "the MachineDeployment names a copy of the template with another image, and the same bootstrap configuration", s.templateIsCopied
	}
	return []check{
		{"the trial of the image passed on a node next to the pool, with all checks", s.trialPassed},
		{"the trial node is gone, with its machine", s.trialNodeIsGone},
		{"the new node is Ready and was built from the prototype", s.builtFromPrototype},
		{"the new node joined with kubeadm, with a certificate of its own that the cluster signed", s.joinedByItself},
		{recipe, isKept},
		{"everything else was on the disk: the new node installed nothing and pulled nothing", s.nothingInstalled},
		{"the new node has the donor's patched packages and kernel, without a patch or a reboot", s.patchedWithoutPatching},
		{isFaster, s.prototypeIsFaster},
		{"the new node and its donor have different identities: machine-id, host name, ssh key, certificate, credential", s.identityIsItsOwn},
		{"no two machines have collided", s.nothingCollided},
		{served, s.donorServed},
		{"the pool has the wanted number of nodes, and all nodes serve", s.poolIsWhole},
		{"the other nodes are unchanged", s.othersUntouched},
		{"the cloud rebuilt no running node", s.noNodeUpgraded},
		{"no snapshot, pod or lock is left", s.noLeftovers},
	}
}

// specOf is the spec from which the cloud built a machine, with the secret parts.
func (s *scenario) specOf(id string) (fleet.Spec, error) {
	for _, spec := range s.world.Cloud().Specs() {
		if strings.EqualFold(spec.ID, id) {
			return spec, nil
		}
	}
	return fleet.Spec{}, fmt.Errorf("the cloud has no instance %s", id)
}

func (s *scenario) joinedByItself(context.Context) error {
	content, err := os.ReadFile(filepath.Join(s.clone.machine.Disk, credential))
	if err != nil {
		return err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return errors.New("the credential holds no certificate")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	if name := "system:node:" + s.clone.Node; certificate.Subject.CommonName != name {
		return fmt.Errorf("the certificate is for %s, want %s", certificate.Subject.CommonName, name)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.world.Config().CAData)
	_, err = certificate.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}

func (s *scenario) recipeIsKept(context.Context) error {
	was, err := s.specOf(s.generic.machine.ID)
	if err != nil {
		return err
	}
	is, err := s.specOf(s.clone.machine.ID)
	if err != nil {
		return err
	}
	if _, err := kubeadm.Find(string(is.CustomData)); err != nil && !strings.Contains(string(is.CustomData), disk.NodeConfig) {
		return err
	}
	if string(is.CustomData) != string(was.CustomData) {
		return errors.New("the customData has changed")
	}
	if len(is.Extensions) == 0 && s.Cloud == pool.Azure || len(is.Extensions) != len(was.Extensions) {
		return fmt.Errorf("the recipe has %d extensions, had %d", len(is.Extensions), len(was.Extensions))
	}
	return nil
}

func (s *scenario) nothingInstalled(ctx context.Context) error {
	if err := s.noTrace(bootstrapTraces[:1]); err != nil {
		return err
	}
	return s.imagesAreCached(ctx)
}

// poolIsWhole compares the number of nodes: the nodes before the capture, and the clone.
func (s *scenario) poolIsWhole(ctx context.Context) error {
	want := len(s.before) + 1
	if size, err := s.size(ctx); err != nil || size != int64(want) {
		return errors.Join(err, fmt.Errorf("the wanted size of the pool is %[2]d, want %[1]d", size, want))
	}
	machines, err := s.world.Machines(ctx)
	if err != nil {
		return err
	}
	if len(machines) != want {
		return fmt.Errorf("found %d machines, want %d", len(machines), want)
	}
	for _, m := range machines {
		if err := s.isInService(ctx, m.Node); err != nil {
			return err
		}
	}
	return nil
}
