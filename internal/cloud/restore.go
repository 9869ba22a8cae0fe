package cloud

import (
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

// Digest describes content without showing it.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return fmt.Sprintf("%d bytes, sha256 %x", len(content), sum[:6])
}
