package cloud

// Hold is how an instance stands to what its pool does by itself: shrinks, replaces, rotates.
type Hold struct {
	// Held tells that the pool leaves the instance alone, whoever saw to that.
	Held bool
	// Token is how the instance stands, in the provider's own words and at most MaxToken bytes: what Unhold brings back.
	// Unheld where nothing holds it. Empty where the pool does nothing by itself that could be held off.
	Token string
	// Lasts: what is held is not the instance, but what the pool keeps for it, such as an object of its own. That may be there when the
	// instance is gone: then it is given back, or removed, as ever.
	Lasts bool
}

// MaxToken is how long a token may be, in bytes: it is kept on the Node.
const MaxToken = 256

const (
	// Unheld is the token of an instance that nothing holds, in every cloud that has something to hold.
	Unheld = "unheld"
	// Protected is the token of an instance that was protected from scale-in, where a cloud knows nothing finer. It is also
	// what the versions of Kamino mean that kept no token, but whether the instance was protected.
	Protected = "protected"
)

// Protection is the hold where a cloud knows nothing but protection from scale-in.
func Protection(protected bool) Hold {
	if protected {
		return Hold{Held: true, Token: Protected}
	}
	return Hold{Token: Unheld}
}

// ProtectedBy reads a token where a cloud knows nothing but protection from scale-in. Any other token is Invalid.
func ProtectedBy(op string, id InstanceID, token string) (bool, error) {
	switch token {
	case Unheld:
		return false, nil
	case Protected:
		return true, nil
	}
	return false, &Error{Kind: Invalid, Op: op, Resource: string(id), Message: "the token " + quoted(token) + " is none of this cloud's"}
}

// quoted is a token for an error, cut where it is longer than any is.
func quoted(token string) string {
	return `"` + token[:min(len(token), MaxToken)] + `"`
}
