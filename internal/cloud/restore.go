package cloud

import (
	"context"
	"crypto/sha256"
	"fmt"
)

// Saved is what a recipe has lost, for whoever wants it back. It may hold secrets: it is shown to nobody.
type Saved struct {
	// Backup of the RecipeChange by which it was lost.
	Backup []byte
	// Given is what a person gives of what no cloud gives out, by Part.String(): customData as it is before any
	// encoding, and the protected settings of an extension as JSON.
	Given map[string][]byte
}

// Restorer is the power to give a recipe back what it has lost. It is optional: a caller asks with As.
type Restorer interface {
	// RestoreChange tells what giving the pool's recipe back what was saved does: the image that it named, unless that
	// is a version of the pool's own, and each part that it lost and does not have again. What the recipe got since
	// stays. SetRecipe carries the change out, as it does any other; its Version is empty. A part that was not saved
	// whole, and that nobody gives, is among its Missing, and the recipe then stays without it. Invalid if the backup is
	// none of this cloud's, or is another pool's, or what is given cannot be used. It is a look.
	RestoreChange(ctx context.Context, pool PoolID, saved Saved) (RecipeChange, error)
}

// Digest tells content apart from other content without showing it.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return fmt.Sprintf("%d bytes, sha256 %x", len(content), sum[:6])
}
