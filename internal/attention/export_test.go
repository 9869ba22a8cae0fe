package attention

// Worlds of the tests, for tests outside the package.
var (
	Now      = now
	Capture  = capture
	Held     = held
	PolicyOf = policy
	With     = with
	Dead     = dead
	Works    = works
)
