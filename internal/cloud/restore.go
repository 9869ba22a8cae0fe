package cloud

import (
	"context"
	"crypto/sha256"
	"fmt"
)

// Saved has the lost parts of a recipe, for a restoration. It may contain secrets, and must not be shown.
type Saved struct {
	// Backup is RecipeChange.Backup of the change that removed the parts.
	Backup []byte
	// Given are parts from a person that no cloud returns, by Part.String(): customData before any encoding, and an
	// extension's protected settings as JSON.
	Given map[string][]byte
}

// RecipeRestorer is the power to restore lost parts of a recipe. RecipeRestorer is optional: use As.
type RecipeRestorer interface {
	// RestoreChange plans the restoration of saved parts: the old image, unless it is a version of the pool, and each
	// lost part. Later additions to the recipe stay. SetRecipe carries out the change; its Version is empty.
	//
	// A part neither saved completely nor given is in Missing, and the recipe stays without it. RestoreChange returns
	// Invalid for a backup of another cloud or pool, or for unusable given parts. It changes nothing.
	RestoreChange(ctx context.Context, pool PoolID, saved Saved) (RecipeChange, error)
}

// Digest describes content without showing it.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return fmt.Sprintf("%d bytes, sha256 %x", len(content), sum[:6])
}
