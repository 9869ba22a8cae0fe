package sandboxtest

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/machine"
)

// AssertState waits until the pool is in a state, because cluster and cloud finish their own work late.
func (e *Env) AssertState(want PoolState) {
	e.Helper()
	e.Eventually("it is as it should be", func() (bool, string) {
		diff := cmp.Diff(want, e.State())
		return diff == "", "(-want +got):\n" + diff
	})
}

// AssertReturned asserts that a finished capture left nothing behind, that the pool is unchanged, and that the donor
// is back in service. boots is the number of the donor's boots.
func (e *Env) AssertReturned(before PoolState, donor string, boots int) {
	e.Helper()
	want := before.Clone()
	want.Boots[donor] += boots
	e.AssertState(want)
	e.AssertEnded()
}

// AssertCaptured asserts a successful capture of a donor that returns. The recipe names an image with the donor's
// disk. The donor serves again after one boot, and nothing else of the pool has changed.
func (e *Env) AssertCaptured(before PoolState, donor string) {
	e.Helper()
	p := e.AssertSucceeded(donor)
	want, now := before.Clone(), e.CloudPool()
	want.Image, want.Extensions, want.ScaleSet = now.Image, slices.Sorted(slices.Values(now.Extensions)), e.scaleSet()
	want.Versions = append(slices.Clone(before.Versions), p.Spec.Version+" complete")
	e.AssertReturned(want, donor, 1)
}

// AssertCopied asserts that the last capture copied the disk of its donor, and succeeded. The recipe names an image with the donor's
// disk. The donor was never rebooted, and nothing else of the pool has changed.
func (e *Env) AssertCopied(before PoolState, donor string) {
	e.Helper()
	all := e.Prototypes()
	p := &all[len(all)-1]
	if !p.Spec.Settings.CopiesDonor() || p.Spec.Donor.NodeName != donor || p.Status.Phase != v1alpha1.PhaseSucceeded {
		e.Fatalf("the Prototype is %+v, want a copy of node %s that has succeeded", p, donor)
	}
	want, now := before.Clone(), e.CloudPool()
	want.Image = now.Image
	if next := e.VersionOf(now.Image); next != p.Spec.Version {
		e.Errorf("pool %s builds its next nodes from version %q, want %s", e.Pool, next, p.Spec.Version)
	}
	want.Versions = append(slices.Clone(before.Versions), p.Spec.Version+" complete")
	e.AssertReturned(want, donor, 0)
	e.AssertNothingLeft()
}

// AssertSucceeded asserts that the pool's only capture has succeeded, and that the recipe names its version.
func (e *Env) AssertSucceeded(donor string) *v1alpha1.Prototype {
	e.Helper()
	p := e.Prototype()
	if p == nil || p.Status.Phase != v1alpha1.PhaseSucceeded || p.Spec.Donor.NodeName != donor {
		e.Fatalf("the Prototype is %+v, want one of node %s that has succeeded", p, donor)
	}
	if next := e.NextVersion(); next != p.Spec.Version {
		e.Errorf("pool %s builds its next nodes from version %q, want %s", e.Pool, next, p.Spec.Version)
	}
	return p
}

// AssertNodeGone waits until a node is gone, with its instance and disk.
func (e *Env) AssertNodeGone(name string) {
	e.Helper()
	e.Eventually("node "+name+" is gone", func() (bool, string) {
		_, err := e.Kube().CoreV1().Nodes().Get(e.Context(), name, metav1.GetOptions{})
		for _, m := range e.MachinesNow() {
			if m.Node == name {
				return false, "its instance is there"
			}
		}
		for _, m := range e.Machines {
			if m.Node != name || m.Disk == "" {
				continue
			}
			if _, err := os.Stat(m.Disk); !os.IsNotExist(err) {
				return false, fmt.Sprint("its disk is there: ", err)
			}
		}
		return apierrors.IsNotFound(err), fmt.Sprint("its Node is there: ", err)
	})
}

// AssertServes waits until a node is Ready and schedulable, and Kamino neither reserves nor protects it.
func (e *Env) AssertServes(name string) {
	e.Helper()
	e.Eventually("node "+name+" serves", func() (bool, string) {
		n, err := e.Kube().CoreV1().Nodes().Get(e.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		reserved := false
		for _, key := range []string{v1alpha1.ReservationAnnotation, v1alpha1.ScaleDownDisabledAnnotation, v1alpha1.TrialKey} {
			_, found := n.Annotations[key]
			reserved = reserved || found
		}
		return nodestate.Available(n) && !reserved, fmt.Sprintf("Ready: %t, spec %+v, annotations %v", nodestate.Ready(n), n.Spec, n.Annotations)
	})
}

// AssertEnded asserts that all Prototypes of the pool have ended, and nothing is left to do.
func (e *Env) AssertEnded() {
	e.Helper()
	for _, p := range e.Prototypes() {
		if !Ended(&p) {
			e.Errorf("Prototype %s is %s, with the annotations %v and the finalizers %v", p.Name, p.Status.Phase, p.Annotations, p.Finalizers)
		}
	}
}

// AssertFailed asserts that the pool's only capture has failed for a reason, and returns the Prototype.
func (e *Env) AssertFailed(reason string) *v1alpha1.Prototype {
	e.Helper()
	p := e.Prototype()
	if p == nil || p.Status.Phase != v1alpha1.PhaseFailed || p.Status.Failure == nil || p.Status.Failure.Reason != reason {
		e.Fatalf("the Prototype is %+v, want one that has failed with %s", p, reason)
	}
	return p
}

// AssertNothingLeft asserts that captures and trials have left only versions: no snapshot, pod or Job, no protected
// instance, no reserved node, no Lease of a donor, no trial machine with its Node and scale set, no workshop with its volume.
func (e *Env) AssertNothingLeft() {
	e.Helper()
	e.Eventually("nothing of Kamino's is left", func() (bool, string) {
		left := e.leftovers()
		return len(left) == 0, strings.Join(left, ", ")
	})
}

func (e *Env) leftovers() (left []string) {
	e.Helper()
	now := e.State()
	for what, names := range map[string][]string{"snapshots": now.Snapshots, "pods": now.Pods, "jobs": now.Jobs, "protected instances": now.Protected} {
		if len(names) > 0 {
			left = append(left, fmt.Sprintf("%s: %v", what, names))
		}
	}
	nodes, err := e.Kube().CoreV1().Nodes().List(e.Context(), metav1.ListOptions{})
	e.Must(err)
	for _, n := range nodes.Items {
		_, own := now.Nodes[n.Name]
		reserved := n.Annotations[v1alpha1.ReservationAnnotation] != "" || n.Annotations[v1alpha1.TrialKey] != "" || n.Spec.Unschedulable
		if own && reserved || strings.Contains(n.Annotations[v1alpha1.TrialKey], e.Group+"-") {
			left = append(left, fmt.Sprintf("node %s, %v", n.Name, n.Annotations))
		}
	}
	machines := e.MachinesNow()
	for _, m := range e.MachinesOfVersions() {
		if !slices.ContainsFunc(machines, func(own machine.Status) bool { return own.ID == m.ID }) {
			left = append(left, "machine "+m.ID)
		}
	}
	return slices.Concat(left, e.leftLeases(), e.leftOnAzure(), e.leftBesideGroup())
}

// leftLeases returns the Leases of the pool's donors.
func (e *Env) leftLeases() (left []string) {
	e.Helper()
	leases, err := e.Kube().CoordinationV1().Leases(e.Namespace).List(e.Context(), metav1.ListOptions{})
	e.Must(err)
	for _, lease := range leases.Items {
		if slices.ContainsFunc(e.Nodes, func(node string) bool { return strings.HasPrefix(lease.Name, "node-"+node+"-") }) {
			left = append(left, "Lease "+lease.Name)
		}
	}
	return left
}

// leftBesideGroup returns the instances and volumes beside an Auto Scaling group.
func (e *Env) leftBesideGroup() []string {
	e.Helper()
	if e.Sandbox.AWS() == nil {
		return nil
	}
	all, err := e.Sandbox.AWS().Loose(e.Context())
	e.Must(err)
	return slices.DeleteFunc(all, func(tags string) bool { return !strings.Contains(tags, e.Group) })
}

// leftOnAzure returns the scale sets of trials and workshops, the pool's own scale set if a tag still names a trial, and the copies of
// disks.
func (e *Env) leftOnAzure() (left []string) {
	e.Helper()
	if e.Sandbox.Azure() == nil {
		return nil
	}
	pools, err := e.Sandbox.Pools(e.Context())
	e.Must(err)
	sets, err := e.Sandbox.Azure().ScaleSets(e.Context())
	e.Must(err)
	for _, set := range sets {
		isPool := slices.ContainsFunc(pools, func(p control.Pool) bool { return strings.EqualFold(p.Group, *set.Name) })
		for key, value := range set.Tags {
			if !isPool && key == cloud.TagPrototype && strings.HasPrefix(*value, e.Group) {
				left = append(left, fmt.Sprintf("scale set %s with the tag %s=%s", *set.Name, key, *value))
			}
		}
	}
	disks, err := e.Sandbox.Azure().Disks(e.Context())
	e.Must(err)
	for _, d := range disks {
		if of := d.Tags[cloud.TagPrototype]; of != nil && strings.HasPrefix(*of, e.Group) {
			left = append(left, "disk "+*d.Name)
		}
	}
	return left
}
