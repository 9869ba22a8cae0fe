package capture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/selection"
	"github.com/kamino-dev/kamino/internal/spread"
)

// Reasons of the preflight that are the engine's own. The others are those of package selection and of
// the cloud's provider.
const (
	NodeNotFound       = "NodeNotFound"
	DonorClockOff      = "DonorClockOff"
	NotInPool          = "NotInPool"
	InstanceNotFound   = "InstanceNotFound"
	DonorChanged       = "DonorChanged"
	PoolMismatch       = "PoolMismatch"
	VersionNotToday    = "VersionNotToday"
	VersionNotNewer    = "VersionNotNewer"
	CapturedToday      = "CapturedToday"
	CaptureInFlight    = "CaptureInFlight"
	ProfileUnsupported = "ProfileUnsupported"
	NoImage            = "NoImage"
	NotInstalled       = "NotInstalled"
	ForceNotAllowed    = "ForceNotAllowed"
	UnmanagedPods      = "UnmanagedPods"
	ProtectedPods      = "ProtectedPods"
	ClockOff           = "ClockOff"
	CustomDataMissing  = "CustomDataMissing"

	// SettingOfOtherCloud: the settings have a section of a cloud that the donor is not of.
	SettingOfOtherCloud = "SettingOfOtherCloud"
)

// maxClockDifference between this process and the API server. Deadlines and versions are made of times.
const maxClockDifference = 5 * time.Minute

// lookPreflight asks everybody who may have a reason against a capture that has not begun.
func (e *Engine) lookPreflight(ctx context.Context, w *world) error {
	f := &w.facts
	if w.held() || f.MustBoot() || f.Failed || f.Deleting || w.looking() {
		return nil
	}
	others, err := e.others(ctx, w.p)
	if err != nil {
		return err
	}
	w.ahead = holding(others)
	f.Queued = len(w.ahead) >= e.concurrent()
	if err := e.lookKured(ctx, w); err != nil {
		return err
	}
	asks := []ask{e.refuseDecision, e.refuseDonor}
	rest := []ask{e.refusePods}
	if f.Pod == plan.NoPod { // else the rest was asked just before the look
		rest = append(rest, e.refuseClock, e.refuseLineage, e.refuseInstallation, e.refuseRules, e.refuseCustomData, e.refuseForce, e.refuseCloud, e.refuseSpread)
	}
	if err := w.ask(ctx, others, asks); err != nil {
		return err
	}
	if w.p.Spec.PoolID == "" || w.donorOf.Pool == w.pool { // else the cloud would speak of a pool that the node is not of
		if err := w.ask(ctx, others, rest); err != nil {
			return err
		}
	}
	f.Refused = len(w.refusals) > 0
	return nil
}

// ask is one question for reasons against a capture.
type ask func(context.Context, *world, []v1alpha1.Prototype) ([]cloud.Refusal, error)

func (w *world) ask(ctx context.Context, others []v1alpha1.Prototype, asks []ask) error {
	for _, ask := range asks {
		refusals, err := ask(ctx, w, others)
		if err != nil {
			return err
		}
		w.refusals = append(w.refusals, refusals...)
	}
	return nil
}

// others lists the other Prototypes.
func (e *Engine) others(ctx context.Context, p *v1alpha1.Prototype) ([]v1alpha1.Prototype, error) {
	list := &v1alpha1.PrototypeList{}
	if err := e.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list prototypes: %w", err)
	}
	others := list.Items[:0]
	for _, other := range list.Items {
		if other.Name != p.Name {
			others = append(others, other)
		}
	}
	return others, nil
}

// holding tells which of the Prototypes hold a donor.
func holding(prototypes []v1alpha1.Prototype) (holding []v1alpha1.Prototype) {
	for i := range prototypes {
		record, err := v1alpha1.RecordOf(&prototypes[i])
		if err != nil || record.Reservation != nil { // an unreadable record may hold one
			holding = append(holding, prototypes[i])
		}
	}
	return holding
}

// refuseDecision checks the decision itself: its version, its profile, and the other Prototypes of the pool.
func (e *Engine) refuseDecision(ctx context.Context, w *world, others []v1alpha1.Prototype) (refusals []cloud.Refusal, _ error) {
	p := w.p
	refuse := func(reason, remedy, obstacle string, args ...any) {
		refusals = append(refusals, cloud.Refuse(reason, fmt.Sprintf(obstacle, args...), remedy))
	}
	created := p.CreationTimestamp.Time
	if created.IsZero() {
		created = e.now()
	}
	if day, err := imageversion.Day(p.Spec.Version); err != nil || created.Before(day.Add(-24*time.Hour)) || created.After(day.Add(48*time.Hour)) {
		refuse(VersionNotToday, "leave the version out, or name today's",
			"version %s is not of the day of this decision (%s)", p.Spec.Version, imageversion.Of(created))
	}
	if age := e.now().Sub(created); age < -maxClockDifference {
		refuse(ClockOff, "set it right, then try again",
			"this process's clock is %s behind the API server's", (-age).Round(time.Minute))
	} else if age > 24*time.Hour {
		refuse(VersionNotToday, "delete it and decide again",
			"prototype %s was decided %s ago and never begun", p.Name, age.Round(time.Hour))
	}
	if profile := p.Spec.Settings.Defaulted().Generalize.Profile; !profile.Traits().DonorMayReturn {
		refuse(ProfileUnsupported, "use profile static if the pool's nodes share one credential",
			"profile %s removes the credentials that the donor itself needs to come back, so a donor that returns to service cannot be generalized with it", profile)
	}
	if foreign := p.Spec.Settings.Foreign(p.Spec.Donor.ProviderID); foreign != "" {
		refuse(SettingOfOtherCloud, "leave "+foreign+" out", "%s is for nodes of another cloud than that of node %s", foreign, p.Spec.Donor.NodeName)
	}
	refusals = append(refusals, e.refuseImage(p)...)
	inTheWay, err := e.refuseOthers(ctx, w, others)
	return append(refusals, inTheWay...), err
}

// refuseOthers checks the other Prototypes of the pool. Of two that are in flight the older one goes on,
// so that exactly one does. Pools of one name in two resource groups are two pools.
func (e *Engine) refuseOthers(ctx context.Context, w *world, others []v1alpha1.Prototype) (refusals []cloud.Refusal, _ error) {
	p := w.p
	of, err := membership.OfPrototypes(ctx, e.Cloud, others)
	if err != nil {
		return nil, err
	}
	for i := range others {
		other := &others[i]
		if of[i].Pool != w.pool && (of[i].Pool != "" || other.Spec.Pool != p.Spec.Pool) {
			continue
		}
		switch {
		case other.Status.Phase == v1alpha1.PhaseSucceeded && other.Spec.Version == p.Spec.Version:
			refusals = append(refusals, cloud.Refuse(CapturedToday,
				fmt.Sprintf("pool %s was captured as version %s already, by prototype %s", p.Spec.Pool, p.Spec.Version, other.Name),
				fmt.Sprintf("a pool gets one version a day, so try again tomorrow (UTC), or name another one of that day, such as %s", imageversion.Try(p.Spec.Version, 2))))
		case !other.Status.Terminal() && older(other, p):
			refusals = append(refusals, cloud.Refuse(CaptureInFlight,
				fmt.Sprintf("prototype %s is capturing pool %s", other.Name, p.Spec.Pool),
				"wait until it is done, or delete it"))
		}
	}
	return refusals, nil
}

// older orders Prototypes by creation; one that is not created yet is the youngest.
func older(a, b *v1alpha1.Prototype) bool {
	if b.CreationTimestamp.IsZero() {
		return true
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// refuseDonor checks the node against the rules of package selection.
func (e *Engine) refuseDonor(ctx context.Context, w *world, _ []v1alpha1.Prototype) ([]cloud.Refusal, error) {
	name := w.p.Spec.Donor.NodeName
	if w.node == nil {
		n, err := e.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return []cloud.Refusal{cloud.Refuse(NodeNotFound, fmt.Sprintf("there is no node %s", name), "kubectl get nodes lists them")}, nil
		case err != nil:
			return nil, fmt.Errorf("read node %s: %w", name, err)
		}
		return []cloud.Refusal{cloud.Refuse(DonorChanged,
			fmt.Sprintf("node %s is now instance %s, not %s as it was decided", name, n.Spec.ProviderID, w.id),
			"decide again")}, nil
	}
	peers, err := e.peers(ctx, w)
	if err != nil {
		return nil, err
	}
	w.peers = peers
	if refusals := e.refusePool(w); refusals != nil {
		return refusals, nil
	}
	settings := w.p.Spec.Settings.Defaulted()
	return selection.Refusals(selection.Subject{
		Node: w.node, Pool: e.Cloud.PoolName(w.pool), Peers: peers, OwnNode: e.OwnNode, Prototype: w.p.Name,
		Disrupt: settings.Drain.Disrupt, MaxUnavailable: *settings.OutOfService.MaxUnavailable,
	}), nil
}

// refusePool checks that the donor is of the pool that was decided about, by its ID and by its name.
func (e *Engine) refusePool(w *world) []cloud.Refusal {
	node, of := w.p.Spec.Donor.NodeName, w.donorOf
	switch name := e.Cloud.PoolName(of.Pool); {
	case of.Pool == "" && of.Why == "": // it has gone since it was read
		return []cloud.Refusal{cloud.Refuse(NodeNotFound, fmt.Sprintf("there is no node %s any more", node), "kubectl get nodes lists them")}
	case of.Pool == "":
		return []cloud.Refusal{notInPool(w, of)}
	case of.Pool != w.pool:
		return []cloud.Refusal{cloud.Refuse(PoolMismatch,
			fmt.Sprintf("node %s is of pool %s (%s), and spec.poolID names %s", node, name, of.Pool, w.pool),
			"name the pool that the node belongs to")}
	case !strings.EqualFold(name, w.p.Spec.Pool):
		return []cloud.Refusal{cloud.Refuse(PoolMismatch, fmt.Sprintf("node %s is of pool %s, not of %s", node, name, w.p.Spec.Pool), "name the pool that the node belongs to")}
	}
	return nil
}

// refuseLineage checks what the donor was built from. It costs a request only where that is a version of
// the pool's own.
func (e *Engine) refuseLineage(ctx context.Context, w *world, _ []v1alpha1.Prototype) ([]cloud.Refusal, error) {
	if w.instance.BuiltFrom == "" {
		return nil, nil
	}
	image, err := e.Cloud.Image(ctx, cloud.ImageRef{Pool: w.pool, Version: w.instance.BuiltFrom})
	if err != nil {
		return nil, err
	}
	return history.RefuseDonor(w.p.Spec.Donor.NodeName, w.p.Spec.Pool, image), nil
}

// peers lists the other nodes of the pool.
func (e *Engine) peers(ctx context.Context, w *world) ([]corev1.Node, error) {
	var peers []corev1.Node
	err := membership.Each(ctx, e.Kube, e.Cloud, "", func(n *corev1.Node, of cloud.Membership) error {
		switch {
		case n.Name == w.p.Spec.Donor.NodeName:
			w.donorOf = of
		case of.Pool == w.pool:
			peers = append(peers, *n)
		}
		return nil
	})
	return peers, err
}

// refuseInstallation checks that the generalize pod can be made at all.
func (e *Engine) refuseInstallation(ctx context.Context, w *world, _ []v1alpha1.Prototype) ([]cloud.Refusal, error) {
	_, err := e.Kube.CoreV1().ServiceAccounts(e.podNamespace()).Get(ctx, v1alpha1.GeneralizeServiceAccount, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return []cloud.Refusal{cloud.Refuse(NotInstalled,
			fmt.Sprintf("there is no service account %s in namespace %s, which the generalize pod needs", v1alpha1.GeneralizeServiceAccount, e.podNamespace()),
			"kamino manifests | kubectl apply -f -")}, nil
	case err != nil:
		return nil, fmt.Errorf("read service account %s/%s: %w", e.podNamespace(), v1alpha1.GeneralizeServiceAccount, err)
	}
	if w.facts.Queued {
		return nil, nil
	}
	refusals, err := e.refuseAccount(ctx)
	if err != nil {
		return nil, err
	}
	return append(refusals, append(e.refuseOrder(ctx, w), e.refuseAdmission(ctx, w)...)...), nil
}

// refuseAdmission has the API server look at the generalize pod without keeping it: Pod Security, a quota or
// somebody's webhook may not let it in, which would show only when the donor is drained. What this process itself
// may not do refuses nothing, because it may be one that only asks. Nor does no answer, or that of a webhook which
// knows no dry run (a bad request).
func (e *Engine) refuseAdmission(ctx context.Context, w *world) []cloud.Refusal {
	pod := generalizePod(w.p, w.record, e.podNamespace(), e.Image)
	_, err := e.Kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || notAuthorized(err) {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(NotInstalled,
		fmt.Sprintf("the API server does not let the generalize pod into namespace %s: %s", pod.Namespace, err),
		"mend what it names; for Pod Security, label the namespace pod-security.kubernetes.io/enforce=privileged, or name another one with --generalize-namespace")}
}

// notAuthorized tells the authorizer's refusal from those of admission, which have the same code.
func notAuthorized(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot create resource")
}

// refusePods finds pods that could never be evicted, or ask not to be.
func (e *Engine) refusePods(ctx context.Context, w *world, _ []v1alpha1.Prototype) ([]cloud.Refusal, error) {
	if w.node == nil {
		return nil, nil
	}
	drain := w.p.Spec.Settings.Drain
	left, err := node.Left(ctx, e.Kube, w.node.Name, drain, e.own(w.p))
	if err != nil {
		return nil, err
	}
	w.left = left
	var refusals []cloud.Refusal
	if len(left.Stuck) > 0 {
		refusals = append(refusals, cloud.Refuse(UnmanagedPods,
			fmt.Sprintf("node %s cannot be drained: %s", w.node.Name, strings.Join(left.Stuck, "; ")), "remove them, or use force to lose them"))
	}
	if len(left.Protected) > 0 && !drain.Disrupt {
		refusals = append(refusals, cloud.Refuse(ProtectedPods,
			fmt.Sprintf("pods of node %s ask not to be evicted: %s", w.node.Name, strings.Join(left.Protected, ", ")),
			"choose another node, wait until they have ended, or allow it with --disrupt (settings.drain.disrupt)"))
	}
	return refusals, nil
}

// Evictions counts the pods that would have to leave a node. Many more than any node has are told for one with pods
// that may not be evicted.
func (e *Engine) Evictions(ctx context.Context, name string, drain v1alpha1.DrainSettings) (int, error) {
	left, err := node.Left(ctx, e.Kube, name, drain, node.Own{})
	n := len(left.Pods)
	if len(left.Stuck) > 0 || len(left.Protected) > 0 && !drain.Disrupt {
		n += notEvictable
	}
	return n, err
}

// notEvictable is more pods than a node has.
const notEvictable = 1 << 20

// refuseCloud asks the provider, and checks that the pool does not run ahead of the version.
func (e *Engine) refuseCloud(ctx context.Context, w *world, _ []v1alpha1.Prototype) ([]cloud.Refusal, error) {
	refusals, err := e.preflight(ctx, w)
	if cloud.Is(err, cloud.NotFound) || cloud.Is(err, cloud.Unsupported) {
		return []cloud.Refusal{cloud.Refuse(InstanceNotFound,
			fmt.Sprintf("the cloud does not know the instance of node %s: %s", w.p.Spec.Donor.NodeName, err), "choose another node")}, nil
	}
	if err != nil {
		return nil, err
	}
	if w.recipe, err = e.Cloud.Pool(ctx, w.pool); err != nil {
		if len(refusals) > 0 {
			return refusals, nil
		}
		return nil, err
	}
	for _, refusal := range w.recipe.Refusals {
		if !slices.ContainsFunc(refusals, func(r cloud.Refusal) bool { return r.Reason == refusal.Reason }) {
			refusals = append(refusals, refusal)
		}
	}
	if current := w.recipe.Recipe.Version; current != "" && imageversion.Compare(current, w.p.Spec.Version) > 0 {
		refusals = append(refusals, cloud.Refuse(VersionNotNewer,
			fmt.Sprintf("the recipe of pool %s points at version %s, which is newer than %s", w.p.Spec.Pool, current, w.p.Spec.Version),
			"roll back first if that one is bad"))
	}
	return refusals, nil
}

// refuseSpread refuses a pool whose nodes were built from nearly as many images as its cloud allows. Only pools that
// are large enough for it are counted.
func (e *Engine) refuseSpread(ctx context.Context, w *world, _ []v1alpha1.Prototype) ([]cloud.Refusal, error) {
	census, able := cloud.As[cloud.Census](e.Cloud)
	if !able || !spread.Possible(w.recipe.Capacity, census.MaxImages()) {
		return nil, nil
	}
	instances, err := census.Instances(ctx, w.pool)
	if cloud.Is(err, cloud.Unsupported) || cloud.Is(err, cloud.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	counted := spread.Of(w.recipe.Recipe, instances, census.MaxImages())
	name := w.nameOf(e.Cloud.SameInstance)
	if counted.Near() {
		w.crowded = counted.Says(e.Cloud.PoolName(w.pool), w.recipe.Recipe, name)
	}
	if refusal := counted.Refusal(e.Cloud.PoolName(w.pool), w.recipe.Recipe, name); refusal != nil {
		return []cloud.Refusal{*refusal}, nil
	}
	return nil, nil
}

// nameOf finds the name of an instance's node; the instance's ID stands for one that has none.
func (w *world) nameOf(same func(a, b cloud.InstanceID) bool) func(cloud.InstanceID) string {
	return func(id cloud.InstanceID) string {
		if same(id, w.id) {
			return w.p.Spec.Donor.NodeName
		}
		for i := range w.peers {
			if same(cloud.InstanceID(w.peers[i].Spec.ProviderID), id) {
				return w.peers[i].Name
			}
		}
		return string(id)
	}
}

// preflightLife is how long a preflight that found nothing stands for the same capture: whoever decides asks just
// before the capture begins.
const preflightLife = time.Minute

// preflight asks the provider, unless it has just said that nothing is in the way. What it says of the instance with
// each look counts in any case, and so does what it says of the pool, which is looked at after this.
func (e *Engine) preflight(ctx context.Context, w *world) ([]cloud.Refusal, error) {
	spec := cloud.PreflightSpec{Pool: w.pool, Instance: w.id, Version: w.p.Spec.Version}
	if at, found := e.preflights.Load(spec); found && w.instance.ID != "" && e.now().Sub(at.(time.Time)).Abs() < preflightLife {
		return slices.Clone(w.instance.Refusals), nil
	}
	refusals, err := e.Cloud.Preflight(ctx, spec)
	if err == nil && len(refusals) == 0 {
		e.preflights.Range(func(other, at any) bool {
			if e.now().Sub(at.(time.Time)).Abs() >= preflightLife {
				e.preflights.Delete(other)
			}
			return true
		})
		e.preflights.Store(spec, e.now())
	}
	return refusals, err
}
