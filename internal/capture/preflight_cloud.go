package capture

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
)

// preflightCloud has the calls of a cloud.Provider that show whether a capture can work.
type preflightCloud interface {
	instanceLister
	Preflight(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error)
	Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error)
	RecipeChange(ctx context.Context, ref cloud.ImageRef, removeBootstrap bool) (cloud.RecipeChange, error)
	Image(ctx context.Context, ref cloud.ImageRef) (cloud.Image, error)
	MaxImages(pool cloud.PoolID) int
	CanCopy() bool
	CapturesInPlace() bool
	PreflightWorkshop(ctx context.Context, spec cloud.WorkshopSpec) ([]cloud.Refusal, error)
}

// cloudChecks asks the cloud whether a capture can work.
type cloudChecks struct {
	cloud      preflightCloud
	trials     trials
	customData customDataReader
	memory     *preflights
	now        clock
}

// cloudFacts collects the facts of the cloud.
func (q cloudChecks) cloudFacts(ctx context.Context, w *pass, c *admission.Case) {
	asked := cloudCalls{w.preflight.instanceErr}
	c.BuiltFrom = ask(&asked, func() (cloud.Image, error) { return q.builtFrom(ctx, w) })
	c.Cloud = ask(&asked, func() ([]cloud.Refusal, error) { return q.preflight(ctx, w) })
	if _, err := c.Cloud.Get(); cloud.Is(err, cloud.NotFound) || cloud.Is(err, cloud.Unsupported) {
		return // the cloud does not know the instance
	}
	c.Recipe = ask(&asked, func() (cloud.Pool, error) { return q.cloud.Pool(ctx, w.pool) })
	c.Images = ask(&asked, func() (admission.Images, error) { return q.images(ctx, w, c) })
	c.CustomData = ask(&asked, func() (admission.CustomData, error) { return q.customDataFacts(ctx, w) })
	w.promotion.recipe, _ = c.Recipe.Get()
}

// cloudCalls stops further requests of one observation after a request without an answer.
type cloudCalls struct{ trouble error }

// ask makes one request, unless an earlier request got no answer.
func ask[T any](t *cloudCalls, look func() (T, error)) admission.Lookup[T] {
	if isCloudOutage(t.trouble) {
		return admission.Unread[T](t.trouble)
	}
	value, err := look()
	if isCloudOutage(err) {
		t.trouble = err
	}
	return admission.LookupOf(value, err)
}

// isCloudOutage reports whether the error concerns the cloud as a whole, and not the request.
func isCloudOutage(err error) bool {
	return cloud.Is(err, cloud.Throttled) || cloud.Is(err, cloud.Unavailable) || cloud.Is(err, cloud.Unauthenticated)
}

// builtFrom is the image version of the donor. A donor without a version costs no request.
func (q cloudChecks) builtFrom(ctx context.Context, w *pass) (cloud.Image, error) {
	if w.preflight.instanceErr != nil || w.donor.instance.BuiltFrom == "" {
		return cloud.Image{}, w.preflight.instanceErr
	}
	return q.cloud.Image(ctx, cloud.ImageRef{Pool: w.pool, Version: w.donor.instance.BuiltFrom})
}

// images counts the images of the pool's instances. Pools that are too small for the cloud's limit are skipped.
func (q cloudChecks) images(ctx context.Context, w *pass, c *admission.Case) (admission.Images, error) {
	pool, err := c.Recipe.Get()
	if err != nil || !imagecount.Possible(pool.Capacity, q.cloud.MaxImages(w.pool)) {
		return admission.Images{}, err
	}
	instances, err := q.cloud.Instances(ctx, w.pool)
	if cloud.Is(err, cloud.Unsupported) || cloud.Is(err, cloud.NotFound) {
		return admission.Images{}, nil
	}
	if err != nil {
		return admission.Images{}, err
	}
	found := admission.Images{Spread: imagecount.Of(pool.Recipe, instances, q.cloud.MaxImages(w.pool)), Names: map[cloud.InstanceID]string{}}
	around, _ := c.PoolNodes.Get()
	for _, id := range found.Spread.Brief().Oldest(pool.Recipe).Instances {
		for _, n := range append([]corev1.Node{*w.donor.node}, around.Peers...) {
			if q.cloud.SameInstance(cloud.InstanceID(n.Spec.ProviderID), id) {
				found.Names[id] = n.Name
			}
		}
	}
	return found, nil
}

// customDataFacts checks the Secret from the settings, and whether the promotion needs the Secret.
func (q cloudChecks) customDataFacts(ctx context.Context, w *pass) (admission.CustomData, error) {
	_, err := q.customData.read(ctx, w.p)
	var missing *cloud.Error
	if !errors.As(err, &missing) || missing.Refusal == nil {
		return admission.CustomData{}, err
	}
	change, err := q.cloud.RecipeChange(ctx, w.ref(), removesBootstrap(w.p))
	return admission.CustomData{Missing: missing.Refusal, Needed: len(change.Removes) > 0}, err
}

// preflightLife is the validity of a preflight without refusals. Callers repeat a preflight just before the capture
// begins.
const preflightLife = time.Minute

// preflightKey identifies a planned capture.
type preflightKey struct {
	cloud.PreflightSpec
	trial v1alpha1.TrialMode
}

// preflights are the times of preflights without refusals, by planned capture.
type preflights struct{ sync.Map }

// isValid reports whether a recent preflight of the same capture found no refusal.
func (f *preflights) isValid(spec preflightKey, now time.Time) bool {
	at, found := f.Load(spec)
	return found && now.Sub(at.(time.Time)).Abs() < preflightLife
}

// add stores the time of a preflight, and removes expired entries.
func (f *preflights) add(spec preflightKey, now time.Time) {
	f.Range(func(other, at any) bool {
		if now.Sub(at.(time.Time)).Abs() >= preflightLife {
			f.Delete(other)
		}
		return true
	})
	f.Store(spec, now)
}

// preflight asks the provider, unless a recent preflight found no refusal. Refusals of the instance and of the pool are
// always current, because both are read in each observation.
func (q cloudChecks) preflight(ctx context.Context, w *pass) ([]cloud.Refusal, error) {
	spec := preflightKey{PreflightSpec: cloud.PreflightSpec{Pool: w.pool, Instance: w.id, Version: w.p.Spec.Version,
		RemovesBootstrap: removesBootstrap(w.p), Copies: w.p.Spec.Settings.CopiesDonor(), WorkshopType: w.p.Spec.Settings.Donor.WorkshopType},
		trial: w.p.Spec.Settings.Trial.Mode}
	if w.donor.instance.ID != "" && q.memory.isValid(spec, q.now()) {
		return cloud.RefusalsFor(spec.Copies, w.donor.instance.Refusals), nil
	}
	refusals, err := q.cloud.Preflight(ctx, spec.PreflightSpec)
	if err != nil {
		return refusals, err
	}
	ofTrial, err := q.trials.preflight(ctx, w)
	ofWorkshop, workshopErr := q.workshopPreflight(ctx, w)
	err = cmp.Or(err, workshopErr)
	for _, refusal := range slices.Concat(ofWorkshop, ofTrial) {
		if !slices.Contains(refusals, refusal) { // equal refusals of several preflights are reported once
			refusals = append(refusals, refusal)
		}
	}
	if err == nil && len(refusals) == 0 {
		q.memory.add(spec, q.now())
	}
	return refusals, err
}

// canCopy reports whether the cloud copies disks in use, and this process can watch the Node of a workshop.
func (q cloudChecks) canCopy() bool { return q.cloud.CanCopy() && q.trials.reader.observer != nil }

// workshopPreflight returns the obstacles to the workshop of a capture by copy. A workshop is built from the present recipe, so it
// needs the copy of customData that a next node would get.
func (q cloudChecks) workshopPreflight(ctx context.Context, w *pass) ([]cloud.Refusal, error) {
	if !w.p.Spec.Settings.CopiesDonor() || !q.canCopy() {
		return nil, nil
	}
	data, err := q.customData.read(ctx, w.p)
	var missing *cloud.Error
	switch {
	case errors.As(err, &missing) && missing.Refusal != nil: // customDataFacts reports the refusal
	case err != nil:
		return nil, err
	case data == nil:
		data = q.trials.given
	}
	return q.cloud.PreflightWorkshop(ctx, cloud.WorkshopSpec{
		Pool: w.pool, Name: w.p.Name + "-preflight", InstanceType: w.p.Spec.Settings.Donor.WorkshopType, CustomData: data,
	})
}
