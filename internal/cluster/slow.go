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
	// slowAnswer is how long an answer takes of an API server that is slow, and slowAnswers how many of them make it so.
	slowAnswer  = 2 * time.Second
	slowAnswers = 3
	// busyPatience is how long a request is tried again that the API server is too busy for, where its context has no deadline.
	busyPatience = 5 * time.Minute
	// firstPause and longestPause are between two tries, where the API server asks for none.
	firstPause   = time.Second
	longestPause = 10 * time.Second
	// drained is how much of an answer is read that is thrown away, so that its connection is used again.
	drained = 64 << 10
)

// calmly waits for an API server that is slow or too busy, and says so, each once.
type calmly struct {
	next http.RoundTripper

	mu   sync.Mutex
	say  func(string)
	slow []time.Duration
	busy bool
}

// RoundTrip sends the request, and once more each time that the API server is too busy for it: that one has done nothing, with a status of
// 429, or was asked to read, and did not get to it in its time. An eviction is answered with 429 by a budget for disruptions.
func (c *calmly) RoundTrip(request *http.Request) (*http.Response, error) {
	last := time.Now().Add(busyPatience)
	if deadline, limited := request.Context().Deadline(); limited {
		last = deadline
	}
	patience := time.Until(last)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		begun := time.Now()
		response, err := c.next.RoundTrip(request)
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
			if response != nil { // client-go would try ten times more
				response.Header.Del("Retry-After")
			}
			return response, err
		}
		if response != nil {
			_, _ = io.CopyN(io.Discard, response.Body, drained)
			_ = response.Body.Close()
		}
		c.tellBusy(response, patience)
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

// tooBusy tells whether the same request may be made again.
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

// retryAfter is what the API server asks for, in seconds; zero if it asks for nothing.
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

// replay is the request with its body from the beginning, if it can be had.
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

// took notes how long an answer took. What watches is answered when there is something to say.
func (c *calmly) took(request *http.Request, d time.Duration) {
	if d < slowAnswer || request.URL.Query().Get("watch") != "" {
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
	c.say(fmt.Sprintf("The API server is slow: %d answers took %s each. All that Kamino does takes longer by that.", slowAnswers, wording.Duration((all / slowAnswers).Round(time.Second))))
}

// tellBusy says once that requests are made again, and for how long this one is.
func (c *calmly) tellBusy(response *http.Response, patience time.Duration) {
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
	c.say(fmt.Sprintf("The API server %s. Kamino tries each request again for up to %s.", why, wording.Duration(patience.Round(time.Second))))
}

// Notify has the connection say that the API server is slow or too busy, each once.
func (c *Connection) Notify(say func(string)) {
	if c.calmly == nil {
		return
	}
	c.calmly.mu.Lock()
	defer c.calmly.mu.Unlock()
	c.calmly.say = say
}
