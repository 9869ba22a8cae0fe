// Package delivery delivers notices to endpoints over HTTP. A dead endpoint holds up nothing. Each endpoint has its own
// bounded queue and worker, and each request has a timeout. Notices for a full queue are counted and dropped.
//
// The URLs of endpoints are secrets, because many contain tokens. No error and no log line has a URL.
package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kamino-dev/kamino/internal/notify"
)

// Results of a notice at an endpoint.
const (
	Sent    = "sent"
	Lost    = "failed"
	Dropped = "dropped"
)

// Limits of delivery.
const (
	// queueLength is the number of waiting notices of an endpoint.
	queueLength = 64
	// requestTimeout limits one request.
	requestTimeout = 10 * time.Second
	// attempts is how often a notice is sent until the endpoint accepts the notice.
	attempts = 3
)

// chatScheme marks the URL of a chat's incoming webhook.
const chatScheme = "chat+"

// Endpoint is one receiver.
type Endpoint struct {
	url  string
	chat bool
}

// Read reads endpoints from a file: one URL in each line, without empty lines and lines that begin with #. http and https
// receive CloudEvents; chat+https and chat+http are incoming webhooks of a chat. No error has a part of the file.
func Read(file string) ([]Endpoint, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []Endpoint
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		plain, isChat := strings.CutPrefix(line, chatScheme)
		u, err := url.Parse(plain)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, fmt.Errorf("%s: line %d is not a URL that begins with https://, http://, chat+https:// or chat+http://", file, number)
		}
		all = append(all, Endpoint{plain, isChat})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no URL: write one URL in each line", file)
	}
	return all, nil
}

// Sender delivers notices.
type Sender struct {
	cluster string
	count   func(result string)
	log     logr.Logger
	client  *http.Client
	// pause is the wait before another attempt.
	pause  time.Duration
	queues []chan notify.Notice
	all    []Endpoint
}

// New returns a Sender for the endpoints. count receives the result of each notice at each endpoint.
func New(all []Endpoint, cluster string, count func(result string), log logr.Logger) *Sender {
	s := &Sender{
		all: all, cluster: cluster, count: count, log: log, pause: 5 * time.Second,
		client: &http.Client{
			Timeout:       requestTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a redirect could carry the token elsewhere
		},
	}
	for range all {
		s.queues = append(s.queues, make(chan notify.Notice, queueLength))
	}
	return s
}

// Send queues notices for all endpoints, and never waits.
func (s *Sender) Send(notices ...notify.Notice) {
	for _, n := range notices {
		n.Data.Cluster = s.cluster
		for i, queue := range s.queues {
			select {
			case queue <- n:
			default:
				s.log.Info("notice dropped: the queue of the endpoint is full", "endpoint", i+1, "notice", n.ID)
				s.count(Dropped)
			}
		}
	}
}

// Start delivers notices until the context ends.
func (s *Sender) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	for i, queue := range s.queues {
		workers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case n := <-queue:
					s.deliver(ctx, i, n)
				}
			}
		})
	}
	workers.Wait()
	return nil
}

// deliver sends a notice to one endpoint, with further attempts after an error that may pass.
func (s *Sender) deliver(ctx context.Context, at int, n notify.Notice) {
	var err error
	for attempt := range attempts {
		if attempt > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(s.pause):
			}
		}
		var mayPass bool
		if mayPass, err = s.post(ctx, s.all[at], n); err == nil {
			s.count(Sent)
			return
		}
		if !mayPass {
			break
		}
	}
	s.log.Info("notice not delivered", "endpoint", at+1, "notice", n.ID, "error", err.Error())
	s.count(Lost)
}

// post sends a notice once, and reports whether the error may pass.
func (s *Sender) post(ctx context.Context, to Endpoint, n notify.Notice) (mayPass bool, err error) {
	kind := "application/cloudevents+json; charset=utf-8"
	var body []byte
	if to.chat {
		kind = "application/json; charset=utf-8"
		body, err = n.Chat()
	} else {
		body, err = n.CloudEvent()
	}
	if err != nil {
		return false, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the URL is invalid")
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("User-Agent", "kamino")
	answer, err := s.client.Do(request)
	if err != nil {
		return true, withoutURL(err)
	}
	_ = answer.Body.Close() // only the status counts
	if answer.StatusCode/100 == 2 {
		return false, nil
	}
	return answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests, fmt.Errorf("the endpoint answered with status %d", answer.StatusCode)
}

// withoutURL is a short cause of a failed request. The errors of net/http contain the URL.
func withoutURL(err error) error {
	var e *url.Error
	if !errors.As(err, &e) {
		return errors.New("the request failed")
	}
	if e.Timeout() {
		return errors.New("the endpoint does not answer in time")
	}
	return e.Err // the cause below the URL: an address, a certificate or a closed connection
}
