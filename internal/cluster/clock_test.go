package cluster

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestTheClockIsReadFromTheAPIServer(t *testing.T) {
	now := time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	for _, ahead := range []time.Duration{0, 4 * time.Minute, -4 * time.Minute, 6 * time.Minute, -3 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", now.Add(ahead).Format(http.TimeFormat))
			}))
			defer server.Close()
			reader := &clockReader{next: http.DefaultTransport, now: func() time.Time { return now }}
			c := &Connection{Skew: reader.skew}
			if err := c.CheckClock(); err != nil {
				t.Fatalf("before anything was heard: %v", err)
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := reader.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if got, isKnown := reader.skew(); !isKnown || got != ahead {
				t.Errorf("skew = %s (heard %t), want %s", got, isKnown, ahead)
			}
			err = c.CheckClock()
			if refused := ahead.Abs() > MaxSkew; (err != nil) != refused || refused && !errors.As(err, new(*Refused)) {
				t.Errorf("checkClock with %s: %v", ahead, err)
			}
			if err != nil && strings.Contains(err.Error(), "ahead of") != (ahead < 0) {
				t.Errorf("checkClock with %s says %q", ahead, err)
			}
		})
	}
}
