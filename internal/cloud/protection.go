package cloud

// Protection is the protection of an instance from its pool's automatic actions: scale-in, replacement, rotation.
type Protection struct {
	// Protected is true if the pool leaves the instance alone, for any reason.
	Protected bool
	// Token is the state for Unprotect in the provider's own words, with at most MaxToken bytes. Unheld without
	// protection. Empty if the pool has no automatic actions.
	Token string
}

// MaxToken is the largest length of a token in bytes. The token is stored on the Node.
const MaxToken = 256

const (
	// TokenUnprotected is the token of an unprotected instance in every cloud.
	TokenUnprotected = "unheld"
	// TokenProtected is the token of an instance protected from scale-in, in clouds without finer states.
	TokenProtected = "protected"
)

// ProtectionOf returns the Hold in a cloud with only scale-in protection.
func ProtectionOf(protected bool) Protection {
	if protected {
		return Protection{Protected: true, Token: TokenProtected}
	}
	return Protection{Token: TokenUnprotected}
}

// ParseProtection parses a token in a cloud with only scale-in protection. Any other token is Invalid.
func ParseProtection(op string, id InstanceID, token string) (bool, error) {
	switch token {
	case TokenUnprotected:
		return false, nil
	case TokenProtected:
		return true, nil
	}
	return false, &Error{Kind: Invalid, Op: op, Resource: string(id), Message: "" + quoted(token) + " is not a token of this cloud"}
}

// quoted returns a token for an error, cut to the largest length.
func quoted(token string) string {
	return `"` + token[:min(len(token), MaxToken)] + `"`
}
