package sandboxtest

import (
	"testing"
	"time"
)

// limit is how long a test waits for anything. No test comes near it: it only ends what hangs.
const limit = 10 * time.Minute

// Eventually calls done until it returns true. After ten minutes the test fails, with the state that done returned last.
func Eventually(t testing.TB, what string, done func() (ok bool, state string)) {
	t.Helper()
	end := time.Now().Add(limit)
	for {
		ok, state := done()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %s it is still not true that %s: %s", limit, what, state)
		}
		time.Sleep(50 * time.Millisecond) // between two looks
	}
}
