// Package restore restores the parts that a pool's recipe lost in a promotion. The package finds the saved parts, shows
// the change and the obstacles, and writes the recipe.
//
// Each pass reads the cloud, asks package plan, and does one step. No state is kept between passes, so that any process
// can continue after a crash.
package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/internal/restore/plan"
	"github.com/kamino-dev/kamino/internal/savedrecipe"
)

// protectedKey is the default key of an extension's protected settings in a Secret.
const protectedKey = "protectedSettings"

// Wish is a request for a restoration.
type Wish struct {
	// Version or Prototype of the promotion that removed the parts; the latest saved recipe if both are empty.
	Version, Prototype string
	// CustomData names a Secret with customData in Kamino's namespace, as NAME or NAME/KEY. Protected names Secrets
	// with protected settings as JSON, by extension. Secrets keep the content out of command lines.
	CustomData string
	Protected  map[string]string
	// Incomplete omits the missing parts.
	Incomplete bool
}

// Case is the plan for a request.
type Case struct {
	// Kept is the saved recipe for the request. Others are the Secrets of earlier losses.
	Kept   savedrecipe.Found
	Others []string
	// Change is the planned change of the recipe.
	Change cloud.RecipeChange
	// Refusals are the reasons against the change.
	Refusals []cloud.Refusal
}

// Look finds the saved recipe and plans its restoration. Look changes nothing. A missing or untrusted saved recipe
// returns a cluster.Refused.
func Look(ctx context.Context, provider cloud.Provider, secrets savedrecipe.Secrets, h history.History, prototypes []v1alpha1.Prototype, w Wish) (Case, error) {
	all, err := secrets.Find(ctx, h.Pool, h.PoolID, prototypes)
	if err != nil {
		return Case{}, err
	}
	c := Case{}
	if c.Kept, err = pick(h.Pool, secrets.Namespace, all, w); err != nil {
		return Case{}, err
	}
	for _, other := range all {
		if other.Secret != c.Kept.Secret {
			c.Others = append(c.Others, other.Secret)
		}
	}
	saved := cloud.Saved{Backup: c.Kept.Backup}
	if saved.Given, err = given(ctx, secrets, c.Kept, w); err != nil {
		return Case{}, err
	}
	if c.Change, err = provider.RestoreChange(ctx, h.PoolID, saved); err != nil {
		return Case{}, err
	}
	c.Refusals = slices.Concat(h.RefuseRestore(), c.Change.Refusals)
	if !w.Incomplete {
		c.Refusals = append(c.Refusals, plan.Missing(c.Change, secrets.Namespace, savedrecipe.CustomDataKey)...)
	}
	return c, nil
}

// pick returns the saved recipe for the request. all has the saved recipes of the pool, latest first.
func pick(pool, namespace string, all []savedrecipe.Found, w Wish) (savedrecipe.Found, error) {
	i := slices.IndexFunc(all, func(f savedrecipe.Found) bool {
		return (w.Prototype == "" || f.Prototype == w.Prototype) && (w.Version == "" || f.Version != "" && imageversion.Compare(f.Version, w.Version) == 0)
	})
	switch {
	case len(all) == 0:
		return savedrecipe.Found{}, cluster.Refusef("no saved recipe of pool %s in namespace %s, and nothing was changed: only a promotion that removes fields saves a recipe", pool, namespace)
	case i < 0:
		var names []string
		for _, f := range all {
			names = append(names, f.Secret)
		}
		return savedrecipe.Found{}, cluster.Refusef("no saved recipe of pool %s for %s, and nothing was changed: saved recipes are %s", pool, cmp.Or(w.Prototype, w.Version), strings.Join(names, ", "))
	case all[i].Doubt != "":
		return savedrecipe.Found{}, cluster.Refusef("secret %s/%s does not match the saved recipe, and nothing was changed: %s", namespace, all[i].Secret, all[i].Doubt)
	}
	return all[i], nil
}

// given returns the parts from the caller for parts that the cloud never returned. A part from the caller has
// precedence over saved customData.
func given(ctx context.Context, secrets savedrecipe.Secrets, kept savedrecipe.Found, w Wish) (map[string][]byte, error) {
	all := map[string][]byte{}
	if kept.CustomData != nil {
		all[savedrecipe.CustomDataKey] = kept.CustomData
	}
	give := func(part, secret, key string) error {
		content, err := content(ctx, secrets, secret, key)
		if err == nil {
			all[part] = content
		}
		return err
	}
	if w.CustomData != "" {
		if err := give(savedrecipe.CustomDataKey, w.CustomData, savedrecipe.CustomDataKey); err != nil {
			return nil, err
		}
	}
	for extension, secret := range w.Protected {
		if err := give("extension "+extension, secret, protectedKey); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// content reads SECRET[/KEY] in Kamino's namespace.
func content(ctx context.Context, s savedrecipe.Secrets, name, key string) ([]byte, error) {
	name, named, isNamed := strings.Cut(name, "/")
	if isNamed {
		key = named
	}
	secret, err := s.Kube.CoreV1().Secrets(s.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, cluster.Refusef("Secret %s/%s not found, and nothing was changed: create the Secret", s.Namespace, name)
	case err != nil:
		return nil, err
	case len(secret.Data[key]) == 0:
		return nil, cluster.Refusef("key %s not found in Secret %s/%s, and nothing was changed: add the key, or name another key as %s/KEY", key, s.Namespace, name, name)
	}
	return secret.Data[key], nil
}

// Restoration writes the lost parts back into a recipe.
type Restoration struct {
	Cloud cloud.Provider
	// Shown is the change shown for the decision. A recipe that has changed since is left alone.
	Shown cloud.RecipeChange
}

// Result is the result of a pass.
type Result struct {
	// Did is the step of the pass; plan.Done if nothing is left to do.
	Did plan.Action
	// After is the pause before the next pass.
	After time.Duration
	// Conflict is the error after a concurrent write to the pool; else nil.
	Conflict error
}

// pollInterval is the pause before another try.
const pollInterval = time.Second

// ErrChanged is returned if another client changed the recipe after the change was shown.
var ErrChanged = errors.New("the recipe changed in the meantime, and nothing was restored: run the same command again")

// Pass reads the cloud and does one step. A conflict with a concurrent write, for example of an autoscaler, is no
// error: the next pass tries again.
func (r *Restoration) Pass(ctx context.Context) (Result, error) {
	if r.Shown.Restores == nil {
		return Result{}, errors.New("the change is not a restore")
	}
	now, err := r.Cloud.RestoreChange(ctx, r.Shown.Pool, *r.Shown.Restores)
	if err != nil {
		return Result{After: pollInterval}, err
	}
	done := Result{Did: plan.Next(plan.Facts{Back: now.Done, AsShown: r.asShown(now)})}
	switch done.Did {
	case plan.Done:
	case plan.Stop:
		return done, ErrChanged
	case plan.Write:
		if err = r.Cloud.SetRecipe(ctx, now); cloud.Is(err, cloud.Conflict) {
			done.After, done.Conflict, err = pollInterval, err, nil
		}
	}
	return done, err
}

func (r *Restoration) asShown(now cloud.RecipeChange) bool {
	return strings.EqualFold(now.From, r.Shown.From) && cloud.SameFields(now.Keeps, r.Shown.Keeps) && cloud.SameFields(now.Adds, r.Shown.Adds)
}

// maxAttempts is the largest number of writes of a run.
const maxAttempts = 4

// Run makes passes until nothing is left to do. wait makes the pauses.
func (r *Restoration) Run(ctx context.Context, wait func(context.Context, time.Duration) error) error {
	for writes := 1; ; writes++ {
		done, err := r.Pass(ctx)
		switch {
		case err != nil || done.Did == plan.Done:
			return err
		case writes == maxAttempts && done.Conflict != nil:
			return fmt.Errorf("the pool changed during each attempt; run the same command again: %w", done.Conflict)
		case writes > maxAttempts:
			return fmt.Errorf("the cloud accepted the change %d times, but the change is not visible: run the same command again", writes)
		}
		if err := wait(ctx, done.After); err != nil {
			return err
		}
	}
}
