package cluster

import (
	"net/http"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/internal/wording"
)

// MaxSkew is the largest allowed difference between the two clocks. Version names and the donor's deadline use this
// machine's clock.
const MaxSkew = 5 * time.Minute

// clockReader reads the API server's time from the Date header of responses.
type clockReader struct {
	next http.RoundTripper
	now  func() time.Time

	mu    sync.Mutex
	ahead time.Duration
	heard bool
}

// RoundTrip sends the request and records the time of the response. The header has whole seconds.
func (c *clockReader) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		c.mu.Lock()
		c.ahead, c.heard = date.Sub(c.now().Truncate(time.Second)), true
		c.mu.Unlock()
	}
	return response, nil
}

func (c *clockReader) skew() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead, c.heard
}

// CheckClock returns a Refused if this machine's clock differs from the API server's clock by more than MaxSkew. Call
// CheckClock after the first read and before the first write.
func (c *Connection) CheckClock() error {
	ahead, isKnown := c.Skew()
	if !isKnown || ahead.Abs() <= MaxSkew {
		return nil
	}
	by := ahead.Abs().Round(time.Minute) // rounding hides the latency of the response
	side := "behind"
	if ahead < 0 {
		side = "ahead of"
	}
	return Refusef("the clock of this machine is %s %s the clock of the API server, and nothing was changed: set the clock, "+
		"because versions and deadlines depend on the time",
		wording.Duration(by), side)
}
