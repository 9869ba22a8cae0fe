// Package joining tells how the nodes of a pool join, and by that which profile their disks are generalized with: from what
// a Node says of itself, what its cluster has, and what an earlier capture of the pool proved.
//
// It is pure. What it finds is a guess from outside the disk: the look at the disk has the last word before anything is taken,
// and what a person names is not judged here.
package joining

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imageversion"
)

// ProfileUnknown: nothing tells how the nodes of the pool join, or what tells it contradicts itself.
const ProfileUnknown = "ProfileUnknown"

// What a Node carries that joined in one way. Each is written by what it is named for, with its source.
const (
	// Every bootstrap provider of Cluster API gives each machine data of its own to join with.
	machineAnnotation = cloud.MachineAnnotation
	// criSocketAnnotation names the socket of the container runtime. kubeadm wrote it at each join; from 1.37 on it keeps the
	// socket on the node's disk instead, so that only nodes which joined with an earlier kubeadm have it. Source: kubeadm,
	// feature gate NodeLocalCRISocket (KEP-4656).
	criSocketAnnotation = "kubeadm.alpha.kubernetes.io/cri-socket"
	// kopsLabel names the instance group of kOps. Its nodes ask kops-controller for a certificate of their own at each boot.
	// Source: kOps, labels of instance groups; nodeup.
	kopsLabel = "kops.k8s.io/instancegroup"
	// nodegroupLabel and eksctlLabel name the node group of EKS, the former written by managed node groups, the latter by
	// eksctl for its own. Their kubelets join by IAM. Source: Amazon EKS, managed node groups; eksctl.
	nodegroupLabel = "eks.amazonaws.com/nodegroup"
	eksctlLabel    = "alpha.eksctl.io/nodegroup-name"
	// eksKubelet is in the version of every kubelet that EKS builds, and nodeadmOS is what the system of those calls itself that
	// nodeadm sets up at each boot. Those of other systems are set up once, by what each has for it. Source: awslabs/amazon-eks-ami.
	eksKubelet = "-eks-"
	nodeadmOS  = "Amazon Linux 2023"
	// roleLabel, which AKS Engine's releases before 0.39 wrote as oldRoleLabel, stands beside poolLabel on the nodes of AKS Engine
	// and of AKS that it became; modeLabel only on those of AKS. An AKS Engine node's kubelet has the cluster's one client
	// certificate. Source: AKS Engine, GetKubernetesLabels and label-nodes.sh; AKS, reserved labels.
	roleLabel    = "kubernetes.azure.com/role"
	oldRoleLabel = "kubernetes.io/role"
	poolLabel    = "agentpool"
	modeLabel    = "kubernetes.azure.com/mode"
	agentRole    = "agent"
)

// Facts are what is known from outside a node's disk.
type Facts struct {
	Node *corev1.Node
	// KubeadmConfig tells that the cluster has ConfigMap kube-system/kubeadm-config, which kubeadm uploads when it makes a
	// control plane and reads at each join. Source: kubeadm, init phase upload-config.
	KubeadmConfig bool
	// Unread is why nobody can tell whether it is there; empty if somebody could.
	Unread string
	// Version that the pool's recipe names now, and Proof its tag cloud.TagProof. Empty if that is none of the pool's own.
	Version, Proof string
}

// Answer is how the nodes of a pool join.
type Answer struct {
	// Profile that their disks are generalized with; empty if it is not known.
	Profile v1alpha1.Profile `json:"profile,omitempty"`
	// Why is a sentence about what tells it, or about why nothing does.
	Why string `json:"why"`
	// Node that it was asked for.
	Node string `json:"-"`
}

// sign is what a Node carries that speaks for a profile.
type sign struct {
	profile v1alpha1.Profile
	by      string // what such nodes join with
	carries string // what it is that tells
}

// signsOf are all that a Node carries.
func signsOf(n *corev1.Node) (found []sign) {
	_, machine := n.Annotations[machineAnnotation]
	_, socket := n.Annotations[criSocketAnnotation]
	_, kops := n.Labels[kopsLabel]
	_, nodegroup := n.Labels[nodegroupLabel]
	_, eksctl := n.Labels[eksctlLabel]
	nodeadm := strings.Contains(n.Status.NodeInfo.KubeletVersion, eksKubelet) && strings.HasPrefix(n.Status.NodeInfo.OSImage, nodeadmOS)
	for _, known := range []struct {
		there bool
		sign
	}{
		{machine, sign{v1alpha1.ProfileBootstrap, "Cluster API", "annotation " + machineAnnotation}},
		{socket, sign{v1alpha1.ProfileBootstrap, "kubeadm", "annotation " + criSocketAnnotation}},
		{kops, sign{v1alpha1.ProfileBootstrap, "kOps", "label " + kopsLabel}},
		{nodeadm, sign{v1alpha1.ProfileEKS, "nodeadm", fmt.Sprintf("kubelet %s on %s", n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OSImage)}},
		{nodegroup && !nodeadm, sign{v1alpha1.ProfileBootstrap, "EKS", "label " + nodegroupLabel}},
		{eksctl && !nodeadm, sign{v1alpha1.ProfileBootstrap, "EKS", "label " + eksctlLabel}},
	} {
		if known.there {
			found = append(found, known.sign)
		}
	}
	if role := aksEngine(n); role != "" {
		found = append(found, sign{v1alpha1.ProfileStatic, "AKS Engine", fmt.Sprintf("labels %s=%s and %s", role, agentRole, poolLabel)})
	}
	return found
}

// aksEngine is the label by which a node is AKS Engine's; empty if it is not.
func aksEngine(n *corev1.Node) string {
	_, pool := n.Labels[poolLabel]
	_, managed := n.Labels[modeLabel]
	if !pool || managed {
		return ""
	}
	for _, role := range []string{roleLabel, oldRoleLabel} {
		if n.Labels[role] == agentRole {
			return role
		}
	}
	return ""
}

// Told tells that the pool's version or the Node itself decides, so that nobody need look for the cluster's ConfigMap.
func (f Facts) Told() bool { return f.Proof != "" || len(signsOf(f.Node)) > 0 }

// Of tells how the nodes of the pool join. What a version of the pool was proven to be generalized with outranks all, for its
// nodes run; then comes what the Node carries, and last what the cluster has, for that speaks of no node.
func Of(f Facts) Answer {
	a := Answer{Node: f.Node.Name}
	signs := signsOf(f.Node)
	switch {
	case f.Proof != "":
		name, _, _ := strings.Cut(f.Proof, "/")
		if !known(v1alpha1.Profile(name)) {
			a.Why = fmt.Sprintf("version %s, which the pool's recipe names, was generalized with profile %q, which this Kamino does not know", f.Version, name)
			return a
		}
		a.Profile, a.Why = v1alpha1.Profile(name), fmt.Sprintf("version %s, which the pool's recipe names, was generalized with profile %s", f.Version, name)
	case len(signs) > 0:
		other := slices.IndexFunc(signs, func(s sign) bool { return s.profile != signs[0].profile })
		if other >= 0 {
			a.Why = fmt.Sprintf("what node %s carries contradicts itself: %s speaks for profile %s, %s for profile %s", f.Node.Name,
				signs[0].carries, signs[0].profile, signs[other].carries, signs[other].profile)
			return a
		}
		a.Profile, a.Why = signs[0].profile, fmt.Sprintf("node %s joined with %s: %s", f.Node.Name, signs[0].by, signs[0].carries)
	case f.KubeadmConfig:
		a.Profile, a.Why = v1alpha1.ProfileBootstrap, fmt.Sprintf("node %s joined with kubeadm: the cluster has ConfigMap kube-system/kubeadm-config", f.Node.Name)
	default:
		a.Why = fmt.Sprintf("nothing tells how node %s joined: it carries nothing of kubeadm, Cluster API, EKS, kOps or AKS Engine", f.Node.Name)
		if f.Unread != "" {
			a.Why += ", and whether the cluster has ConfigMap kube-system/kubeadm-config can't be looked at: " + f.Unread
		}
	}
	return a
}

// known tells whether it is one of the profiles there are.
func known(p v1alpha1.Profile) bool {
	return slices.Contains(v1alpha1.Profiles(), p)
}

// Choice is what to name, where nothing else tells it.
const Choice = "static if all nodes of the cluster share one kubelet credential (AKS Engine), eks if nodeadm joins each at every boot (EKS with Amazon Linux 2023), bootstrap if each joins with its own (kubeadm, Cluster API, kOps)"

// Refusals of a capture whose profile is not known; none where it is.
func (a Answer) Refusals() []cloud.Refusal {
	if a.Profile != "" {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(ProfileUnknown, a.Why, "name the profile with --profile (settings.generalize.profile): "+Choice)}
}

// With are the facts of a pool's node, by what its cloud tells of the pool and of its versions.
func With(n *corev1.Node, pool cloud.Pool, images []cloud.Image) Facts {
	f := Facts{Node: n}
	for _, image := range images {
		if version := pool.Recipe.Version; version != "" && imageversion.Compare(image.Version, version) == 0 && image.Tags[cloud.TagProof] != "" {
			f.Version, f.Proof = version, image.Tags[cloud.TagProof]
		}
	}
	return f
}
