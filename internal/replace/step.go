package replace

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/internal/wording"
)

// step looks at a node that is taken and does the next thing. An error that may pass by itself is said and not
// returned.
func (r *Replacer) step(ctx context.Context, name string) error {
	err := r.advance(ctx, name)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case apierrors.IsConflict(err), apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsInternalError(err),
		cloud.Is(err, cloud.Throttled), cloud.Is(err, cloud.Unavailable) && !isKubernetes(err):
		r.sayOnce(name, "waits: "+err.Error())
		return nil
	}
	return fmt.Errorf("node %s: %w", name, err)
}

func isKubernetes(err error) bool { return apierrors.ReasonForError(err) != metav1.StatusReasonUnknown }

func (r *Replacer) advance(ctx context.Context, name string) error {
	n, err := r.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		r.leave(name)
		r.say(name, "is gone, and so needs no rebuilding")
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	reservation, err := v1alpha1.ReservationOf(n.Annotations)
	if err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	switch {
	case reservation == nil:
		r.fail(name, "was taken away from this rebuild: its annotation "+v1alpha1.ReservationAnnotation+" is gone")
		return nil
	case !r.owns(reservation):
		r.fail(name, fmt.Sprintf("was taken away from this rebuild: it is held by %s", reservation.Holder))
		return nil
	case !n.Spec.Unschedulable:
		r.sayOnce(name, "is cordoned")
		return node.Cordon(ctx, r.Kube, n)
	}
	boot := reservation.Rebuild.BootID
	rebooted := boot != "" && n.Status.NodeInfo.BootID != boot
	if !rebooted && !r.AllAtOnce && !r.active[name].rebuilds {
		drained, err := r.drain(ctx, n, reservation)
		if err != nil || !drained {
			return err
		}
	}
	return r.rebuild(ctx, n, reservation)
}

// drain asks the pods that are left to go, and tells whether none is.
func (r *Replacer) drain(ctx context.Context, n *corev1.Node, held *v1alpha1.Reservation) (bool, error) {
	settings := r.Drain
	settings.Timeout.Duration = r.drainTimeout()
	left, err := node.Left(ctx, r.Kube, n.Name, settings, node.Own{})
	if err != nil {
		return false, err
	}
	if !nodestate.Ready(n) {
		left.Pods = staying(left.Pods)
	}
	if len(left.Stuck) > 0 {
		return false, r.giveBack(ctx, n, held, "can't be drained: "+strings.Join(left.Stuck, "; ")+"; remove them, or use --force to lose them")
	}
	if len(left.Pods) == 0 {
		return true, nil
	}
	overdue := r.now().Sub(held.Rebuild.StartedAt.Time) > settings.Timeout.Duration
	blocked, err := node.Evict(ctx, r.Kube, left, settings, settings.Force && overdue)
	if err != nil {
		return false, err
	}
	why := wording.Count(len(left.Pods), "pod") + " left"
	what := "drains: " + why
	if len(blocked) > 0 {
		why = blocked[0].String()
		what = "can't be drained yet: " + why
	}
	if overdue && !settings.Force {
		return false, r.giveBack(ctx, n, held, fmt.Sprintf("was not drained within %s: %s", settings.Timeout.Duration, why))
	}
	if len(blocked) > 0 || r.active[n.Name].said == "is cordoned" {
		r.sayOnce(n.Name, what)
	}
	return false, nil
}

// staying leaves out the pods that end already: nobody confirms their end on a node that does not answer.
func staying(pods []corev1.Pod) []corev1.Pod {
	var left []corev1.Pod
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			left = append(left, pod)
		}
	}
	return left
}

// giveBack gives a node back that was not rebuilt.
func (r *Replacer) giveBack(ctx context.Context, n *corev1.Node, held *v1alpha1.Reservation, why string) error {
	if err := node.Release(ctx, r.Kube, n, *held, nil); err != nil {
		return err
	}
	r.event(n, corev1.EventTypeWarning, "NotRebuilt", fmt.Sprintf("node %s, which runs version %s, %s", n.Name, r.From, why))
	r.fail(n.Name, why)
	return nil
}

// rebuild has the cloud do it, and gives the node back once it is Ready under a new boot.
func (r *Replacer) rebuild(ctx context.Context, n *corev1.Node, held *v1alpha1.Reservation) error {
	f := r.active[n.Name]
	booted := nodestate.Ready(n) && n.Status.NodeInfo.BootID != held.Rebuild.BootID
	if f.rebuilds && !booted && r.now().Sub(f.askedAt) < askEvery {
		return nil
	}
	f.askedAt = r.now()
	rebuilder, _ := cloud.As[cloud.Rebuilder](r.Cloud)
	have, err := rebuilder.EnsureRebuilt(ctx, cloud.InstanceID(n.Spec.ProviderID), r.To)
	if err != nil {
		return r.refused(ctx, n, held, err)
	}
	if !f.rebuilds {
		f.rebuilds, f.begunAt = true, r.now()
		r.event(n, corev1.EventTypeNormal, "Rebuilding", fmt.Sprintf("node %s is rebuilt from version %s in place of %s", n.Name, r.To, r.From))
		r.sayOnce(n.Name, "is being rebuilt from version "+r.To)
	}
	if have.Trouble != "" {
		r.sayOnce(n.Name, "is rebuilt once more, because the cloud failed: "+have.Trouble)
	}
	late := r.now().Sub(f.begunAt) > r.readyTimeout()
	switch {
	case have.State == cloud.Complete && (booted || late && nodestate.Ready(n)):
		// One that is up to date and Ready for so long under its old boot was rebuilt before it was taken.
		labels := map[string]string{v1alpha1.VersionLabel: v1alpha1.VersionLabelValue(r.To)}
		if err := node.Release(ctx, r.Kube, n, *held, labels); err != nil {
			return err
		}
		r.leave(n.Name)
		r.done = append(r.done, n.Name)
		r.event(n, corev1.EventTypeNormal, "Rebuilt", fmt.Sprintf("node %s runs version %s and is back in service", n.Name, r.To))
		r.say(n.Name, "runs version "+r.To+" and is back in service")
	case late:
		r.lost++
		why := fmt.Sprintf("did not come back within %s and stays cordoned", r.readyTimeout())
		r.event(n, corev1.EventTypeWarning, "NotRebuilt", fmt.Sprintf("node %s %s", n.Name, why))
		r.fail(n.Name, fmt.Sprintf("%s: see `kubectl describe node %s`; the same command goes on with it", why, n.Name))
	case have.State == cloud.Complete:
		r.sayOnce(n.Name, "boots")
	}
	return nil
}

// refused deals with a cloud that does not rebuild a node. What may pass by itself is an error that step knows.
func (r *Replacer) refused(ctx context.Context, n *corev1.Node, held *v1alpha1.Reservation, err error) error {
	switch cloud.KindOf(err) {
	case cloud.NotFound:
		r.leave(n.Name)
		r.say(n.Name, "has no instance any more, and so needs no rebuilding")
		return nil
	case cloud.Throttled, cloud.Unavailable:
		return err
	case cloud.Conflict:
		// Either the recipe names something else now, or somebody is at the instance.
		pool, look := r.Cloud.Pool(ctx, r.Pool)
		if look != nil {
			return look
		}
		if pool.Recipe.Version == r.To && !pool.Recipe.Latest {
			r.sayOnce(n.Name, "waits: "+err.Error())
			return nil
		}
		err = fmt.Errorf("%w: it names %s now: %w", ErrStopped, pool.Recipe.Image, err)
	default: // it will not do it, however often it is asked
	}
	if r.active[n.Name].rebuilds {
		return err // half-way; it stays taken, and the next run goes on with it
	}
	if back := r.giveBack(ctx, n, held, "is given back as it is"); back != nil {
		return back
	}
	return err
}
