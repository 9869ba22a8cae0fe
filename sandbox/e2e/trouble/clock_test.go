package trouble

import (
	"net/http"
	"testing"
	"time"
)

// TestClockIsOff lets the API server show a time that differs from this machine's by hours. Which of the two
// is wrong makes no difference.
func TestClockIsOff(t *testing.T) {
	for name, c := range map[string]struct {
		off      time.Duration
		sentence string
	}{
		"slow": {3 * time.Hour, "this machine's clock is 3h00m behind the API server's"},
		"fast": {-26 * time.Hour, "this machine's clock is 1d2h ahead of the API server's"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGround(t, "name=clock"+name+",nodes=2")
			g.apiGate().alter(func(r *http.Response) error {
				r.Header.Set("Date", time.Now().Add(c.off).UTC().Format(http.TimeFormat))
				return nil
			})
			g.refuses(g.nodes[0], 3, c.sentence, "set the clock first")
			before := g.look()
			g.start("controller", "--health-probe-bind-address", "0").ends(t, 3, c.sentence)
			g.untouched(before)
		})
	}
}
