// Package restore gives a pool's recipe back what it lost when it was pointed at a version. It finds what was kept, tells what
// giving it back would change and what is in the way, and does it: each pass looks at the cloud, has package plan decide, and
// does one thing. Nothing is kept in between, so that whoever starts it again after a crash goes on.
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

// protectedKey is where an extension's protected settings stand in a Secret that names no key.
const protectedKey = "protectedSettings"

// Wish is what somebody wants back.
type Wish struct {
	// Version or Prototype with which it was lost; the latest that is kept if both are empty.
	Version, Prototype string
	// CustomData names a Secret of Kamino's namespace that holds customData, as NAME or NAME/KEY; and Protected, by their
	// extension, those that hold protected settings as JSON. So no content stands in an argument.
	CustomData string
	Protected  map[string]string
	// Incomplete leaves out what nobody gives.
	Incomplete bool
}

// Case is all that was found about a wish.
type Case struct {
	// Kept is what the recipe lost, and Others are the Secrets with what it lost at other times.
	Kept   savedrecipe.Found
	Others []string
	// Change of the recipe, which nobody has made yet.
	Change cloud.RecipeChange
	// Refusals: why it is not made.
	Refusals []cloud.Refusal
}

// Look finds what the recipe of the pool lost, and what giving it back would change. It changes nothing. What is not there, or
// not to be believed, is a cluster.Refused.
func Look(ctx context.Context, provider cloud.Provider, secrets savedrecipe.Secrets, h history.History, prototypes []v1alpha1.Prototype, w Wish) (Case, error) {
	restorer, able := cloud.As[cloud.Restorer](provider)
	if !able {
		return Case{}, cluster.Refusef("this cloud can't give a recipe back what it lost, and nothing was changed")
	}
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
	if c.Change, err = restorer.RestoreChange(ctx, h.PoolID, saved); err != nil {
		return Case{}, err
	}
	c.Refusals = slices.Concat(h.RefuseRestore(), c.Change.Refusals)
	if !w.Incomplete {
		c.Refusals = append(c.Refusals, plan.Missing(c.Change, secrets.Namespace, savedrecipe.CustomDataKey)...)
	}
	return c, nil
}

// pick is the saved recipe that is meant; all are those of the pool, the latest first.
func pick(pool, namespace string, all []savedrecipe.Found, w Wish) (savedrecipe.Found, error) {
	i := slices.IndexFunc(all, func(f savedrecipe.Found) bool {
		return (w.Prototype == "" || f.Prototype == w.Prototype) && (w.Version == "" || f.Version != "" && imageversion.Compare(f.Version, w.Version) == 0)
	})
	switch {
	case len(all) == 0:
		return savedrecipe.Found{}, cluster.Refusef("nothing that the recipe of pool %s lost is kept in namespace %s, and nothing was changed: a promotion keeps it there before it takes it out", pool, namespace)
	case i < 0:
		var names []string
		for _, f := range all {
			names = append(names, f.Secret)
		}
		return savedrecipe.Found{}, cluster.Refusef("nothing is kept that the recipe of pool %s lost with %s, and nothing was changed: there are %s", pool, cmp.Or(w.Prototype, w.Version), strings.Join(names, ", "))
	case all[i].Doubt != "":
		return savedrecipe.Found{}, cluster.Refusef("secret %s/%s is not what was saved, and nothing was changed: %s", namespace, all[i].Secret, all[i].Doubt)
	}
	return all[i], nil
}

// given is what a person gives of what the cloud gave out to nobody. What was kept of customData counts less.
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

// content of SECRET[/KEY] in Kamino's namespace.
func content(ctx context.Context, s savedrecipe.Secrets, name, key string) ([]byte, error) {
	name, named, isNamed := strings.Cut(name, "/")
	if isNamed {
		key = named
	}
	secret, err := s.Kube.CoreV1().Secrets(s.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, cluster.Refusef("there is no Secret %s/%s, and nothing was changed: create it", s.Namespace, name)
	case err != nil:
		return nil, err
	case len(secret.Data[key]) == 0:
		return nil, cluster.Refusef("there is no key %s in Secret %s/%s, and nothing was changed: write it, or name another one as %s/KEY", key, s.Namespace, name, name)
	}
	return secret.Data[key], nil
}

// Restoration has a recipe get back what it lost.
type Restoration struct {
	Cloud cloud.Provider
	// Shown is the change that was shown to whoever decided this. A recipe that has become another one since is left alone.
	Shown cloud.RecipeChange
}

// Result of a pass.
type Result struct {
	// Did is the step that was taken; plan.Done if nothing is left.
	Did plan.Action
	// After is when the next pass is due.
	After time.Duration
	// Conflict with somebody who wrote the pool at the same moment; nil if there was none.
	Conflict error
}

// tempo is the pause before another try.
const tempo = time.Second

// ErrChanged is returned where somebody changed the recipe since what would change was shown.
var ErrChanged = errors.New("somebody changed the recipe since, and it is left as it is: run the same command again")

// Pass looks and takes one step. What may pass by itself, a conflict with somebody who writes the pool at the same moment
// (an autoscaler that changes its size is one), is no error: the next pass tries again.
func (r *Restoration) Pass(ctx context.Context) (Result, error) {
	restorer, able := cloud.As[cloud.Restorer](r.Cloud)
	if !able || r.Shown.Restores == nil {
		return Result{}, errors.New("this is no restoration")
	}
	now, err := restorer.RestoreChange(ctx, r.Shown.Pool, *r.Shown.Restores)
	if err != nil {
		return Result{After: tempo}, err
	}
	done := Result{Did: plan.Next(plan.Facts{Back: now.Done, AsShown: r.asShown(now)})}
	switch done.Did {
	case plan.Done:
	case plan.Stop:
		return done, ErrChanged
	case plan.Write:
		if err = r.Cloud.SetRecipe(ctx, now); cloud.Is(err, cloud.Conflict) {
			done.After, done.Conflict, err = tempo, err, nil
		}
	}
	return done, err
}

func (r *Restoration) asShown(now cloud.RecipeChange) bool {
	return strings.EqualFold(now.From, r.Shown.From) && cloud.SameParts(now.Keeps, r.Shown.Keeps) && cloud.SameParts(now.Adds, r.Shown.Adds)
}

// patience is how often a run writes.
const patience = 4

// Run makes passes until nothing is left to do, with the pauses between them made by wait.
func (r *Restoration) Run(ctx context.Context, wait func(context.Context, time.Duration) error) error {
	for writes := 1; ; writes++ {
		done, err := r.Pass(ctx)
		switch {
		case err != nil || done.Did == plan.Done:
			return err
		case writes == patience && done.Conflict != nil:
			return fmt.Errorf("somebody changed the pool each time; run the same command again: %w", done.Conflict)
		case writes > patience:
			return fmt.Errorf("the cloud took the change %d times and does not show it: run the same command again", writes)
		}
		if err := wait(ctx, done.After); err != nil {
			return err
		}
	}
}
