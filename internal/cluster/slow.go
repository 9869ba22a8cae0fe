package cluster

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/internal/wording"
)

const (
	// slowAnswer is the duration of a slow response. After slowAnswers slow responses Kamino reports a slow API server.
	slowAnswer  = 2 * time.Second
	slowAnswers = 3
	// busyRetryTime is how long Kamino retries a request to a busy API server if the context has no deadline.
	busyRetryTime = 5 * time.Minute
	// firstPause and longestPause limit the pause between retries without a Retry-After header.
	firstPause   = time.Second
	longestPause = 10 * time.Second
	// drained is how many bytes of a discarded response are read, so that the connection can be reused.
	drained = 64 << 10
	// quietly is how long Kamino waits for a busy API server without a word.
	quietly = 5 * time.Second
)

// retrier retries requests to a busy API server, and reports a slow, busy or silent API server once each.
type retrier struct {
	next http.RoundTripper

	mu   sync.Mutex
	say  func(string)
	slow []time.Duration
	busy bool
	mute bool
}

// RoundTrip sends the request and retries while the API server is too busy: status 429, or a timeout of a read.
// Evictions are not retried, because a PodDisruptionBudget also responds with 429.
func (c *retrier) RoundTrip(request *http.Request) (*http.Response, error) {
	last := time.Now().Add(busyRetryTime)
	if deadline, limited := request.Context().Deadline(); limited {
		last = deadline
	}
	started, retryTime := time.Now(), time.Until(last)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		begun, silent := time.Now(), c.whileSilent(request)
		response, err := c.next.RoundTrip(request)
		silent()
		c.took(request, time.Since(begun))
		if !tooBusy(request, response, err) {
			return response, err
		}
		asked := retryAfter(response)
		if asked == 0 {
			asked = pause
		}
		again, replays := replay(request)
		if !replays || !time.Now().Add(asked).Before(last) {
			if response != nil { // client-go would retry ten more times
				response.Header.Del("Retry-After")
			}
			return response, err
		}
		if response != nil {
			_, _ = io.CopyN(io.Discard, response.Body, drained)
			_ = response.Body.Close()
		}
		if time.Since(started)+asked > quietly {
			c.reportBusy(response, retryTime)
		}
		timer := time.NewTimer(asked)
		select {
		case <-request.Context().Done():
			timer.Stop()
			return nil, request.Context().Err()
		case <-timer.C:
		}
		request = again
	}
}

// isWatch reports whether the API server responds only when there is a change.
func isWatch(request *http.Request) bool { return request.URL.Query().Get("watch") != "" }

// whileSilent reports once that the API server does not answer for a while. The caller calls end after the answer.
func (c *retrier) whileSilent(request *http.Request) (end func()) {
	if isWatch(request) {
		return func() {}
	}
	timer := time.AfterFunc(quietly, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.mute || c.say == nil {
			return
		}
		c.mute = true
		c.say(fmt.Sprintf("The API server has not answered for %s. Kamino waits for it.", wording.Duration(quietly)))
	})
	return func() { timer.Stop() }
}

// tooBusy reports whether the same request may be sent again.
func tooBusy(request *http.Request, response *http.Response, err error) bool {
	reads := request.Method == http.MethodGet
	if err != nil {
		timeout, is := err.(interface{ Timeout() bool })
		return reads && is && timeout.Timeout() && request.Context().Err() == nil
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests:
		return !strings.HasSuffix(request.URL.Path, "/eviction")
	case http.StatusGatewayTimeout:
		return reads
	}
	return false
}

// retryAfter returns the wish of the API server from Retry-After; zero without the header.
func retryAfter(response *http.Response) time.Duration {
	if response == nil {
		return 0
	}
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// replay returns a copy of the request with a fresh body; false if the body cannot be read again.
func replay(request *http.Request) (*http.Request, bool) {
	again := request.Clone(request.Context())
	if request.Body == nil || request.Body == http.NoBody {
		return again, true
	}
	if request.GetBody == nil {
		return nil, false
	}
	body, err := request.GetBody()
	again.Body = body
	return again, err == nil
}

// took records the duration of a response. A watch is ignored.
func (c *retrier) took(request *http.Request, d time.Duration) {
	if d < slowAnswer || isWatch(request) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.slow) == slowAnswers {
		return
	}
	c.slow = append(c.slow, d)
	if len(c.slow) < slowAnswers || c.say == nil {
		return
	}
	var all time.Duration
	for _, one := range c.slow {
		all += one
	}
	c.say(fmt.Sprintf("The API server is slow: %d answers took %s each. Every step of Kamino takes longer.",
		slowAnswers, wording.Duration((all / slowAnswers).Round(time.Second))))
}

// reportBusy reports once that Kamino retries requests. retryTime is how long Kamino retries this request.
func (c *retrier) reportBusy(response *http.Response, retryTime time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy || c.say == nil {
		return
	}
	c.busy = true
	why := "did not answer in time"
	if response != nil {
		why = "is too busy (" + response.Status + ")"
	}
	c.say(fmt.Sprintf("The API server %s. Kamino tries each request again for up to %s.", why, wording.Duration(retryTime.Round(time.Second))))
}

// Notify sets the function that receives one message for a slow and one for a busy API server.
func (c *Connection) Notify(say func(string)) {
	if c.retrier == nil {
		return
	}
	c.retrier.mu.Lock()
	defer c.retrier.mu.Unlock()
	c.retrier.say = say
}
