// Package bootstrapkind finds how the nodes of a pool join, and thus the profile for generalizing their disks. The evidence
// is the Node, the cluster, and the proof of an earlier capture of the pool.
//
// The package is pure. The result is a guess from outside the disk: the check of the disk decides before any change. A
// profile in the settings is not checked here.
package bootstrapkind

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// ProfileUnknown: there is no evidence how the nodes of the pool join, or the evidence contradicts itself.
const ProfileUnknown = "ProfileUnknown"

// Evidence on a Node about how the node joined, with sources.
const (
	// Every bootstrap provider of Cluster API gives each machine its own bootstrap data.
	machineAnnotation = cloud.MachineAnnotation
	// criSocketAnnotation names the socket of the container runtime. kubeadm before 1.37 wrote the annotation at each
	// join. Newer versions keep the socket on the disk. Source: kubeadm, feature gate NodeLocalCRISocket (KEP-4656).
	criSocketAnnotation = "kubeadm.alpha.kubernetes.io/cri-socket"
	// kopsLabel names the instance group of kOps. The nodes request their own certificate from kops-controller at each
	// boot. Source: kOps, labels of instance groups; nodeup.
	kopsLabel = "kops.k8s.io/instancegroup"
	// nodegroupLabel and eksctlLabel name the EKS node group: managed node groups set the first, eksctl sets the
	// second. Their kubelets join by IAM. Source: Amazon EKS, managed node groups; eksctl.
	nodegroupLabel = "eks.amazonaws.com/nodegroup"
	eksctlLabel    = "alpha.eksctl.io/nodegroup-name"
	// eksKubelet is in the version of every kubelet from EKS. nodeadmOS is the OS image that nodeadm configures at each
	// boot. Other EKS images are configured once. Source: awslabs/amazon-eks-ami.
	eksKubelet = "-eks-"
	nodeadmOS  = "Amazon Linux 2023"
	// rke2Kubelet and k3sKubelet are in the version of the kubelets that RKE2 and k3s contain. Their agents write an annotation with the host
	// name. Source: rancher/rke2, scripts/version.sh; k3s-io/k3s, pkg/version and pkg/nodeconfig.
	rke2Kubelet    = "+rke2r"
	k3sKubelet     = "+k3s"
	rke2Annotation = "rke2.io/hostname"
	k3sAnnotation  = "k3s.io/hostname"
	// roleLabel and poolLabel are on nodes of AKS Engine and AKS, oldRoleLabel is from AKS Engine before 0.39, and modeLabel is
	// on AKS nodes only. Kubelets of AKS Engine share a client certificate. Source: AKS Engine, GetKubernetesLabels and
	// label-nodes.sh; AKS, reserved labels.
	roleLabel    = "kubernetes.azure.com/role"
	oldRoleLabel = "kubernetes.io/role"
	poolLabel    = "agentpool"
	modeLabel    = "kubernetes.azure.com/mode"
	agentRole    = "agent"
)

// Facts are the facts from outside a node's disk.
type Facts struct {
	Node *corev1.Node
	// KubeadmConfig is true if the cluster has ConfigMap kube-system/kubeadm-config. kubeadm creates the ConfigMap with
	// the control plane and reads it at each join. Source: kubeadm, init phase upload-config.
	KubeadmConfig bool
	// Unread is why the ConfigMap could not be read; empty after a read.
	Unread string
	// Version is the version in the recipe, and Proof its tag cloud.TagProof. Both are empty for an image from
	// elsewhere.
	Version, Proof string
}

// Answer is how the nodes of a pool join.
type Answer struct {
	// Profile for generalizing the disks; empty if unknown.
	Profile v1alpha1.Profile `json:"profile,omitempty"`
	// Why is a sentence with the evidence, or with the reason for an unknown profile.
	Why string `json:"message"`
	// Caution is a sentence about new nodes that may not join; empty without a doubt.
	Caution string `json:"caution,omitempty"`
	// Node is the node's name.
	Node string `json:"-"`
}

// evidence is evidence on a Node for a profile.
type evidence struct {
	profile v1alpha1.Profile
	by      string // the tool that such nodes join with
	carries string // the label, annotation or version on the Node
}

// evidenceOf returns all evidence on a Node.
func evidenceOf(n *corev1.Node) (found []evidence) {
	_, machine := n.Annotations[machineAnnotation]
	_, socket := n.Annotations[criSocketAnnotation]
	_, kops := n.Labels[kopsLabel]
	_, nodegroup := n.Labels[nodegroupLabel]
	_, eksctl := n.Labels[eksctlLabel]
	rancher := rancherOf(n)
	nodeadm := strings.Contains(n.Status.NodeInfo.KubeletVersion, eksKubelet) && strings.HasPrefix(n.Status.NodeInfo.OSImage, nodeadmOS)
	for _, known := range []struct {
		there bool
		evidence
	}{
		{machine, evidence{v1alpha1.ProfileBootstrap, "Cluster API", "annotation " + machineAnnotation}},
		{socket, evidence{v1alpha1.ProfileBootstrap, "kubeadm", "annotation " + criSocketAnnotation}},
		{kops, evidence{v1alpha1.ProfileBootstrap, "kOps", "label " + kopsLabel}},
		{rancher.by != "", rancher},
		{nodeadm, evidence{v1alpha1.ProfileEKS, "nodeadm", fmt.Sprintf("kubelet %s on %s", n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OSImage)}},
		{nodegroup && !nodeadm, evidence{v1alpha1.ProfileBootstrap, "EKS", "label " + nodegroupLabel}},
		{eksctl && !nodeadm, evidence{v1alpha1.ProfileBootstrap, "EKS", "label " + eksctlLabel}},
	} {
		if known.there {
			found = append(found, known.evidence)
		}
	}
	if role := aksEngine(n); role != "" {
		found = append(found, evidence{v1alpha1.ProfileStatic, "AKS Engine", fmt.Sprintf("labels %s=%s and %s", role, agentRole, poolLabel)})
	}
	return found
}

// rancherOf returns the evidence of an agent of RKE2 or k3s; the zero evidence without one.
func rancherOf(n *corev1.Node) evidence {
	version := n.Status.NodeInfo.KubeletVersion
	for _, of := range []struct{ by, kubelet, annotation string }{{"RKE2", rke2Kubelet, rke2Annotation}, {"k3s", k3sKubelet, k3sAnnotation}} {
		if strings.Contains(version, of.kubelet) {
			return evidence{v1alpha1.ProfileBootstrap, of.by, "kubelet " + version}
		}
		if _, found := n.Annotations[of.annotation]; found {
			return evidence{v1alpha1.ProfileBootstrap, of.by, "annotation " + of.annotation}
		}
	}
	return evidence{}
}

// minPasswordsGo is the minor version of Kubernetes from which servers of RKE2 and k3s reliably delete the password of a node that is gone.
// Source: rancher/rke2 9165, k3s-io/k3s 13072.
const minPasswordsGo = 34

// NameReused warns about a node of RKE2 or k3s whose name may have been the name of an earlier node: the server refuses a node with a name
// that it knows and another password. Empty for other nodes, and where servers forget the password with the Node.
func NameReused(n *corev1.Node) string {
	by, version := rancherOf(n).by, n.Status.NodeInfo.KubeletVersion
	var minor int
	if _, err := fmt.Sscanf(version, "v1.%d.", &minor); by == "" || err == nil && minor >= minPasswordsGo {
		return ""
	}
	return fmt.Sprintf("%s %s: if an earlier node had the name of a new one, the server can refuse the new node (\"Node password rejected\"): "+
		"its Secret kube-system/NAME.node-password.%s may be left", by, version, strings.ToLower(by))
}

// NameReusedRemedy is the advice for NameReused.
const NameReusedRemedy = "update the servers to 1.34 or later, set with-node-id: true in the agents' configuration, " +
	"or delete the Secrets of nodes that are gone"

// aksEngine returns the role label of an AKS Engine node; empty for any other node.
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

// IsKnown reports whether the pool's version or the Node decides, so that the ConfigMap need not be read.
func (f Facts) IsKnown() bool { return f.Proof != "" || len(evidenceOf(f.Node)) > 0 }

// Of decides how the nodes of the pool join. The proof of a version has precedence, because its nodes run; then the
// evidence on the Node; last the cluster, because the ConfigMap says nothing about a single node.
func Of(f Facts) Answer {
	a := Answer{Node: f.Node.Name, Caution: NameReused(f.Node)}
	found := evidenceOf(f.Node)
	switch {
	case f.Proof != "":
		name, _, _ := strings.Cut(f.Proof, "/")
		if !known(v1alpha1.Profile(name)) {
			a.Why = fmt.Sprintf("the recipe names version %s, which was generalized with profile %q: the profile is unknown to this version of Kamino",
				f.Version, name)
			return a
		}
		a.Profile, a.Why = v1alpha1.Profile(name), fmt.Sprintf("the recipe names version %s, which was generalized with profile %s", f.Version, name)
	case len(found) > 0:
		other := slices.IndexFunc(found, func(s evidence) bool { return s.profile != found[0].profile })
		if other >= 0 {
			a.Why = fmt.Sprintf("the marks of node %s contradict each other: %s means profile %s, %s means profile %s", f.Node.Name,
				found[0].carries, found[0].profile, found[other].carries, found[other].profile)
			return a
		}
		a.Profile, a.Why = found[0].profile, fmt.Sprintf("node %s joined with %s: %s", f.Node.Name, found[0].by, found[0].carries)
	case f.KubeadmConfig:
		a.Profile, a.Why = v1alpha1.ProfileBootstrap,
			fmt.Sprintf("node %s joined with kubeadm: the cluster has ConfigMap kube-system/kubeadm-config", f.Node.Name)
	default:
		a.Why = fmt.Sprintf("the bootstrap method of node %s is unknown: the node has no mark of kubeadm, Cluster API, EKS, kOps, RKE2, k3s or AKS Engine", f.Node.Name)
		if f.Unread != "" {
			a.Why += "; ConfigMap kube-system/kubeadm-config cannot be read: " + f.Unread
		}
	}
	return a
}

// known reports whether the profile exists.
func known(p v1alpha1.Profile) bool {
	return slices.Contains(v1alpha1.Profiles(), p)
}

// Choice is the advice on the choice of a profile.
const Choice = "static: all nodes share a kubelet credential (AKS Engine); eks: nodeadm joins the node at every boot (EKS with Amazon Linux 2023); " +
	"bootstrap: each node has its own credential (kubeadm, Cluster API, kOps, RKE2, k3s)"

// Refusals returns the refusal of a capture with an unknown profile; none with a profile.
func (a Answer) Refusals() []cloud.Refusal {
	if a.Profile != "" {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(ProfileUnknown, a.Why, "name the profile with --profile (settings.generalize.profile): "+Choice)}
}

// With returns the facts about a pool's node from the pool and its versions.
func With(n *corev1.Node, pool cloud.Pool, images []cloud.Image) Facts {
	f := Facts{Node: n}
	for _, image := range images {
		if version := pool.Recipe.Version; version != "" && imageversion.Compare(image.Version, version) == 0 && image.Tags[cloud.TagProof] != "" {
			f.Version, f.Proof = version, image.Tags[cloud.TagProof]
		}
	}
	return f
}
