package sandboxtest

import (
	"testing"
	"time"
)

// limit is the longest wait of a test. The limit only ends hanging tests.
const limit = 10 * time.Minute

// Eventually calls done until done returns true. After ten minutes the test fails, with the last state.
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
