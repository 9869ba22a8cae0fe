package cluster

import (
	"net/http"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/internal/wording"
)

// MaxSkew is how far apart the two clocks may be. Versions are named by this machine's date, and the time
// that a donor may be away is counted by it.
const MaxSkew = 5 * time.Minute

// clockReader learns the API server's time from the Date header of its responses.
type clockReader struct {
	next http.RoundTripper
	now  func() time.Time

	mu    sync.Mutex
	ahead time.Duration
	heard bool
}

// RoundTrip sends the request and notes what the response says of the time. The header has whole seconds.
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

// CheckClock refuses to work with a clock that is far from the API server's. It is asked after the first
// look at the cluster and before anything is changed.
func (c *Connection) CheckClock() error {
	ahead, heard := c.Skew()
	if !heard || ahead.Abs() <= MaxSkew {
		return nil
	}
	by := ahead.Abs().Round(time.Minute) // an answer that was long on its way is no part of it
	side := "behind"
	if ahead < 0 {
		side = "ahead of"
	}
	return Refusef("this machine's clock is %s %s the API server's, and nothing was changed: versions and deadlines go by it, so set the clock first",
		wording.Duration(by), side)
}
