package bootstrapkind

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	unknown   = v1alpha1.Profile("")
	static    = v1alpha1.ProfileStatic
	eks       = v1alpha1.ProfileEKS
	bootstrap = v1alpha1.ProfileBootstrap
)

// carrying returns a node with labels and annotations. A text may be key=value; an @ marks an annotation.
func carrying(texts ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"kubernetes.io/os": "linux"}, Annotations: map[string]string{}}}
	for _, text := range texts {
		annotation, isAnnotation := strings.CutPrefix(text, "@")
		key, value, _ := strings.Cut(annotation, "=")
		if isAnnotation {
			n.Annotations[key] = value
			continue
		}
		n.Labels[key] = value
	}
	return n
}

// running returns a node with a kubelet version and an OS image.
func running(kubelet, system string, texts ...string) *corev1.Node {
	n := carrying(texts...)
	n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OSImage = kubelet, system
	return n
}

// These are nodes as the installers create nodes.
var (
	byClusterAPI = []string{"@cluster.x-k8s.io/machine=md-0-abc", "@cluster.x-k8s.io/cluster-name=c"}
	byKubeadm    = []string{"@kubeadm.alpha.kubernetes.io/cri-socket=unix:///run/containerd/containerd.sock"}
	byKOps       = []string{"kops.k8s.io/instancegroup=nodes-1a"}
	byEKS        = []string{"eks.amazonaws.com/nodegroup=workers"}
	byEksctl     = []string{"alpha.eksctl.io/nodegroup-name=workers"}
	byAKSEngine  = []string{"agentpool=pool1", "kubernetes.azure.com/role=agent", "kubernetes.azure.com/cluster=rg", "storageprofile=managed"}
	byOldEngine  = []string{"agentpool=pool1", "kubernetes.io/role=agent", "node-role.kubernetes.io/agent="}
	byAKS        = append([]string{"kubernetes.azure.com/mode=user", "kubernetes.azure.com/agentpool=pool1"}, byAKSEngine...)
)

func TestOf(t *testing.T) {
	for name, test := range map[string]struct {
		facts Facts
		want  v1alpha1.Profile
		why   string
	}{
		"Cluster API":        {Facts{Node: carrying(byClusterAPI...)}, bootstrap, "node n joined with Cluster API: annotation cluster.x-k8s.io/machine"},
		"kubeadm until 1.36": {Facts{Node: carrying(byKubeadm...)}, bootstrap, "node n joined with kubeadm: annotation kubeadm.alpha.kubernetes.io/cri-socket"},
		"kubeadm from 1.37 on": {Facts{Node: carrying(), KubeadmConfig: true}, bootstrap,
			"node n joined with kubeadm: the cluster has ConfigMap kube-system/kubeadm-config"},
		"kOps":                               {Facts{Node: carrying(byKOps...)}, bootstrap, "node n joined with kOps: label kops.k8s.io/instancegroup"},
		"RKE2":                               {Facts{Node: running("v1.33.5+rke2r1", "Rocky Linux 9.4")}, bootstrap, "node n joined with RKE2: kubelet v1.33.5+rke2r1"},
		"k3s":                                {Facts{Node: running("v1.34.1+k3s1", "Ubuntu 24.04")}, bootstrap, "node n joined with k3s: kubelet v1.34.1+k3s1"},
		"RKE2 by Cluster API":                {Facts{Node: running("v1.33.5+rke2r1", "Ubuntu 24.04", byClusterAPI...)}, bootstrap, "joined with Cluster API"},
		"an agent with a kubelet of its own": {Facts{Node: carrying("@k3s.io/hostname=n")}, bootstrap, "annotation k3s.io/hostname"},
		"RKE2 with the labels of AKS Engine": {Facts{Node: running("v1.33.5+rke2r1", "Ubuntu 22.04", byAKSEngine...)}, unknown, "contradict each other"},
		"EKS":                                {Facts{Node: carrying(byEKS...)}, bootstrap, "node n joined with EKS: label eks.amazonaws.com/nodegroup"},
		"eksctl":                             {Facts{Node: carrying(byEksctl...)}, bootstrap, "node n joined with EKS: label alpha.eksctl.io/nodegroup-name"},
		"nodeadm": {Facts{Node: running("v1.33.5-eks-113cf36", "Amazon Linux 2023.9.20251117")}, eks,
			"node n joined with nodeadm: kubelet v1.33.5-eks-113cf36 on Amazon Linux 2023.9.20251117"},
		"nodeadm in a group of eksctl's": {Facts{Node: running("v1.33.5-eks-113cf36", "Amazon Linux 2023.9.20251117", byEksctl...)}, eks, "nodeadm"},
		"EKS, set up once": {Facts{Node: running("v1.29.0-eks-5e0fdde", "Amazon Linux 2", byEksctl...)}, bootstrap,
			"label alpha.eksctl.io/nodegroup-name"},
		"EKS, unknown bootstrap":  {Facts{Node: running("v1.29.0-eks-5e0fdde", "Amazon Linux 2")}, unknown, "is unknown"},
		"kubeadm on Amazon Linux": {Facts{Node: running("v1.33.5", "Amazon Linux 2023.9.20251117"), KubeadmConfig: true}, bootstrap, "kubeadm-config"},
		"nodeadm in a cluster of kubeadm's": {Facts{Node: running("v1.33.5-eks-113cf36", "Amazon Linux 2023.9.20251117", byKubeadm...)}, unknown,
			"annotation kubeadm.alpha.kubernetes.io/cri-socket means profile bootstrap, " +
				"kubelet v1.33.5-eks-113cf36 on Amazon Linux 2023.9.20251117 means profile eks"},
		"nodeadm, proven before": {Facts{Node: running("v1.33.5-eks-113cf36", "Amazon Linux 2023.9.20251117"), Version: "2026.03.01",
			Proof: "bootstrap/1/sha256:0"}, bootstrap, "2026.03.01"},
		"AKS Engine": {Facts{Node: carrying(byAKSEngine...)}, static,
			"node n joined with AKS Engine: labels kubernetes.azure.com/role=agent and agentpool"},
		"an early AKS Engine": {Facts{Node: carrying(byOldEngine...)}, static,
			"node n joined with AKS Engine: labels kubernetes.io/role=agent and agentpool"},
		"AKS":                    {Facts{Node: carrying(byAKS...)}, unknown, "the bootstrap method of node n is unknown"},
		"a master of AKS Engine": {Facts{Node: carrying("agentpool=pool1", "kubernetes.azure.com/role=master")}, unknown, "is unknown"},
		"a pool's label alone":   {Facts{Node: carrying("agentpool=pool1")}, unknown, "is unknown"},
		"a role alone":           {Facts{Node: carrying("kubernetes.azure.com/role=agent")}, unknown, "is unknown"},
		"nothing":                {Facts{Node: carrying()}, unknown, "the node has no mark of kubeadm, Cluster API, EKS, kOps, RKE2, k3s or AKS Engine"},
		"no right to look": {Facts{Node: carrying(), Unread: "configmaps is forbidden"}, unknown,
			"ConfigMap kube-system/kubeadm-config cannot be read: configmaps is forbidden"},
		"two that agree": {Facts{Node: carrying(append(byKubeadm, byClusterAPI...)...)}, bootstrap, "joined with Cluster API"},
		"two that do not": {Facts{Node: carrying(append(byKubeadm, byAKSEngine...)...)}, unknown,
			"the marks of node n contradict each other: annotation kubeadm.alpha.kubernetes.io/cri-socket means profile bootstrap, " +
				"labels kubernetes.azure.com/role=agent and agentpool means profile static"},
		"a node of AKS Engine beside kubeadm's": {Facts{Node: carrying(byAKSEngine...), KubeadmConfig: true}, static, "AKS Engine"},
		"proven": {Facts{Node: carrying(), Version: "2026.03.01", Proof: "bootstrap/1/sha256:0"}, bootstrap,
			"the recipe names version 2026.03.01, which was generalized with profile bootstrap"},
		"proven against what it carries": {Facts{Node: carrying(byKubeadm...), KubeadmConfig: true, Version: "2026.03.01", Proof: "static/1/sha256:0"},
			static, "profile static"},
		"proven with what is not known": {Facts{Node: carrying(byKubeadm...), Version: "2026.03.01", Proof: "nodeadm/1/sha256:0"}, unknown,
			`profile "nodeadm": the profile is unknown`},
		"proven with no word": {Facts{Node: carrying(byKubeadm...), Version: "2026.03.01", Proof: "/"}, unknown, "is unknown to"},
	} {
		got := Of(test.facts)
		if got.Profile != test.want || !strings.Contains(got.Why, test.why) || got.Node != "n" {
			t.Errorf("%s: %+v, want %q because %s", name, got, test.want, test.why)
		}
	}
}

// TestAllCombinationsOfFacts tests all combinations of facts against a second definition, independent of Of.
func TestAllCombinationsOfFacts(t *testing.T) {
	kinds := [][]string{byClusterAPI, byKubeadm, byKOps, byEKS, byEksctl, byAKSEngine, byOldEngine, {modeLabel + "=system"}, {"@rke2.io/hostname=n"}}
	speaks := []v1alpha1.Profile{bootstrap, bootstrap, bootstrap, bootstrap, bootstrap, static, static, unknown, bootstrap}
	worlds := 0
	for set := range 1 << len(kinds) {
		var texts []string
		var said []v1alpha1.Profile
		for i := range kinds {
			if set&(1<<i) == 0 {
				continue
			}
			texts = append(texts, kinds[i]...)
			if speaks[i] != unknown && (speaks[i] != static || set&(1<<7) == 0) { // AKS's own label counts for nothing with the labels of AKS Engine
				said = append(said, speaks[i])
			}
		}
		slices.Sort(said)
		said = slices.Compact(said)
		for _, config := range []bool{true, false} {
			for _, proof := range []v1alpha1.Profile{unknown, static, eks, bootstrap} {
				worlds++
				f := Facts{Node: carrying(texts...), KubeadmConfig: config}
				want := unknown
				switch {
				case proof != unknown:
					f.Version, f.Proof, want = "2026.03.01", string(proof)+"/1/sha256:0", proof
				case len(said) == 1:
					want = said[0]
				case len(said) == 0 && config:
					want = bootstrap
				}
				at := fmt.Sprintf("%v, kubeadm-config %t, proof %q", texts, config, proof)
				got := Of(f)
				if got.Profile != want {
					t.Errorf("%s: %+v, want %q", at, got, want)
				}
				refused := got.Refusals()
				if (len(refused) == 0) != (want != unknown) || got.Why == "" {
					t.Errorf("%s: %+v is refused by %v", at, got, refused)
				}
				for _, r := range refused {
					if r.Reason != ProfileUnknown || !strings.Contains(r.Remedy, "--profile") || !strings.Contains(r.Message, got.Why) {
						t.Errorf("%s: %+v", at, r)
					}
				}
				// IsKnown must be false exactly if the facts of the cluster would change the profile.
				f.KubeadmConfig = !config
				if counts := Of(f).Profile != want; counts == f.IsKnown() {
					t.Errorf("%s: the cluster's word counts: %t, and the known facts say: %t", at, counts, f.IsKnown())
				}
			}
		}
	}
	if worlds != 1<<9*8 {
		t.Errorf("%d worlds", worlds)
	}
}

func TestWith(t *testing.T) {
	image := func(version, proof string) cloud.Image {
		return cloud.Image{Version: version, Tags: map[string]string{cloud.TagProof: proof}}
	}
	images := []cloud.Image{image("2026.02.01", "bootstrap/1/a"), image("2026.03.01", "static/1/b"), image("2026.04.01", "")}
	for name, test := range map[string]struct {
		recipe cloud.Recipe
		want   string
	}{
		"the version of the recipe": {cloud.Recipe{Version: "2026.03.01"}, "static/1/b"},
		"written another way":       {cloud.Recipe{Version: "2026.3.1"}, "static/1/b"},
		"an earlier one":            {cloud.Recipe{Version: "2026.02.01"}, "bootstrap/1/a"},
		"one without a proof":       {cloud.Recipe{Version: "2026.04.01"}, ""},
		"one that is gone":          {cloud.Recipe{Version: "2026.01.01"}, ""},
		"none of the pool's own":    {cloud.Recipe{Image: "ubuntu:2204"}, ""},
	} {
		got := With(carrying(), cloud.Pool{Recipe: test.recipe}, images)
		if got.Proof != test.want || (got.Version == "") != (test.want == "") || got.Node == nil {
			t.Errorf("%s: %+v, want %q", name, got, test.want)
		}
	}
}

// TestTheSentences: sentences stand in plans, in a policy's status and after "because".
func TestTheSentences(t *testing.T) {
	for _, n := range []*corev1.Node{
		carrying(), carrying(byAKS...), carrying(byKOps...), carrying(byAKSEngine...), carrying(append(byKOps, byAKSEngine...)...),
	} {
		for _, f := range []Facts{
			{Node: n}, {Node: n, KubeadmConfig: true}, {Node: n, Unread: "forbidden"}, {Node: n, Version: "2026.03.01", Proof: "static/1/a"},
			{Node: n, Version: "2026.03.01", Proof: "x"},
		} {
			a := Of(f)
			if strings.HasSuffix(a.Why, ".") || strings.ToLower(a.Why[:1]) != a.Why[:1] || strings.Contains(a.Why, "  ") {
				t.Errorf("%q", a.Why)
			}
			about := "node n"
			if f.Proof != "" {
				about = "version 2026.03.01"
			}
			if !strings.Contains(a.Why, about) {
				t.Errorf("%q does not name %s", a.Why, about)
			}
			if again := Of(f); again != a {
				t.Errorf("asked again, it is %+v and was %+v", again, a)
			}
		}
	}
}

// TestTheNodeIsLeftAlone: Of must not change the node of a cache.
func TestTheNodeIsLeftAlone(t *testing.T) {
	n := carrying(append(byKubeadm, byAKS...)...)
	before := n.DeepCopy()
	Of(Facts{Node: n}).Refusals()
	Of(With(n, cloud.Pool{}, nil))
	With(n, cloud.Pool{Recipe: cloud.Recipe{Version: "2026.03.01"}}, []cloud.Image{{Version: "2026.03.01"}}).IsKnown()
	evidenceOf(n)
	if !equality.Semantic.DeepEqual(before, n) {
		t.Errorf("it was changed: %+v", n)
	}
}

// TestNameReused: the caution is for agents of servers that may keep the password of a node that is gone.
func TestNameReused(t *testing.T) {
	for _, test := range []struct {
		node *corev1.Node
		want string
	}{
		{running("v1.33.5+rke2r1", "Rocky Linux 9.4"), "node-password.rke2"},
		{running("v1.32.9+k3s1", "Ubuntu 24.04"), "node-password.k3s"},
		{running("v1.34.1+k3s1", "Ubuntu 24.04"), ""},
		{running("v1.33.5", "Ubuntu 24.04"), ""},
		{carrying("@rke2.io/hostname=n"), "node-password.rke2"},
	} {
		version := test.node.Status.NodeInfo.KubeletVersion
		if got := NameReused(test.node); (got == "") != (test.want == "") || !strings.Contains(got, test.want) || Of(Facts{Node: test.node}).Caution != got {
			t.Errorf("kubelet %s: %q, want %q", version, got, test.want)
		}
	}
}
