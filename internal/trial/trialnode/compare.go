package trialnode

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	cluster "github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/selection/expression"
	"github.com/kamino-dev/kamino/internal/trial"
)

const (
	// compareInterval is the interval of comparisons with the pool's other nodes. A short trial compares more often.
	compareInterval, compareShare = 2 * time.Minute, 2
	// maxPeers limits the compared nodes. The oldest nodes come first.
	maxPeers = 10
	// maxNotes limits the notes in the record.
	maxNotes = 10
)

// compare compares the node with the pool's other nodes, and evaluates the user's expressions. Between two comparisons
// the record has the result.
func (a *attempt) compare(ctx context.Context, f *trial.Facts, node *corev1.Node, k *trialRecord, on *daemonPods) error {
	if k.Comparison == nil || f.Now.Sub(k.Comparison.At.Time) >= min(compareInterval, f.Limits.Measure/compareShare) {
		next, err := compareNow(ctx, a, f.Now, node, k, on)
		if err != nil {
			return err
		}
		keepSince(next, k.Comparison)
		k.Comparison = next
	}
	f.Comparison, f.Expectations = comparisonOf(k.Comparison), expectationsOf(k.Comparison)
	return nil
}

// peer is the trial node with its instance.
func (a *attempt) peer(node *corev1.Node) trial.Peer {
	p := trial.Peer{Node: node}
	if i := slices.IndexFunc(a.Instances, func(i cloud.Instance) bool { return a.isNodeOf(node, i.ID) }); i >= 0 {
		p.Instance = a.Instances[i]
	}
	return p
}

func compareNow(ctx context.Context, a *attempt, now time.Time, node *corev1.Node, k *trialRecord, on *daemonPods) (*v1alpha1.TrialComparison, error) {
	l := &v1alpha1.TrialComparison{At: metav1.NewTime(now.Truncate(time.Second))}
	kubelets := &cluster.Kubelets{Kube: a.Kube, Now: time.Now}
	own := a.peer(node)
	own.FirstTaints, own.StaticPods = k.FirstTaints, staticPods(node, on.pods)
	others, err := peersOf(ctx, a, l, kubelets, own)
	if err != nil {
		return nil, err
	}
	evaluate(a, l, node, others)
	except := trial.Exceptions{Pool: words(string(a.Pool)), Ignored: a.Prototype.Spec.Settings.Trial.IgnoreDifferences, UserData: string(a.Spec.CustomData)}
	except.DonorImages, _ = strconv.Atoi(a.Subject.Image.Tags[cloud.TagImages]) // 0 without the tag
	if k.Excluded {
		except.OwnLabels = []string{excludeLabel}
	}
	if l.Skipped != "" {
		own.Offset = offsetOf(kubelets, node)
		noteDifferences(l, trial.Compare(own, others, except))
		l.Others = 0
		return l, nil
	}
	peers := append([]trial.Peer{own}, others...)
	if err := describe(ctx, a, kubelets, peers, on); err != nil {
		return nil, err
	}
	if except.Selectors, err = selectors(ctx, a, peers, on); err != nil {
		return nil, err
	}
	server, err := a.Kube.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("read the version of the API server: %w", err)
	}
	except.Server = server.GitVersion
	for _, i := range a.Instances {
		except.Own = append(except.Own, slices.Concat(words(string(i.ID)), words(string(i.Pool)))...)
	}
	noteDifferences(l, trial.Compare(peers[0], peers[1:], except))
	return l, nil
}

// noteDifferences writes a comparison to the record.
func noteDifferences(l *v1alpha1.TrialComparison, c trial.Comparison) {
	l.Others = len(c.Others)
	for _, d := range c.Differences {
		l.Differences = append(l.Differences, v1alpha1.TrialDifference{Name: d.Name, Message: brief(d.Message), Since: l.At})
	}
	for _, d := range c.Disagreements {
		l.Notes = append(l.Notes, brief(d.Message))
	}
	l.Notes = l.Notes[:min(len(l.Notes), maxNotes)]
}

// words are the parts of an ID, which may be the name of a pool.
func words(id string) []string { return strings.Split(id, "/") }

// peersOf returns the Ready nodes of the pool with another version and the instance type of the node. Only Nodes of instances in the cloud
// count, and only if a kubelet renews their Leases: any client may have created other Nodes. Skipped is set with fewer than two such nodes.
func peersOf(ctx context.Context, a *attempt, l *v1alpha1.TrialComparison, kubelets *cluster.Kubelets, own trial.Peer) ([]trial.Peer, error) {
	if a.PoolInstances == nil {
		l.Skipped = "the cloud does not list the instances of the pool"
		return nil, nil
	}
	instances, err := a.PoolInstances()
	switch {
	case cloud.Is(err, cloud.Denied), cloud.Is(err, cloud.Unsupported):
		l.Skipped = "the cloud does not let Kamino list the instances of the pool: " + brief(err.Error())
		return nil, nil
	case err != nil:
		return nil, err
	}
	all := otherVersions(a, l, instances)
	alike := trial.Alike(own, all)
	alike = alike[:min(len(alike), maxKubeletChecks)]
	asked := []*corev1.Node{own.Node}
	for _, p := range alike {
		asked = append(asked, p.Node)
	}
	without, err := kubelets.Without(ctx, asked, a.all)
	if err != nil {
		return nil, err
	}
	var others []trial.Peer
	for _, p := range alike {
		switch n := p.Node; {
		case without[n.UID]:
			l.Notes = append(l.Notes, fmt.Sprintf("node %s, whose lease %s/%s no kubelet renews", n.Name, corev1.NamespaceNodeLease, n.Name))
		case nodestate.Ready(n) && n.DeletionTimestamp == nil && len(others) < maxPeers:
			others = append(others, p)
		}
	}
	if len(others) < 2 {
		kind := ""
		if len(alike) < len(all) {
			kind = " and the instance type of the node"
		}
		l.Skipped = fmt.Sprintf("the pool has %d other Ready nodes with another version%s, and a comparison needs two", len(others), kind)
		if len(l.Notes) > 0 {
			l.Skipped += "; not used: " + strings.Join(l.Notes[:min(len(l.Notes), maxNotes)], "; ")
		}
	}
	return others, nil
}

// otherVersions returns the pool's nodes of other versions, the oldest first, and notes the oldest instance of a version.
func otherVersions(a *attempt, l *v1alpha1.TrialComparison, instances []cloud.Instance) (all []trial.Peer) {
	named := nodesByInstance(a, instances)
	for i := range instances {
		of := &instances[i]
		if at := of.CreatedAt.Truncate(time.Second); of.BuiltFrom != "" && !at.IsZero() && (l.Oldest.IsZero() || at.Before(l.Oldest.Time)) {
			l.Oldest = metav1.NewTime(at)
		}
		if of.Removing || of.BuiltFrom == a.Spec.Version || a.has(of.ID) {
			continue
		}
		for _, n := range named[of.ID] {
			all = append(all, trial.Peer{Node: n, Instance: *of})
		}
	}
	slices.SortFunc(all, func(x, y trial.Peer) int {
		return cmp.Or(x.Node.CreationTimestamp.Compare(y.Node.CreationTimestamp.Time), cmp.Compare(x.Node.Name, y.Node.Name))
	})
	return all
}

// nodesByInstance returns the Nodes by the instance that they name.
func nodesByInstance(a *attempt, instances []cloud.Instance) map[cloud.InstanceID][]*corev1.Node {
	fold := func(id cloud.InstanceID) string { return strings.ToLower(string(id)) }
	spelled := map[string]cloud.InstanceID{}
	for i := range instances {
		spelled[fold(instances[i].ID)] = instances[i].ID
	}
	named := map[cloud.InstanceID][]*corev1.Node{}
	for _, n := range a.all() {
		id := cloud.InstanceID(n.Spec.ProviderID)
		at, found := spelled[fold(id)]
		if !found && id != "" {
			i := slices.IndexFunc(instances, func(i cloud.Instance) bool { return a.Same(i.ID, id) })
			if i < 0 {
				continue
			}
			at, found = instances[i].ID, true
		}
		if found {
			named[at] = append(named[at], n)
		}
	}
	return named
}

// describe adds the clocks, the CSI drivers, the DaemonSets and the static pods to nodes. The pods of other nodes are read only if the node
// has a static pod.
func describe(ctx context.Context, a *attempt, kubelets *cluster.Kubelets, peers []trial.Peer, on *daemonPods) error {
	drivers, err := driversByNode(ctx, a)
	if err != nil {
		return err
	}
	sets, err := setsByNode(ctx, a, len(peers), on)
	if err != nil {
		return err
	}
	for i := range peers {
		p := &peers[i]
		p.Drivers, p.DaemonSets, p.Offset = drivers[p.Node.Name], sets[p.Node.Name], offsetOf(kubelets, p.Node)
		if i > 0 && len(peers[0].StaticPods) > 0 {
			pods, err := podsOn(ctx, a, p.Node)
			if err != nil {
				return err
			}
			p.StaticPods = staticPods(p.Node, pods)
		}
	}
	return nil
}

// staticPods are the mirror pods of a node, as namespace/name without the name of the node.
func staticPods(node *corev1.Node, pods []corev1.Pod) (names []string) {
	for i := range pods {
		if _, mirror := pods[i].Annotations[corev1.MirrorPodAnnotationKey]; mirror {
			names = append(names, pods[i].Namespace+"/"+strings.TrimSuffix(pods[i].Name, "-"+node.Name))
		}
	}
	return names
}

// offsetOf is the node's clock minus the API server's clock; nil if unknown.
func offsetOf(kubelets *cluster.Kubelets, node *corev1.Node) *time.Duration {
	if offset, known := kubelets.Offset(node.Name); known {
		return &offset
	}
	return nil
}

// driversByNode returns the CSI drivers by node.
func driversByNode(ctx context.Context, a *attempt) (map[string][]string, error) {
	list, err := a.Kube.StorageV1().CSINodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list csinodes: %w", err)
	}
	drivers := map[string][]string{}
	for i := range list.Items {
		for _, d := range list.Items[i].Spec.Drivers {
			drivers[list.Items[i].Name] = append(drivers[list.Items[i].Name], d.Name)
		}
	}
	return drivers, nil
}

// setsByNode returns the DaemonSets without a pod on the first node that have pods on other nodes, by node.
func setsByNode(ctx context.Context, a *attempt, nodes int, on *daemonPods) (map[string][]string, error) {
	sets := map[string][]string{}
	for i := range on.sets {
		set := &on.sets[i]
		name := set.Namespace + "/" + set.Name
		if set.DeletionTimestamp != nil || slices.Contains(ignoredSets(a), name) || podOf(set, on.pods) != nil ||
			int(set.Status.CurrentNumberScheduled) < nodes-1 {
			continue
		}
		pods, err := podsOfSet(ctx, a, set)
		if err != nil {
			return nil, err
		}
		for j := range pods {
			if at := pods[j].Spec.NodeName; at != "" && !slices.Contains(sets[at], name) {
				sets[at] = append(sets[at], name)
			}
		}
	}
	return sets, nil
}

// podPage is the number of pods in one request.
const podPage = 500

// podsOfSet returns the pods of a DaemonSet.
func podsOfSet(ctx context.Context, a *attempt, set *appsv1.DaemonSet) (pods []corev1.Pod, err error) {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil, nil //nolint:nilerror // the API server rejects such a DaemonSet, so the DaemonSet has no pods
	}
	options := metav1.ListOptions{LabelSelector: selector.String(), Limit: podPage}
	for {
		list, err := a.Kube.CoreV1().Pods(set.Namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list the pods of DaemonSet %s/%s: %w", set.Namespace, set.Name, err)
		}
		for i := range list.Items {
			if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil && owner.UID == set.UID {
				pods = append(pods, list.Items[i])
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return pods, nil
		}
	}
}

// evaluate evaluates the user's expressions.
func evaluate(a *attempt, l *v1alpha1.TrialComparison, node *corev1.Node, peers []trial.Peer) {
	others := make([]*corev1.Node, len(peers))
	for i := range peers {
		others[i] = peers[i].Node
	}
	for _, e := range a.Prototype.Spec.Settings.Trial.Expect {
		r := v1alpha1.TrialExpectationResult{Name: e.Name, Since: l.At}
		compiled, err := expression.CompileExpectation(e.Expression)
		if err == nil {
			r.Met, err = compiled.IsMet(node, others)
		}
		if err != nil {
			r.Error = brief(err.Error())
		}
		l.Expectations = append(l.Expectations, r)
	}
}

// keepSince keeps the times of the differences and results that the comparison before also had.
func keepSince(next, before *v1alpha1.TrialComparison) {
	if before == nil {
		return
	}
	for i := range next.Differences {
		for _, d := range before.Differences {
			if d.Name == next.Differences[i].Name {
				next.Differences[i].Since = d.Since
			}
		}
	}
	for i := range next.Expectations {
		for _, e := range before.Expectations {
			if now := &next.Expectations[i]; e.Name == now.Name && e.Met == now.Met && (e.Error == "") == (now.Error == "") {
				now.Since = e.Since
			}
		}
	}
}

func comparisonOf(l *v1alpha1.TrialComparison) *trial.PeerComparison {
	c := &trial.PeerComparison{Others: l.Others, Skipped: l.Skipped, Notes: l.Notes, Oldest: l.Oldest.Time}
	for _, d := range l.Differences {
		c.Differences = append(c.Differences, trial.LastingDifference{Difference: trial.Difference{Name: d.Name, Message: d.Message}, Since: d.Since.Time})
	}
	return c
}

func expectationsOf(l *v1alpha1.TrialComparison) (all []trial.Expectation) {
	for _, e := range l.Expectations {
		all = append(all, trial.Expectation{Name: trial.CheckName(e.Name), Evaluated: true, Met: e.Met, Error: e.Error, Since: e.Since.Time})
	}
	return all
}
