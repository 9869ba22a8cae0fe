package recipe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/history"
)

// protectedKey is the default key of an extension's protected settings in a Secret.
const protectedKey = "protectedSettings"

// RestoreRequest is a request for a restoration.
type RestoreRequest struct {
	// Version or Prototype of the promotion that removed the parts; the latest saved recipe if both are empty.
	Version, Prototype string
	// CustomData names a Secret with customData in Kamino's namespace, as NAME or NAME/KEY. Protected names Secrets
	// with protected settings as JSON, by extension. Secrets keep the content out of command lines.
	CustomData string
	Protected  map[string]string
	// Incomplete omits the missing parts.
	Incomplete bool
}

// Restoration is the plan for a RestoreRequest.
type Restoration struct {
	// Saved is the saved recipe for the request. Others are the Secrets of earlier losses.
	Saved  SavedPart
	Others []string
	// Change is the planned change of the recipe.
	Change cloud.RecipeChange
	// Refusals are the reasons against the change.
	Refusals []cloud.Refusal
}

// PlanRestoration finds the saved recipe and plans its restoration. It changes nothing. A missing or untrusted saved
// recipe returns a cluster.Refused.
func PlanRestoration(ctx context.Context, provider restorer, secrets Secrets, h history.History, prototypes []v1alpha1.Prototype,
	w RestoreRequest) (Restoration, error) {
	all, err := secrets.Find(ctx, h.Pool, h.PoolID, prototypes)
	if err != nil {
		return Restoration{}, err
	}
	c := Restoration{}
	if c.Saved, err = pick(h.Pool, secrets.Namespace, all, w); err != nil {
		return Restoration{}, err
	}
	for _, found := range all {
		if found.Secret != c.Saved.Secret {
			c.Others = append(c.Others, found.Secret)
		}
	}
	saved := cloud.Saved{Backup: c.Saved.Backup}
	if saved.Given, err = callerParts(ctx, secrets, c.Saved, w); err != nil {
		return Restoration{}, err
	}
	if c.Change, err = provider.RestoreChange(ctx, h.PoolID, saved); err != nil {
		return Restoration{}, err
	}
	c.Refusals = slices.Concat(h.RefuseRestore(), c.Change.Refusals)
	if !w.Incomplete {
		c.Refusals = append(c.Refusals, missing(c.Change, secrets.Namespace)...)
	}
	return c, nil
}

// pick returns the saved recipe for the request. all has the saved recipes of the pool, latest first.
func pick(pool, namespace string, all []SavedPart, w RestoreRequest) (SavedPart, error) {
	i := slices.IndexFunc(all, func(f SavedPart) bool {
		return (w.Prototype == "" || f.Prototype == w.Prototype) && (w.Version == "" || f.Version != "" && imageversion.Compare(f.Version, w.Version) == 0)
	})
	switch {
	case len(all) == 0:
		return SavedPart{}, cluster.Refusef("no saved recipe of pool %s in namespace %s, and nothing was changed: only a promotion that "+
			"removes fields saves a recipe", pool, namespace)
	case i < 0:
		var names []string
		for _, f := range all {
			names = append(names, f.Secret)
		}
		return SavedPart{}, cluster.Refusef("no saved recipe of pool %s for %s, and nothing was changed: saved recipes are %s",
			pool, cmp.Or(w.Prototype, w.Version), strings.Join(names, ", "))
	case all[i].Doubt != "":
		return SavedPart{}, cluster.Refusef("secret %s/%s does not match the saved recipe, and nothing was changed: %s", namespace, all[i].Secret, all[i].Doubt)
	}
	return all[i], nil
}

// callerParts returns the parts from the caller for parts that the cloud never returned. A part from the caller has
// precedence over saved customData.
func callerParts(ctx context.Context, secrets Secrets, kept SavedPart, w RestoreRequest) (map[string][]byte, error) {
	all := map[string][]byte{}
	if kept.CustomData != nil {
		all[CustomDataKey] = kept.CustomData
	}
	give := func(part, secret, key string) error {
		content, err := content(ctx, secrets, secret, key)
		if err == nil {
			all[part] = content
		}
		return err
	}
	if w.CustomData != "" {
		if err := give(CustomDataKey, w.CustomData, CustomDataKey); err != nil {
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
func content(ctx context.Context, s Secrets, name, key string) ([]byte, error) {
	name, named, isNamed := strings.Cut(name, "/")
	if isNamed {
		key = named
	}
	secret, err := s.get(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case secret == nil:
		return nil, cluster.Refusef("Secret %s/%s not found, and nothing was changed: create the Secret", s.Namespace, name)
	case len(secret.Data[key]) == 0:
		return nil, cluster.Refusef("key %s not found in Secret %s/%s, and nothing was changed: add the key, or name another key as %s/KEY",
			key, s.Namespace, name, name)
	}
	return secret.Data[key], nil
}

// PartMissing: a lost part was not saved, and the caller does not pass it.
const PartMissing = "PartMissing"

// missing refuses a change without all parts, with the flag for each missing part. Parts are passed in a Secret of the
// namespace. Any part except customData is the protected settings of an extension.
func missing(change cloud.RecipeChange, namespace string) []cloud.Refusal {
	var refusals []cloud.Refusal
	for _, part := range change.Missing {
		flag := "--custom-data-from SECRET[/KEY]"
		if part.Kind != CustomDataKey {
			flag = fmt.Sprintf("--protected-settings-from %s=SECRET[/KEY]", part.Name)
		}
		refusals = append(refusals, cloud.Refuse(PartMissing,
			fmt.Sprintf("the cloud never returned all of %s, and new nodes without that part may never join", part.Describe()),
			fmt.Sprintf("put the part into a Secret of namespace %s and pass %s, or omit the part with --incomplete", namespace, flag)))
	}
	return refusals
}
